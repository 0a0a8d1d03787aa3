"""OPV2V folders as frames with all cameras: which files are read, and what is said about broken ones."""

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from fed_core.config import from_tree
from fed_core.data.opv2v import files
from fed_core.data.opv2v.poses import MAX_BYTES, read_rig, read_tree
from fed_core.data.opv2v.sequence import BevOptions, BevSource, Opv2vSequence, open_bev
from fed_core.errors import ConfigError, DataError
from tests.core.data.opv2v_trees import INTRINSIC, MOUNTS, SCENARIO, SMALL, pose_tree, write_frame, write_image

OTHER = "2021_08_18_09_02_56"


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """A client with two scenarios: vehicles 641 and 650 with two frames and one, and vehicle 7."""
    for vehicle, numbers in (("641", (68, 70)), ("650", (68,))):
        for number in numbers:
            write_frame(tmp_path / SCENARIO / vehicle, f"{number:06d}")
    write_frame(tmp_path / OTHER / "7", "000001")
    return tmp_path


def options(**changes: Any) -> BevOptions:
    return from_tree(BevOptions, {"map_size": 16, **changes})


def opened(folder: Path, **changes: Any) -> Opv2vSequence:
    return open_bev({"data": str(folder), "options": {"map_size": 16, **changes}}, folder)


def brightness(images: tuple[Any, ...]) -> list[int]:
    return [int(image[0, 0, 0]) for image in images]


def test_scenarios_follow_each_other_with_the_first_vehicle_of_each(client: Path) -> None:
    sequence = opened(client)

    assert [(sequence.scenario(i), sequence[i].vehicle) for i in range(len(sequence))] == [
        (SCENARIO, "641"),
        (SCENARIO, "641"),
        (OTHER, "7"),
    ]
    assert sequence.name == client.name and sequence.source == str(client)
    with pytest.raises(IndexError):
        sequence[3]


def test_a_frame_has_all_cameras_and_their_calibration(client: Path) -> None:
    frame = opened(client)[0]

    assert frame.cameras == (0, 1, 2, 3)
    assert brightness(frame.images) == [1, 11, 21, 31]
    assert all(image.shape == (6, 8, 3) and image.dtype == np.uint8 for image in frame.images)
    np.testing.assert_allclose(frame.extrinsics[:, :3, 3], [MOUNTS[k][:3] for k in range(4)])
    np.testing.assert_allclose(frame.intrinsics, [SMALL] * 4)
    assert not frame.mask.any() and frame.mask.shape == (16, 16)  # an empty mask is a sample too
    assert frame.known.all()
    assert frame.metres_per_cell == 6.25
    assert frame.stamp_ns == 1629152814 * 10**9 + 6_800_000_000


def test_cameras_keep_their_own_calibration_when_some_are_left_out(client: Path) -> None:
    frame = opened(client, cameras=[0, 3])[0]

    assert frame.cameras == (0, 3) and brightness(frame.images) == [1, 31]
    np.testing.assert_allclose(frame.extrinsics[1, :3, 3], [-2, 0, 1.5])
    np.testing.assert_allclose(frame.extrinsics[1, :3, 0], [-1, 0, 0], atol=1e-12)  # it looks back


def test_cells_without_a_camera_are_unknown(client: Path) -> None:
    front = opened(client, cameras=[0])[0].known
    assert front[2, 8] and not front[13, 8] and not front[8, 2] and not front[8, 14]
    assert opened(client, cameras=[0], amcm_mask="off")[0].known.all()
    wedge = opened(client, cameras=[0], amcm_mask="fov")[0].known
    assert wedge[2, 8] and not wedge[13, 8]
    coarse = opened(client, cameras=[0], cells=4)[0].known
    assert coarse.shape == (4, 4) and coarse[0, 1] and not coarse[3].any()


def test_the_label_chooses_the_mask(client: Path) -> None:
    dynamic = np.zeros((16, 16), np.uint8)
    dynamic[3, 5] = 1  # smoothed borders are faint, and count
    cv2.imwrite(str(client / SCENARIO / "641" / "000068_bev_dynamic.png"), dynamic)

    mask = opened(client, label="dynamic")[0].mask

    np.testing.assert_array_equal(np.argwhere(mask), [[3, 5]])
    assert not opened(client, label="visible")[0].mask.any()
    assert not opened(client, label="lane")[0].mask.any()
    np.testing.assert_array_equal(np.argwhere(opened(client, label="dynamic", cells=4)[0].mask), [[0, 1]])


def test_roadside_units_faulty_scenarios_and_additional_files_are_left_out(client: Path) -> None:
    write_frame(client / SCENARIO / "-1", "000068")
    write_frame(client / "2021_09_09_13_20_58" / "5", "000001")
    (client / SCENARIO / "641" / "000068_additional.yaml").write_text("x: 1")
    (client / SCENARIO / "data_protocol.yaml").write_text("x: 1")
    (client / "notes").mkdir()

    sequence = opened(client, vehicle="every")

    assert [sequence[i].vehicle for i in range(len(sequence))] == ["641", "641", "650", "7"]


def test_training_draws_a_vehicle_for_each_epoch(client: Path) -> None:
    epochs = [opened(client, vehicle="drawn", seed=3, epoch=epoch) for epoch in range(12)]

    assert {sequence[0].vehicle for sequence in epochs} == {"641", "650"}
    assert {len(sequence) for sequence in epochs} == {2, 3}
    again = [opened(client, vehicle="drawn", seed=3, epoch=epoch) for epoch in range(12)]
    assert [sequence[0].vehicle for sequence in again] == [sequence[0].vehicle for sequence in epochs]
    assert [opened(client, epoch=epoch)[0].vehicle for epoch in range(3)] == ["641"] * 3


def test_the_draw_of_a_scenario_does_not_depend_on_the_others(client: Path) -> None:
    for epoch in range(6):
        chosen = BevOptions(map_size=16, vehicle="drawn", epoch=epoch)
        alone = Opv2vSequence("a", [client / SCENARIO], chosen)
        both = Opv2vSequence("b", [client / OTHER, client / SCENARIO], chosen)
        assert both[1].vehicle == alone[0].vehicle


def test_a_source_takes_a_part(client: Path) -> None:
    tree = {"data": str(client), "options": {"map_size": 16}}
    assert len(open_bev({**tree, "scenarios": [OTHER]}, client)) == 1
    assert len(open_bev({**tree, "start": 1, "step": 2}, client)) == 1
    assert len(open_bev(BevSource(str(client / SCENARIO), options=BevOptions(map_size=16)), client)) == 2
    with pytest.raises(DataError, match=f"has no scenario 2021_01_01_00_00_00; it has {SCENARIO}, {OTHER}"):
        open_bev({**tree, "scenarios": ["2021_01_01_00_00_00"]}, client)
    with pytest.raises(DataError, match="has no frame in the part that is asked for"):
        open_bev({**tree, "start": 9}, client)


def test_folders_without_data_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is not a folder"):
        opened(tmp_path / "nowhere")
    with pytest.raises(DataError, match="holds no scenario; its folders must be named yyyy_mm_dd_hh_mm_ss"):
        opened(tmp_path)
    (tmp_path / SCENARIO / "-1").mkdir(parents=True)
    with pytest.raises(DataError, match=f"scenario .*{SCENARIO} has no folder of a vehicle"):
        opened(tmp_path)
    (tmp_path / SCENARIO / "641").mkdir()
    with pytest.raises(DataError, match=r"vehicle 641 has no frames \(NUMBER.yaml\)"):
        opened(tmp_path)


def test_scenarios_are_found_at_any_depth_and_must_be_there_once(client: Path, tmp_path: Path) -> None:
    write_frame(tmp_path / "train" / "client_1" / "2021_08_22_21_41_24" / "1", "000001")
    assert set(files.find_scenarios(tmp_path)) == {SCENARIO, OTHER, "2021_08_22_21_41_24"}
    write_frame(tmp_path / "test" / SCENARIO / "1", "000001")
    with pytest.raises(DataError, match=f"scenario {SCENARIO} is in .* and .*test"):
        files.find_scenarios(tmp_path)


@pytest.mark.parametrize(
    ("cameras", "told"),
    [
        ([], r"cameras is \[\]; name each camera once"),
        ([3, 0], r"cameras is \[3, 0\]; name each camera once, in order"),
        ([0, 0], r"cameras is \[0, 0\]; name each camera once"),
        ([0, 4], r"cameras is \[0, 4\]; vehicles have the cameras 0 to 3"),
    ],
)
def test_camera_lists_are_checked(cameras: list[int], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        options(cameras=cameras)


def test_other_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="cells is 5; it must divide map_size, which is 16"):
        options(cells=5)
    with pytest.raises(ConfigError, match="label is 'cars'; choose one of visible, dynamic, static, lane"):
        options(label="cars")


def test_missing_and_broken_files_are_told(client: Path) -> None:
    vehicle = client / SCENARIO / "641"
    sequence = opened(client)
    (vehicle / "000068_camera2.png").unlink()
    with pytest.raises(DataError, match=r"cannot read .*000068_camera2.png: No such file"):
        sequence[0]
    assert opened(client, cameras=[0, 1])[0].cameras == (0, 1)  # only what is asked for must be there
    (vehicle / "000068_camera2.png").write_bytes((vehicle / "000068_camera1.png").read_bytes()[:40])
    with pytest.raises(DataError, match=r"000068_camera2.png cannot be read as an image; the file is broken or cut"):
        sequence[0]


def test_masks_of_another_size_are_told(client: Path) -> None:
    mask = client / SCENARIO / "641" / "000068_bev_visibility.png"
    cv2.imwrite(str(mask), np.zeros((16, 12), np.uint8))
    with pytest.raises(DataError, match=r"_bev_visibility.png is 12x16; masks of this data set are 16x16"):
        opened(client)[0]
    mask.write_bytes(b"")
    with pytest.raises(DataError, match=r"000068_bev_visibility.png is empty"):
        opened(client)[0]
    mask.unlink()
    with pytest.raises(DataError, match=r"cannot read .*_bev_visibility.png: No such file"):
        opened(client)[0]


def test_a_mask_without_any_vehicle_is_a_frame_like_others(client: Path) -> None:
    found = opened(client)[0]
    assert found.mask.shape == (16, 16) and not found.mask.any() and found.known.all()


def written(path: Path, tree: Any) -> Path:
    path.write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree))
    return path


def camera(**changes: Any) -> dict[str, Any]:
    return {"cords": [0.0] * 6, "intrinsic": INTRINSIC, **changes}


BROKEN = {
    "no camera": (pose_tree(camera1=None), "has no camera1; it has camera0, camera2, camera3"),
    "camera is a word": (pose_tree(camera1="front"), "has no camera1"),
    "no pose": (pose_tree(true_ego_pos=None), "true_ego_pos is missing; expected 6 numbers"),
    "short pose": (pose_tree(true_ego_pos=[1, 2, 3]), "true_ego_pos must be 6 numbers, found 3"),
    "long pose": (pose_tree(true_ego_pos=[1] * 7), "true_ego_pos must be 6 numbers"),
    "not finite": (pose_tree(true_ego_pos=[float("nan")] * 6), "true_ego_pos has a number that is not finite"),
    "another map": (pose_tree(camera1=camera(cords=[5e3, 0, 0, 0, 0, 0])), "camera1.cords is 1000 m or more from true"),
    "beyond all numbers": (pose_tree(true_ego_pos=[1e308, 1e308, 0, 0, 45, 0]), "cords is 1000 m or more from true"),
    "words": (pose_tree(camera1=camera(cords=["a"] * 6)), "camera1.cords must be 6 numbers"),
    "yes and no": (pose_tree(camera1=camera(cords=[True] * 6)), "camera1.cords must be 6 numbers"),
    "ragged": (pose_tree(camera1=camera(intrinsic=[[1, 0], [1]])), "camera1.intrinsic must be 3 x 3 numbers"),
    "no matrix": (pose_tree(camera1={"cords": [0.0] * 6}), "camera1.intrinsic is missing; expected 3 x 3 numbers"),
    "singular": (
        pose_tree(camera1=camera(intrinsic=[[300, 0, 400], [300, 1e-9, 400], [0, 0, 1]])),
        "camera1.intrinsic is singular or has no focal length",
    ),
    "zeros": (pose_tree(camera1=camera(intrinsic=np.zeros((3, 3)).tolist())), "camera1.intrinsic is singular"),
    "last row": (
        pose_tree(camera1=camera(intrinsic=[[300, 0, 4], [0, 300, 3], [0, 0, 2]])),
        "camera1.intrinsic must end with the row 0 0 1",
    ),
    "a list": ("- 1\n- 2\n", "holds no keys and values, so no poses"),
    "empty": ("", "holds no keys and values, so no poses"),
    "no yaml": ("a: [1, 2", "is not valid YAML"),
    "an object": ("a: !!python/object/apply:os.system ['echo']", "is not valid YAML"),
    "deep": ("[" * 50_000, "is not valid YAML"),
    "deep blocks": ("- " * 50_000, "is not valid YAML"),
    "control bytes": ("a: \x00\x01", "is not valid YAML"),
    "holds itself": ("true_ego_pos: &a [*a, *a, *a, *a, *a, *a]", "true_ego_pos must be 6 numbers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_poses_end_in_one_clear_line(case: str, tmp_path: Path) -> None:
    tree, told = BROKEN[case]
    with pytest.raises(DataError) as caught:
        read_rig(written(tmp_path / "000001.yaml", tree), [0, 1])
    assert told in str(caught.value) and "000001.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_huge_files_are_refused_before_they_are_parsed(tmp_path: Path) -> None:
    path = tmp_path / "000001.yaml"
    path.touch()
    os.truncate(path, MAX_BYTES + 1)
    with pytest.raises(DataError, match="has more than 4 MiB; that is no file of poses"):
        read_tree(path)


def test_many_aliases_cost_nothing(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 30)]
    path = written(tmp_path / "000001.yaml", "\n".join([*lines, "true_ego_pos: *a29"]))
    with pytest.raises(DataError, match="true_ego_pos must be 6 numbers"):
        read_rig(path, [0])


def test_numbers_written_as_text_count(tmp_path: Path) -> None:
    # YAML 1.1 reads 1e-05, without a point, as text.
    text = yaml.safe_dump(pose_tree(true_ego_pos=None)) + "true_ego_pos: [1e-05, 0, 0, 0, 0, 0]\n"
    rig = read_rig(written(tmp_path / "000001.yaml", text), [0])
    np.testing.assert_allclose(rig.extrinsics[0, :3, 3], [2.5 - 1e-5, 0, 1.0])


def test_real_pictures_load_as_the_cameras_of_a_vehicle(shared_data: Path, tmp_path: Path) -> None:
    pictures = sorted((shared_data / "opv2v_frames").glob("contributer_641_*_camera*.png"))
    if len(pictures) != 8:
        pytest.skip("opv2v_frames is not in the folder of recordings")
    vehicle = tmp_path / SCENARIO / "641"
    for frame in ("000759", "000767"):
        write_frame(vehicle, frame, intrinsic=INTRINSIC)
        for k in range(4):
            (vehicle / f"{frame}_camera{k}.png").unlink()
            source = shared_data / "opv2v_frames" / f"contributer_641_{frame}_camera{k}.png"
            (vehicle / f"{frame}_camera{k}.png").symlink_to(source)

    sequence = opened(tmp_path)

    assert len(sequence) == 2
    frames = [sequence[0], sequence[1]]
    assert all(image.shape == (600, 800, 3) for frame in frames for image in frame.images)
    assert all(30 < image.mean() < 220 for frame in frames for image in frame.images)
    # Eight different pictures, and blue sky above: the channels are in RGB order.
    assert len({image.tobytes() for frame in frames for image in frame.images}) == 8
    sky = frames[0].images[0][:60].mean((0, 1))
    assert sky[2] >= sky[0]


def test_pictures_of_different_sizes_in_one_frame(client: Path) -> None:
    write_image(client / SCENARIO / "641" / "000068_camera3.png", 31, (9, 7))
    assert [image.shape[:2] for image in opened(client)[0].images] == [(6, 8), (6, 8), (6, 8), (7, 9)]


def test_a_matrix_of_another_picture_size_is_told(client: Path) -> None:
    write_frame(client / OTHER / "7", "000001", intrinsic=INTRINSIC)
    with pytest.raises(
        DataError, match=r"000001_camera0.png is 8x6, but the optical axis of camera0 .* at \(400, 300\)"
    ):
        opened(client)[2]


def test_a_picture_that_was_made_larger_without_its_matrix_is_told(client: Path) -> None:
    write_image(client / SCENARIO / "641" / "000068_camera3.png", 31, (16, 12))
    with pytest.raises(
        DataError, match=r"is 16x12, but the optical axis of camera3 .* at \(4, 3\), far from its centre"
    ):
        opened(client)[0]
