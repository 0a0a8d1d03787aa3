"""The generated five-domain set on disk: the devkit and our reader open it, and what they tell is true."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fed_core.data.nuscenes.domains import DOMAINS, domain_of, split_domains
from fed_core.data.nuscenes.sequence import NuScenesOptions, NuScenesSequence
from fed_core.data.nuscenes.tables import open_tables
from fed_core.errors import ConfigError, DataError
from fed_core.scenes.domains import GENERATED, KINDS, DomainOptions, generate
from fed_core.scenes.domains.dataset import open_scene, plan
from fed_core.types import DETECTION_CLASSES

if TYPE_CHECKING:
    from nuscenes.nuscenes import NuScenes

SMALL = DomainOptions(seed=3, train_scenes=(2, 1, 1, 1, 1), val_scenes=(1, 1, 1, 1, 1), keyframes=2)
ONE = replace(SMALL, domains=("E",), width=64, height=32, beams=8, azimuths=60)
TWO_CAMERAS = ("CAM_FRONT", "CAM_BACK")
#: Ranges of the detection protocol [m].
RANGES_M = {"pedestrian": 40, "motorcycle": 40, "bicycle": 40, "traffic_cone": 30, "barrier": 30}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("detection") / "data", SMALL)


@pytest.fixture(scope="module")
def tables(root: Path) -> "NuScenes":
    return open_tables(root)


def frames(root: Path, domain: str, split: str) -> NuScenesSequence:
    return NuScenesSequence(domain, root, NuScenesOptions(domain=domain, split=split, cameras=TWO_CAMERAS, sweeps=0))


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_the_devkit_itself_opens_it(root: Path) -> None:
    from nuscenes.nuscenes import NuScenes

    devkit = NuScenes(version=GENERATED, dataroot=str(root), verbose=False)

    assert len(devkit.scene) == 11 and len(devkit.sample) == 22
    scans = [data for data in devkit.sample_data if data["channel"] == "LIDAR_TOP"]
    assert sum(data["is_key_frame"] for data in scans) == 22 and len(scans) == 44  # one scan before each keyframe
    splits = json.loads((root / GENERATED / "splits.json").read_text())
    assert splits["val"] == [f"scene-{letter}-val-000" for letter in "abcde"]
    assert sorted(splits["train"] + splits["val"]) == sorted(scene["name"] for scene in devkit.scene)
    assert sorted(path.name for path in root.iterdir()) == ["recipe.json", "samples", "sweeps", GENERATED]
    for data in devkit.sample_data:
        assert (root / data["filename"]).is_file()


def test_all_five_domains_are_told_from_description_and_log(tables: "NuScenes") -> None:
    counts = {name: [len(parts["train"]), len(parts["val"])] for name, parts in split_domains(tables).items()}
    assert counts == dict(zip(DOMAINS.values(), ([2, 1], [1, 1], [1, 1], [1, 1], [1, 1]), strict=True))
    for letter, kind in KINDS.items():
        assert domain_of(kind.city.location, kind.description) == kind.code == DOMAINS[letter]


def test_default_sizes_are_skewed_like_the_papers() -> None:
    options = DomainOptions()
    for counts, published in (
        (options.train_scenes, (265, 125, 226, 71, 13)),
        (options.val_scenes, (53, 24, 58, 12, 3)),
    ):
        assert list(np.argsort(counts)) == list(np.argsort(published))
        share, wanted = (np.array(c) / sum(c) for c in (counts, published))
        assert np.abs(share - wanted).max() < 0.05
    assert len(list(plan(options))) == 85


def test_classes_are_absent_where_the_paper_has_one_three_and_six_fewer(root: Path) -> None:
    for domain, present in zip(DOMAINS.values(), (10, 10, 9, 7, 4), strict=True):
        found = set()
        for frame in frames(root, domain, "val"):
            far = np.hypot(*frame.boxes.centres[:, :2].T)
            for label, distance, hit in zip(frame.boxes.labels, far, frame.boxes.num_points, strict=True):
                name = DETECTION_CLASSES[int(label)]
                if hit and distance < RANGES_M.get(name, 50):  # what the evaluation keeps
                    found.add(name)
        assert len(found) == present, (domain, found)


def test_cities_differ_in_traffic() -> None:
    """More than twice the cars in Boston, about three times the motorcycles in Singapore (spec 7.1)."""
    options = DomainOptions(train_scenes=(24, 0, 24, 0, 0), val_scenes=(0,) * 5)
    count = {"A": {"car": 0, "motorcycle": 0}, "C": {"car": 0, "motorcycle": 0}}
    for planned in plan(options):
        cast = open_scene(planned, options).cast
        for actor in cast.others:
            if abs(actor.place[0] - cast.ego.place[0]) < 50:
                kind = actor.kind.split("_")[0]
                kind = "car" if kind in ("compact", "saloon", "van") else kind
                if kind in count["A"]:
                    count[planned.letter][kind] += 1
    assert count["A"]["car"] > 2 * count["C"]["car"]
    assert count["C"]["motorcycle"] > 2.5 * count["A"]["motorcycle"]


def test_points_in_boxes_are_those_that_the_devkit_counts(root: Path, tables: "NuScenes") -> None:
    from nuscenes.utils.data_classes import LidarPointCloud
    from nuscenes.utils.geometry_utils import points_in_box

    hits = 0
    for sample in tables.sample[::5]:
        token = sample["data"]["LIDAR_TOP"]
        path, boxes, _ = tables.get_sample_data(token)
        points = LidarPointCloud.from_file(path).points[:3].astype(float)
        for box in boxes:
            told = tables.get("sample_annotation", box.token)["num_lidar_pts"]
            assert abs(int(points_in_box(box, points).sum()) - told) <= 1  # a point may lie on a face
            hits += told > 5
    assert hits > 20


def test_velocities_are_differences_of_centres_and_fit_the_attributes(root: Path, tables: "NuScenes") -> None:
    seen = set()
    for record in tables.sample_annotation:
        if not record["next"]:
            continue
        later = tables.get("sample_annotation", record["next"])
        speed = np.linalg.norm(np.subtract(later["translation"], record["translation"])[:2]) / 0.5
        names = [tables.get("attribute", token)["name"] for token in record["attribute_tokens"]]
        category = record["category_name"]
        assert bool(names) == (not category.startswith("movable_object"))
        for name in names:
            seen.add(name)
            assert not name.endswith((".moving",)) or speed > 0.2, (category, name, speed)
            assert not name.endswith((".parked", ".stopped", ".standing", "without_rider")) or speed < 1e-6
    assert seen == {"vehicle.moving", "vehicle.parked", "vehicle.stopped", "pedestrian.moving", "pedestrian.standing",
                    "cycle.with_rider", "cycle.without_rider"}  # fmt: skip
    planned = next(iter(plan(SMALL)))
    made = open_scene(planned, SMALL).keyframe(0, 0, "").frame.boxes
    read = NuScenesSequence("a", root, NuScenesOptions(scenes=(planned.name,), cameras=TWO_CAMERAS))[0].boxes
    known = np.isfinite(read.velocities).all(1)  # what enters in the second keyframe has no track
    np.testing.assert_allclose(read.velocities[known], made.velocities[known], atol=1e-6)
    assert known.mean() > 0.8 and np.abs(made.velocities).max() > 3


def test_the_reader_gives_back_what_was_recorded(root: Path) -> None:
    planned = next(iter(plan(SMALL)))
    made = open_scene(planned, SMALL).keyframe(1, 0, "").frame
    read = NuScenesSequence("a", root, NuScenesOptions(scenes=(planned.name,), cameras=TWO_CAMERAS, sweeps=1))[1]

    np.testing.assert_array_equal(read.points[read.points[:, 4] == 0][:, :4], made.points[:, :4])
    assert 0.2 < read.points[:, 4].max() < 0.3  # the scan between the keyframes
    np.testing.assert_allclose(read.lidar_to_camera, made.lidar_to_camera, atol=1e-9)
    np.testing.assert_allclose(read.boxes.centres, made.boxes.centres, atol=1e-6)
    np.testing.assert_allclose(np.cos(read.boxes.yaws - made.boxes.yaws), 1.0, atol=1e-9)
    difference = np.abs(np.stack(read.images).astype(int) - np.stack(made.images))
    assert difference.mean() < 4  # JPEG


def test_nights_are_darker_and_rain_costs_points(root: Path) -> None:
    light: dict[str, float] = {}
    points: dict[str, float] = {}
    for domain in DOMAINS.values():
        found = list(frames(root, domain, "train"))
        light[domain] = float(np.mean([image.mean() for frame in found for image in frame.images]))
        points[domain] = float(np.mean([len(frame.points) for frame in found]))
    day = min(value for domain, value in light.items() if "day" in domain)
    night = max(value for domain, value in light.items() if "night" in domain)
    assert night < 0.75 * day
    clear = min(value for domain, value in points.items() if "clear" in domain)
    rain = max(value for domain, value in points.items() if "rain" in domain)
    assert rain < 0.85 * clear


def test_the_same_seed_gives_the_same_bytes_and_a_domain_stands_alone(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        generate(tmp_path / "a", ONE, stop)
    assert not (tmp_path / "a" / GENERATED).exists()
    told: list[tuple[int, int]] = []
    generate(tmp_path / "a", ONE, lambda done, total: told.append((done, total)))
    generate(tmp_path / "b", ONE)
    assert told == [(2, 4), (3, 4), (4, 4)]  # the first scene was finished
    assert content(tmp_path / "a") == content(tmp_path / "b")
    generate(tmp_path / "b", ONE, lambda done, total: pytest.fail("a finished folder is left alone"))

    both = content(generate(tmp_path / "c", replace(ONE, domains=("D", "E"))))
    alone = {name: data for name, data in content(tmp_path / "a").items() if not name.endswith(".json")}
    assert alone and all(both[name] == data for name, data in alone.items())
    assert (
        generate(tmp_path / "d", replace(ONE, seed=4))
        and content(tmp_path / "d").keys() == content(tmp_path / "b").keys()
    )
    other = [name for name, data in alone.items() if content(tmp_path / "d")[name] == data]
    assert not other


def test_no_two_scenes_are_the_same(root: Path, tables: "NuScenes") -> None:
    starts = {}
    for scene in tables.scene:
        sample = tables.get("sample", scene["first_sample_token"])
        data = tables.get("sample_data", sample["data"]["CAM_FRONT"])
        starts[(root / data["filename"]).read_bytes()] = tuple(
            tables.get("ego_pose", data["ego_pose_token"])["translation"]
        )
    assert len(starts) == len(set(starts.values())) == len(tables.scene)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    with pytest.raises(DataError, match="full is not empty; choose a new folder"):
        generate(tmp_path / "full", ONE)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "recipe.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(DataError, match="other holds data of another recipe"):
        generate(tmp_path / "other", ONE)


def test_options_are_checked() -> None:
    for change, words in (
        ({"domains": ("F",)}, "no generated domain is called 'F'; known: A, B, C, D, E"),
        ({"domains": ("A", "A")}, "name each domain once"),
        ({"domains": ()}, "name each domain once"),
        ({"cameras": ("CAM_TOP",)}, "no camera is called 'CAM_TOP'; known: CAM_FRONT"),
        ({"cameras": ()}, "name each camera once"),
        ({"train_scenes": (1, 1)}, "train_scenes is .1, 1.; give 5 counts"),
        ({"val_scenes": (1, 1, 1, 1, -1)}, "val_scenes .* none below 0"),
        ({"train_scenes": (0,) * 5, "val_scenes": (0,) * 5}, "have no scenes at all"),
        ({"keyframes": 1}, "keyframes is 1; it must lie between 2 and 1000"),
    ):
        with pytest.raises(ConfigError, match=words):
            replace(SMALL, **change)  # type: ignore[arg-type]
