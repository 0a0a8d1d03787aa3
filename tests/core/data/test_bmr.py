"""The BMR scenario from miniature trees of NYU Depth v2 and KITTI: who becomes a robot, frames, crop, bad trees."""

import re
from pathlib import Path

import numpy as np
import pytest

from fed_core.data.bmr.clients import bmr_clients, bmr_tests
from fed_core.data.bmr.kitti import kitti_camera, kitti_frames
from fed_core.data.bmr.nyu import nyu_frames, scene_type
from fed_core.data.bmr.splits import read_split
from fed_core.errors import DataError
from tests.core.data.bmr_trees import (
    DRIVES,
    TYPES,
    kitti_drive,
    kitti_line,
    kitti_tree,
    nyu_line,
    nyu_scene,
    nyu_tree,
    touch,
    write_lists,
)
from tests.core.data.conftest import save

LISTED = {
    "nyudepthv2_train_files_with_gt.txt": [nyu_line(f"{name}_000{n}", n) for n in (2, 1) for name in TYPES[:10]],
    "nyudepthv2_test_files_with_gt.txt": [
        nyu_line("office", 4, ""),
        nyu_line("foyer", 9, ""),
        nyu_line("office", 3, ""),
    ],
    "eigen_train_files_with_gt.txt": [kitti_line(drive, n) for n in (7, 5) for drive in DRIVES],
    "eigen_test_files_with_gt.txt": [kitti_line("2011_09_29_drive_0020_sync", n, depth=n != 6) for n in (8, 6, 5)],
}


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    return nyu_tree(tmp_path / "nyu"), kitti_tree(tmp_path / "kitti")


@pytest.fixture
def listed(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Trees that hold exactly what the lists name, with the scenes of NYU at the root and KITTI's drives by date."""
    nyu, kitti = tmp_path / "nyu", tmp_path / "kitti"
    for name in TYPES[:10]:
        nyu_scene(nyu / f"{name}_0001", range(1, 2))
        nyu_scene(nyu / f"{name}_0002", range(2, 3))
    nyu_scene(nyu / "test" / "office", range(3, 5))
    nyu_scene(nyu / "test" / "foyer", range(9, 10))
    for drive in DRIVES:
        kitti_drive(kitti, drive, range(5, 8))
    kitti_drive(kitti, "2011_09_29_drive_0020_sync", range(5, 9), tree="data_depth_annotated/val")
    return nyu, kitti, write_lists(tmp_path / "lists", LISTED)


def test_ten_largest_scene_types_and_drives_become_robots(roots: tuple[Path, Path]) -> None:
    clients = bmr_clients(*roots)

    assert [client.name for client in clients[:10]] == [f"nyu_{name}" for name in TYPES[:10]]
    assert [client.name for client in clients[10:]] == [f"kitti_{drive[:-5]}" for drive in DRIVES[:10]]
    assert [len(client.frames) for client in clients] == [*range(12, 2, -1), *range(11, 1, -1)]
    assert [client.group for client in clients] == ["indoor"] * 10 + ["outdoor"] * 10
    assert {(c.cap_m, c.crop, c.size) for c in clients} == {(10.0, "nyu", None), (80.0, "garg", (352, 1216))}
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", client.name) for client in clients)


def test_frames_come_scene_by_scene_in_time_order(roots: tuple[Path, Path]) -> None:
    bedroom, *_, drive = bmr_clients(*roots)

    order = [(pair.rgb.parent.name, pair.rgb.stem) for pair in bedroom.frames]
    assert order == [("bedroom_0001", f"rgb_{n:05d}") for n in range(1, 12)] + [("bedroom_0002b", "rgb_00007")]
    assert [pair.depth.stem for pair in bedroom.frames[:2]] == ["sync_depth_00001", "sync_depth_00002"]
    # The tenth drive: colour images before and after those with depth are left out, and 10 images are a second.
    assert [pair.rgb.name for pair in drive.frames] == ["0000000005.png", "0000000006.png"]
    assert drive.frames[1].stamp_ns - drive.frames[0].stamp_ns == 100_000_000


def test_many_frames_are_thinned_evenly(roots: tuple[Path, Path]) -> None:
    bedroom = bmr_clients(*roots, max_frames=3)[0]
    drive = bmr_clients(*roots, max_frames=3)[10]

    assert [pair.rgb.stem for pair in bedroom.frames] == ["rgb_00001", "rgb_00007", "rgb_00007"]
    assert [int(pair.rgb.stem) for pair in drive.frames] == [5, 10, 15]


def test_unseen_sequences_are_the_test_trees_by_type_and_drive(roots: tuple[Path, Path]) -> None:
    tests = bmr_tests(*roots)

    assert [test.name for test in tests] == [
        "nyu_foyer_test",
        "nyu_kitchen_test",
        "nyu_office_test",
        "kitti_2011_09_29_drive_0009_test",
        "kitti_2011_09_29_drive_0020_test",
    ]
    assert [len(test.frames) for test in tests] == [2, 2, 2, 3, 3]
    assert tests[0].info == {
        "role": "test",
        "platform": "handheld",
        "environment": "indoor",
        "site": "foyer",
        "data_set": "NYU Depth v2",
        "cap_m": "10",
        "d_min_m": "0.001",
        "crop": "nyu",
    }


def test_lists_choose_the_frames_and_skip_those_without_depth(listed: tuple[Path, Path, Path]) -> None:
    clients, tests = bmr_clients(*listed), bmr_tests(*listed)

    assert [len(client.frames) for client in clients] == [2] * 20
    assert {pair.rgb.stem for client in clients[10:] for pair in client.frames} == {"0000000005", "0000000007"}
    assert [(test.name, [pair.rgb.stem for pair in test.frames]) for test in tests] == [
        ("nyu_foyer_test", ["rgb_00009"]),
        ("nyu_office_test", ["rgb_00003", "rgb_00004"]),
        ("kitti_2011_09_29_drive_0020_test", ["0000000005", "0000000008"]),
    ]


def test_colour_of_the_2018_tree_and_depth_beside_raw_drives_are_found(tmp_path: Path) -> None:
    first, second = DRIVES[:2]
    touch(tmp_path / "data_rgb" / "val" / first / "image_02/data/0000000005.png")
    touch(tmp_path / "val" / first / "proj_depth/groundtruth/image_02/0000000005.png")
    touch(tmp_path / second[:10] / second / "image_02/data/0000000005.png")
    touch(tmp_path / second[:10] / second / "proj_depth/groundtruth/image_02/0000000005.png")
    line = f"data_rgb/val/{first}/image_02/data/0000000005.png {kitti_line(first, 5).split(' ', 1)[1]}"
    lists = write_lists(tmp_path / "lists", {"eigen_test_files_with_gt.txt": [line, kitti_line(second, 5)]})

    frames = kitti_frames(tmp_path, "test", lists)

    assert sorted(frames) == [first[:-5], second[:-5]]


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        ("living_room_0019", "living_room"),
        ("kitchen_0028b", "kitchen"),
        ("nyu_office_0", "nyu_office"),
        ("cafe", "cafe"),
    ],
)
def test_the_type_is_the_scene_without_its_number(scene: str, expected: str) -> None:
    assert scene_type(scene) == expected


def test_frames_open_with_units_camera_and_the_crop_of_kitti(roots: tuple[Path, Path]) -> None:
    nyu_root, kitti_root = roots
    drive = DRIVES[0]
    columns = np.broadcast_to(np.arange(1242, dtype=np.uint16), (375, 1242)).copy()
    columns[:23] = 60_000  # the crop leaves these rows out
    rgb = np.broadcast_to(np.arange(375, dtype=np.int64)[:, None, None] % 256, (375, 1242, 3)).astype(np.uint8)
    save(kitti_root / drive[:10] / drive / "image_02/data/0000000005.png", rgb)
    save(kitti_root / "train" / drive / "proj_depth/groundtruth/image_02/0000000005.png", columns)
    save(nyu_root / "sync/bedroom_0001/rgb_00001.jpg", np.zeros((480, 640, 3), np.uint8))
    save(nyu_root / "sync/bedroom_0001/sync_depth_00001.png", np.full((480, 640), 1500, np.uint16))
    clients = bmr_clients(nyu_root, kitti_root)

    indoor, outdoor = clients[0].open()[0], clients[10].open()[0]

    assert indoor.depth_m.shape == (480, 640)
    assert np.all(indoor.depth_m == np.float32(1.5))
    assert indoor.intrinsics[0].tolist() == [518.8579, 0.0, 325.58245]
    # 375 - 352 = 23 rows above, (1242 - 1216) / 2 = 13 columns on the left.
    assert outdoor.depth_m.shape == (352, 1216)
    assert outdoor.depth_m[0, [0, -1]].tolist() == [13 / 256, 1228 / 256]
    assert outdoor.rgb[0, 0, 0] == 23
    assert outdoor.rgb.shape == (352, 1216, 3)
    np.testing.assert_allclose(outdoor.intrinsics[:2, 2], [609.5593 - 13, 172.854 - 23])


def test_a_calibration_file_beats_the_known_camera_of_a_date(tmp_path: Path) -> None:
    rgb = touch(tmp_path / "2011_09_26" / DRIVES[0] / "image_02/data/0000000000.png")
    (tmp_path / "2011_09_26/calib_cam_to_cam.txt").write_text("P_rect_02: 700 0 600 44 0 701 170 0 0 0 1 0\n")

    assert kitti_camera(rgb)[:2].tolist() == [[700.0, 0.0, 600.0], [0.0, 701.0, 170.0]]


def test_an_unknown_date_needs_a_calibration_file(tmp_path: Path) -> None:
    rgb = touch(tmp_path / "2012_01_01_drive_0001_sync/image_02/data/0000000000.png")

    with pytest.raises(DataError, match=r"is of 2012_01_01, a date without known calibration; put calib_cam_to_cam"):
        kitti_camera(rgb)


def test_a_kitti_image_smaller_than_the_crop_is_refused(roots: tuple[Path, Path]) -> None:
    drive = DRIVES[0]
    save(roots[1] / drive[:10] / drive / "image_02/data/0000000005.png", np.zeros((376, 1200, 3), np.uint8))
    save(roots[1] / "train" / drive / "proj_depth/groundtruth/image_02/0000000005.png", np.ones((376, 1200), np.uint16))

    text = (
        "'kitti_2011_09_26_drive_0001' is 376x1200 pixels; the crop needs at least 352x1216, so this is no whole KITTI"
    )
    with pytest.raises(DataError, match=f"frame 0 of {text}"):
        bmr_clients(*roots)[10].open()[0]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("a.jpg b.png", r"line 2 is 'a.jpg b.png'; expected \"COLOUR DEPTH FOCAL\""),
        ("a.jpg b.png far", r"line 2: focal length is 'far'; expected"),
        ("a.jpg b.png -5", r"line 2: focal length is -5; it must be a positive number of pixels"),
        ("a.jpg b.png nan", r"line 2: focal length is nan; it must be a positive number"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(tmp_path: Path, line: str, text: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{nyu_line('office', 1)}\n{line}\n")

    with pytest.raises(DataError, match=text):
        read_split(path)


def test_an_empty_or_missing_list_is_told(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("\n\n")

    with pytest.raises(DataError, match=r"list\.txt lists no frames"):
        read_split(tmp_path / "list.txt")
    with pytest.raises(DataError, match=r"cannot read .*other\.txt: No such file"):
        read_split(tmp_path / "other.txt")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (kitti_line(DRIVES[0], 5).replace("image_02", "image_03"), r"line 1: .*image_03.* is no frame <date>_drive_"),
        (kitti_line(DRIVES[0], 5).replace("05.png 7", "06.png 7"), r"line 1: .* are not of one frame"),
        (kitti_line(DRIVES[0], 99), r"line 1: colour image .*0000000099\.png is not there; complete the data set"),
        (kitti_line(DRIVES[0], 3), r"line 1: depth image .*0000000003\.png is not there; complete the data set"),
        (kitti_line("2011_09_26_drive_0777_sync", 3), r"line 1: drive 2011_09_26_drive_0777_sync has no image_02/data"),
    ],
)
def test_kitti_lines_that_fit_no_frame_are_told(roots: tuple[Path, Path], tmp_path: Path, line: str, text: str) -> None:
    lists = write_lists(tmp_path / "lists", {"eigen_train_files_with_gt.txt": [line]})

    with pytest.raises(DataError, match=text):
        kitti_frames(roots[1], "train", lists)


def test_a_listed_nyu_frame_without_depth_is_told(listed: tuple[Path, Path, Path]) -> None:
    nyu, kitti, lists = listed
    (nyu / "office_0001" / "sync_depth_00001.png").unlink()

    with pytest.raises(DataError, match=r"line 18: depth image .*office_0001/sync_depth_00001\.png is not there"):
        bmr_clients(nyu, kitti, lists)


def test_a_frame_without_partner_in_a_tree_is_told(roots: tuple[Path, Path]) -> None:
    (roots[0] / "sync/office_0001/sync_depth_00002.png").unlink()
    with pytest.raises(DataError, match=r"rgb_00002\.jpg has no depth image; sync_depth_00002\.png is not there"):
        nyu_frames(roots[0], "train")

    drive = DRIVES[3]
    (roots[1] / drive[:10] / drive / "image_02/data/0000000006.png").unlink()
    with pytest.raises(DataError, match=r"0000000006\.png has no colour image; .*0000000006\.png is not there"):
        kitti_frames(roots[1], "train")


def test_lists_of_another_tree_are_told(tmp_path: Path) -> None:
    touch(tmp_path / "nyu" / "notes.txt")
    lists = write_lists(tmp_path / "lists", LISTED)

    with pytest.raises(DataError, match=r"line 1: bedroom_0002/rgb_00002\.jpg is in none of .*nyu/sync, .*nyu/train, "):
        nyu_frames(tmp_path / "nyu", "train", lists)


def test_folders_that_hold_no_data_set_are_told(tmp_path: Path, roots: tuple[Path, Path]) -> None:
    empty = tmp_path / "empty"
    with pytest.raises(DataError, match="empty is no folder; give the folder of NYU Depth v2"):
        bmr_clients(empty, roots[1])
    empty.mkdir()
    with pytest.raises(DataError, match="empty is empty; give the folder of KITTI"):
        bmr_clients(roots[0], empty)
    touch(empty / "notes.txt")
    with pytest.raises(DataError, match="empty has no scenes in sync or train; it is not laid out as NYU"):
        bmr_clients(empty, roots[1])
    with pytest.raises(
        DataError, match=r"has no annotated depth in train/ or .*; give the folder of KITTI, or the lists"
    ):
        bmr_clients(roots[0], empty)


def test_too_few_groups_are_told(tmp_path: Path, roots: tuple[Path, Path]) -> None:
    nyu_scene(tmp_path / "small" / "train" / "cafe_0001", range(3))

    with pytest.raises(DataError, match=r"small has 1 scene types of NYU Depth v2 \(cafe\); the scenario needs 10"):
        bmr_clients(tmp_path / "small", roots[1])
    with pytest.raises(DataError, match="max_frames is 0; it must be at least 1"):
        bmr_clients(*roots, max_frames=0)
