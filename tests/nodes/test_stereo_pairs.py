"""Cameras of a stereo pair: what their infos mean, and real pairs of a flying robot."""

import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml
from sensor_msgs.msg import CameraInfo

from fed_core.data.stereo import StereoMatcher, depth_of_disparity
from fed_core.errors import DataError
from fed_nodes.convert.stereo import stereo_pair

#: Focal length 8 px, baseline 0.25 m.
LEFT = {"k": [8.0, 0, 7.5, 0, 8, 5.5, 0, 0, 1], "p": [8.0, 0, 7.5, 0, 0, 8, 5.5, 0, 0, 0, 1, 0]}
RIGHT = {"k": LEFT["k"], "p": [8.0, 0, 7.5, -2, 0, 8, 5.5, 0, 0, 0, 1, 0]}


def info(values: dict[str, Any], **changes: Any) -> CameraInfo:
    base = {"width": 16, "height": 12, "distortion_model": "plumb_bob", "r": np.eye(3).reshape(9)}
    return CameraInfo(**{**base, **values, **changes})


def picture() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (12, 16, 3), np.uint8)


def test_baseline_and_offset_are_those_of_p() -> None:
    image = picture()
    right = info(RIGHT, p=[8.0, 0, 6.5, -2, 0, 8, 5.5, 0, 0, 0, 1, 0])
    pair = stereo_pair(image, image, (info(LEFT), right), rectified=True)
    assert (pair.baseline_m, pair.offset_px) == (0.25, 1.0)
    assert pair.left is image and pair.right is image
    np.testing.assert_array_equal(pair.intrinsics, np.reshape(LEFT["k"], (3, 3)))


def test_a_pair_without_anything_to_rectify_is_left_alone() -> None:
    image = picture()
    assert stereo_pair(image, image, (info(LEFT), info(RIGHT)), rectified=False).left is image


def test_r_and_p_rectify() -> None:
    """The left camera is turned by 180 degrees about its axis: its picture is turned back."""
    image = picture()
    turned = info(LEFT, r=np.diag([-1.0, -1.0, 1.0]).reshape(9))
    pair = stereo_pair(image, image, (turned, info(RIGHT)), rectified=False)
    np.testing.assert_array_equal(pair.left[1:-1, 1:-1], image[::-1, ::-1][1:-1, 1:-1])
    assert pair.right is image


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"r": [0.0] * 9}, "left camera: camera_info has an r that is no rotation"),
        ({"d": [np.nan] * 5}, "left camera: camera_info has a distortion (d) that is not finite"),
        ({"distortion_model": "cubic", "d": [0.1]}, "left camera: distortion model 'cubic' is not supported"),
        ({"width": 32}, "left camera: camera_info is of 32x12 pixels, the image 16x12"),
    ],
)
def test_a_camera_that_is_none_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError) as err:
        stereo_pair(picture(), picture(), (info(LEFT, **changes), info(RIGHT)), rectified=False)
    assert words in str(err.value) and "\n" not in str(err.value)


@pytest.mark.parametrize(
    ("p", "words"),
    [
        ([8.0, 0, 7.5, -2, 0, 9, 5.5, 0, 0, 0, 1, 0], "are (8, 8) and (8, 9) in p; publish"),
        ([8.0, 0, 7.5, -2, 0, 8, 6.5, 0, 0, 0, 1, 0], "have their centres at rows 5.5 and 6.5 in p, so that"),
    ],
)
def test_rows_of_both_pictures_must_match(p: list[float], words: str) -> None:
    with pytest.raises(DataError, match=re.escape(words)) as err:
        stereo_pair(picture(), picture(), (info(LEFT), info(RIGHT, p=p)), rectified=True)
    assert "\n" not in str(err.value)


def test_a_picture_too_wide_to_be_rectified_is_refused() -> None:
    wide = np.zeros((1, 40_000, 3), np.uint8)
    size = {"width": 40_000, "height": 1, "d": [0.1, 0, 0, 0, 0]}
    with pytest.raises(DataError, match="left camera: an image of 40000x1 pixels cannot be rectified"):
        stereo_pair(wide, wide, (info(LEFT, **size), info(RIGHT, **size)), rectified=False)


def read_sensor(path: Path) -> Any:
    """Return the tree of a calibration; its first line is OpenCV's, not YAML's."""
    return yaml.safe_load(path.read_text().partition("\n")[2])


def euroc_infos(folder: Path) -> tuple[CameraInfo, CameraInfo]:
    """Return what a calibration publishes of the two cameras, by OpenCV."""
    trees = [read_sensor(folder / f"cam{side}" / "sensor.yaml") for side in (0, 1)]
    matrices, lenses, places = [], [], []
    for tree in trees:
        fu, fv, cu, cv = tree["intrinsics"]
        matrices.append(np.array([[fu, 0, cu], [0, fv, cv], [0, 0, 1.0]]))
        lenses.append(np.array(tree["distortion_coefficients"], np.float64))
        places.append(np.reshape(tree["T_BS"]["data"], (4, 4)))
    move = np.linalg.inv(places[1]) @ places[0]
    cameras = matrices[0], lenses[0], matrices[1], lenses[1]
    r1, r2, p1, p2, *_ = cv2.stereoRectify(*cameras, (752, 480), move[:3, :3], move[:3, 3], alpha=0)
    made = []
    for k, d, r, p in zip(matrices, lenses, (r1, r2), (p1, p2), strict=True):
        values = {"k": k.reshape(9), "d": d.tolist(), "r": r.reshape(9), "p": p.reshape(12)}
        made.append(CameraInfo(width=752, height=480, distortion_model="plumb_bob", **values))
    return made[0], made[1]


def test_real_pairs_of_a_flying_robot_are_rectified_and_have_depth(shared_data: Path) -> None:
    """EuRoC, a room of about 8 m: the pictures as the cameras took them, with their calibration."""
    folder = shared_data / "euroc_mav_stereo"
    name = sorted(path.name for path in (folder / "cam0").glob("*.png"))[0]
    left, right = (cv2.cvtColor(cv2.imread(str(folder / side / name)), cv2.COLOR_BGR2RGB) for side in ("cam0", "cam1"))
    infos = euroc_infos(folder)
    shares = {}
    for rectified in (False, True):
        pair = stereo_pair(left, right, infos, rectified=rectified)
        scale = float(pair.intrinsics[0, 0]) * pair.baseline_m
        disparity_px = StereoMatcher(64).disparity(pair.left, pair.right)
        depth_m = depth_of_disparity(disparity_px, scale, pair.offset_px, (0.3, 20.0))
        shares[rectified] = float(np.isfinite(depth_m).mean())
        if not rectified:
            assert pair.baseline_m == pytest.approx(0.11, abs=0.001)
            assert 1.0 < np.nanmedian(depth_m) < 8.0
    # Rows that do not match leave little: what r and p are for.
    assert shares[False] > 0.4 and shares[False] > 1.5 * shares[True], shares
