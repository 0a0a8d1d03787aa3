"""The stand-in for OPV2V on disk: what the reader makes of it, that it repeats, and that it goes on."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fed_core.data.opv2v import files
from fed_core.data.opv2v.cameras import cell_centres, project, to_cells
from fed_core.data.opv2v.masks import read_mask
from fed_core.data.opv2v.poses import read_rig, read_tree, world_from
from fed_core.data.opv2v.sequence import BevOptions
from fed_core.data.opv2v.use_cases import ClientFolders, list_clients
from fed_core.errors import ConfigError, DataError
from fed_core.scenes.driving import DrivingOptions, generate
from fed_core.scenes.driving.carriers import CLIENTS, MOUNTS
from fed_core.scenes.driving.dataset import plan

Floats = npt.NDArray[np.float64]

SMALL = DrivingOptions(seed=2, frames=4, test_frames=1, width=64, height=48, min_visible_px=8)
ONE = replace(SMALL, clients=("car_a",), frames=2, scene_frames=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("bev") / "data", SMALL)


@pytest.fixture(scope="module")
def clients(written: Path) -> dict[str, ClientFolders]:
    return {found.client.name: found for found in list_clients(written)}


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_the_reader_opens_what_was_written(clients: dict[str, ClientFolders]) -> None:
    assert list(clients) == ["bus", "truck", "car_a", "car_b"]
    for name, found in clients.items():
        assert found.client.vehicle == CLIENTS[name].vehicle
        for split in files.SPLITS:
            frame = found.open(split)[0]
            assert [image.shape for image in frame.images] == [(48, 64, 3)] * 4
            assert frame.mask.shape == (256, 256) and frame.known.all()
            assert all(image.std() > 10 for image in frame.images)
            mounts = MOUNTS[CLIENTS[name].vehicle]
            np.testing.assert_allclose(frame.extrinsics[:, :3, 3], [(m.x, m.y, m.z) for m in mounts], atol=1e-6)
            headings = np.degrees(np.arctan2(frame.extrinsics[:, 1, 0], frame.extrinsics[:, 0, 0]))
            np.testing.assert_allclose((headings - [m.yaw_deg for m in mounts] + 180) % 360, 180, atol=1e-6)
            np.testing.assert_allclose(frame.intrinsics[:, 0, 0], 32 / np.tan(np.radians(50)))
            np.testing.assert_allclose(frame.intrinsics[:, :2, 2], [[32, 24]] * 4)


def listed(pose_file: Path) -> Iterator[tuple[Floats, Floats]]:
    """Yield pose (4, 4) from box to carrier and half sizes (3,) of the listed vehicles, by the reader's own poses."""
    tree = read_tree(pose_file)
    to_carrier = np.linalg.inv(world_from(tree["true_ego_pos"]))
    for vehicle in tree["vehicles"].values():
        yield to_carrier @ world_from([*vehicle["location"], *vehicle["angle"]]), np.array(vehicle["extent"])


def corners_of(pose: Floats, half: Floats) -> Floats:
    """Return the corners (8, 3) of a box in metres from the carrier."""
    signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (0, 2)])
    return (signs * half) @ pose[:3, :3].T + pose[:3, 3]


def pose_files(clients: dict[str, ClientFolders]) -> list[Path]:
    return [path for found in clients.values() for scenario in found.train for path in scenario.rglob("*.yaml")]


def test_masks_show_listed_vehicles_and_nothing_else(clients: dict[str, ClientFolders]) -> None:
    cells = cell_centres(256)
    whole = 0
    for path in pose_files(clients):
        mask = read_mask(path.with_name(path.stem + "_bev_visibility.png"), 256)
        near = np.zeros_like(mask)
        for pose, half in listed(path):
            local = (cells - pose[:2, 3]) @ pose[:2, :2]
            margin_m = (half[:2] - np.abs(local)).min(-1)  # above zero inside the base
            near |= margin_m > -1.6 * 100 / 256
            inside = margin_m > 0
            whole += int(inside.any() and bool(mask[inside].all()))
        assert not (mask & ~near).any()  # smoothed borders reach 1.6 cells at most
        assert mask.any()
    assert whole >= 8


def test_pictures_show_vehicles_where_the_reader_projects_them(clients: dict[str, ClientFolders]) -> None:
    """Listed vehicles were seen by a camera, so each must project into the picture of at least one."""
    seen = 0
    for path in pose_files(clients):
        rig = read_rig(path, range(4))
        for corners in (corners_of(*box) for box in listed(path)):
            inside = False
            for matrix, pose in zip(rig.intrinsics, rig.extrinsics, strict=True):
                pixels, depth = project(corners, matrix, pose)
                ahead = pixels[depth > 0]
                if len(ahead):
                    inside |= bool((ahead.min(0) < (64, 48)).all() and (ahead.max(0) > (0, 0)).all())
            assert inside
            seen += 1
    assert seen >= 8


def test_dynamic_static_and_lane_maps(clients: dict[str, ClientFolders]) -> None:
    (folder,) = clients["car_a"].train
    mask = {
        label: clients["car_a"].open("train", BevOptions(label=label))[0].mask
        for label in ("dynamic", "static", "lane")
    }
    assert folder.is_dir()
    assert mask["static"][128, 128] and 0.05 < mask["static"].mean() < 0.5  # the carrier stands on the road
    assert 0 < mask["lane"].mean() < mask["static"].mean()
    assert mask["dynamic"].any() and not (mask["dynamic"] & ~mask["static"]).mean() > 0.01


def test_sizes_follow_the_ratio_of_the_paper() -> None:
    assert DrivingOptions(frames=21635).frames_of_clients() == {
        "bus": 1398,
        "truck": 1459,
        "car_a": 11636,
        "car_b": 7142,
    }
    for frames in (4, 5, 37, 1024):
        counts = DrivingOptions(frames=frames).frames_of_clients()
        assert min(counts.values()) >= 1
        assert sum(counts.values()) == frames
    assert DrivingOptions(frames=1024).frames_of_clients() == {"bus": 66, "truck": 69, "car_a": 551, "car_b": 338}


def test_no_scenario_both_trains_and_tests() -> None:
    planned = list(plan(DrivingOptions(frames=400, test_frames=20)))
    names = [scenario.folder.name for scenario in planned]
    assert len(set(names)) == len(names) and all(files.is_scenario(name) for name in names)
    assert max(scenario.frames for scenario in planned) <= 16
    assert len({scenario.words for scenario in planned}) == len(planned)
    test = [scenario for scenario in planned if scenario.folder.parts[0] == "test"]
    assert sum(scenario.frames for scenario in test) == 80


def test_a_client_does_not_depend_on_which_others_are_generated() -> None:
    alone = {s.words for s in plan(DrivingOptions(clients=("car_b",), frames=64))}
    both = {s.words for s in plan(DrivingOptions(clients=("bus", "car_b"), frames=77)) if s.client == "car_b"}
    assert {words[1] for words in alone} == {words[1] for words in both} == {3}


def test_the_same_recipe_gives_the_same_bytes_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        assert total == 3
        raise StoppedError

    with pytest.raises(StoppedError):
        generate(tmp_path / "a", ONE, stop)
    assert not (tmp_path / "a" / "use_case.yaml").exists()
    (first,) = (tmp_path / "a").rglob("*.yaml")
    written_at = first.stat().st_mtime_ns
    told: list[tuple[int, int]] = []
    generate(tmp_path / "a", ONE, lambda done, total: told.append((done, total)))
    generate(tmp_path / "b", ONE)

    assert told == [(1, 3), (2, 3), (3, 3)]
    assert first.stat().st_mtime_ns == written_at  # what was there stays
    assert content(tmp_path / "a") == content(tmp_path / "b")
    generate(tmp_path / "b", ONE, lambda done, total: pytest.fail("a finished folder is left alone"))


def test_a_frame_without_its_poses_is_written_again(tmp_path: Path, written: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written, copy)
    (copy / "use_case.yaml").unlink()
    pose = next(path for path in copy.rglob("*.yaml") if "client_4" in str(path))
    pose.unlink()
    generate(copy, SMALL)
    assert content(copy) == content(written)


def test_another_seed_is_another_world(tmp_path: Path, written: Path) -> None:
    other = generate(tmp_path / "other", replace(ONE, seed=9, frames=1))
    mine = next(written.glob("train/client_3/*/*/*_camera0.png")).read_bytes()
    assert next(other.glob("train/client_1/*/*/*_camera0.png")).read_bytes() != mine


def test_two_carriers_are_on_each_others_maps(tmp_path: Path) -> None:
    options = replace(ONE, frames=1, carriers=2)
    root = generate(tmp_path / "two", options)
    (found,) = list_clients(root)
    every = found.open("train", BevOptions(vehicle="every"))
    assert [every[k].vehicle for k in range(len(every))] == ["100", "101"]
    assert len(found.open("train")) == 1
    one, two = (read_tree(path) for path in sorted(found.train[0].rglob("*.yaml")))
    assert 100 not in one["vehicles"] and 101 not in two["vehicles"]
    # The second stands on the first one's map.
    place = (np.linalg.inv(world_from(one["true_ego_pos"])) @ world_from(two["true_ego_pos"]))[:2, 3]
    row, column = np.round(to_cells(place[None], 256)[0]).astype(int)
    assert found.open("train", BevOptions(label="dynamic"))[0].mask[row, column]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda: DrivingOptions(clients=("bus", "bus")), "name each client once"),
        (lambda: DrivingOptions(clients=("tram",)), "no driving client is called 'tram'"),
        (lambda: DrivingOptions(width=4), "DrivingOptions.width is 4; it must lie between 16 and 1600"),
    ],
)
def test_options_are_checked(change: Callable[[], DrivingOptions], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        change()


def test_folders_of_others_are_left_alone(tmp_path: Path, written: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty; choose a new folder"):
        generate(tmp_path, ONE)
    with pytest.raises(DataError, match=r"holds data of another recipe \(recipe.json\)"):
        generate(written, replace(SMALL, seed=3))
    with pytest.raises(DataError, match="cannot write"):
        generate(tmp_path / "notes.txt" / "inside", ONE)
