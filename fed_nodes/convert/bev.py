"""The cameras of a vehicle: ``Image`` and ``CameraInfo`` of each to one frame in CARLA's axes, and back.

ROS counts the centre of the first pixel as 0, CARLA as 0.5: the optical axis moves by half a pixel between the two.
A camera's distortion is taken out of its images, which then have the matrix K.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.data.opv2v.masks import fov_mask, pooled, sector_mask
from fed_core.data.opv2v.poses import Rig as CarlaRig
from fed_core.data.opv2v.sequence import FOV, SECTOR
from fed_core.errors import DataError
from fed_core.types import RigFrame
from fed_nodes.convert.images import colour_to_msg, info_to_msg, rgb_from_msg, stamp_ns, to_stamp
from fed_nodes.convert.occupancy import RASTER
from fed_nodes.rigs import Rig

Floats = npt.NDArray[np.float64]

_PINHOLE, _FISHEYE = ("plumb_bob", "rational_polynomial"), ("equidistant",)
_HALF_PIXEL = 0.5
#: Condition number beyond which a matrix cannot be a camera.
_WORST_CONDITION = 1e9


def frame_from_msgs(rig: Rig, images: Sequence[Image], infos: Sequence[CameraInfo], vehicle: str = "") -> RigFrame:
    """Return the frame of one image and camera info per camera, in the order of the rig.

    Its time is that of the latest image.

    Raises:
        DataError: an image cannot be read, or its camera info does not describe a camera of its size.
    """
    pictures, matrices = [], []
    for name, mount, image, info in zip(rig.names, rig.mounts, images, infos, strict=True):
        try:
            picture, matrix = _undistorted(rgb_from_msg(image), info, rectified=mount.rectified)
        except DataError as err:
            raise DataError(f"camera {name}: {err}") from err
        pictures.append(picture)
        matrices.append(matrix + _moved(_HALF_PIXEL))
    return RigFrame(
        cameras=rig.ids,
        images=tuple(pictures),
        intrinsics=np.stack(matrices),
        extrinsics=rig.extrinsics,
        stamp_ns=max(stamp_ns(image.header.stamp) for image in images),
        vehicle=vehicle,
    )


def frame_to_msgs(frame: RigFrame, names: Sequence[str]) -> list[tuple[Image, CameraInfo]]:
    """Return image (rgb8) and camera info of each camera, all with the frame's time; ``names`` are those of cameras."""
    made = []
    for name, picture, matrix in zip(names, frame.images, frame.intrinsics, strict=True):
        header = Header(stamp=to_stamp(frame.stamp_ns), frame_id=f"{name}_optical_frame")
        height, width = picture.shape[:2]
        info = info_to_msg(matrix - _moved(_HALF_PIXEL), height, width, header)
        made.append((colour_to_msg(picture, header), info))
    return made


def known_cells(frame: RigFrame, cells: int, extent_m: float, kind: str) -> npt.NDArray[np.bool_]:
    """Return the cells (cells, cells) bool of a map where some camera looks (AMCM).

    Args:
        frame: the cameras.
        cells: cells per side.
        extent_m: side of the map in metres.
        kind: "sector", "fov" or "off", as samples are made with.
    """
    size = RASTER if RASTER % cells == 0 else cells
    if kind == SECTOR:
        mask = sector_mask(size, frame.cameras)
    elif kind == FOV:
        widths = [image.shape[1] for image in frame.images]
        mask = fov_mask(size, CarlaRig(frame.intrinsics, frame.extrinsics), widths, extent_m / 2)
    else:
        mask = np.ones((size, size), np.bool_)
    return np.logical_not(pooled(np.logical_not(mask), cells))


def _undistorted(
    image: npt.NDArray[np.uint8], info: CameraInfo, *, rectified: bool
) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Return an image without distortion and its matrix (3, 3), the first pixel's centre at 0."""
    height, width = image.shape[:2]
    if (info.width, info.height) != (width, height):
        text = f"camera_info is of {info.width}x{info.height} pixels, the image {width}x{height}"
        raise DataError(f"{text}; publish the camera_info of the images as they are")
    if rectified:
        return image, _camera_matrix(np.asarray(info.p, np.float64).reshape(3, 4)[:, :3], "p")
    matrix = _camera_matrix(np.asarray(info.k, np.float64).reshape(3, 3), "k")
    if not any(info.d):
        return image, matrix
    if not np.isfinite(info.d).all():
        raise DataError("camera_info has a distortion (d) that is not finite; calibrate the camera")
    maps = _maps(info.distortion_model, tuple(info.d), matrix.tobytes(), width, height)
    return np.asarray(cv2.remap(image, *maps, cv2.INTER_LINEAR), np.uint8), matrix


@lru_cache(maxsize=32)
def _maps(model: str, distortion: tuple[float, ...], matrix: bytes, width: int, height: int) -> tuple[Any, Any]:
    """Return where the pixels of an undistorted image come from; cameras rarely change."""
    k, d = np.frombuffer(matrix).reshape(3, 3), np.array(distortion)
    try:
        if model in _PINHOLE:
            return cv2.initUndistortRectifyMap(k, d, np.eye(3), k, (width, height), cv2.CV_16SC2)
        if model in _FISHEYE:
            return cv2.fisheye.initUndistortRectifyMap(k, d, np.eye(3), k, (width, height), cv2.CV_16SC2)
    except cv2.error as err:
        text = f"camera_info has {len(distortion)} numbers of distortion (d)"
        raise DataError(f"{text}; the model {model!r} has another number") from err
    raise DataError(f"distortion model {model!r} is not supported; publish rectified images and say so in rig")


def _camera_matrix(matrix: Floats, field: str) -> Floats:
    """Refuse what cannot be a camera."""
    focal = f"{matrix[0, 0]:g}, {matrix[1, 1]:g}"
    if not np.isfinite(matrix).all() or not (matrix[0, 0] > 0 and matrix[1, 1] > 0):
        raise DataError(
            f"camera_info says focal lengths {focal} in {field}; calibrate the camera or fill in its {field}"
        )
    if not np.allclose(matrix[2], [0.0, 0.0, 1.0]) or np.linalg.cond(matrix) > _WORST_CONDITION:
        raise DataError(f"camera_info has a singular matrix in {field}; calibrate the camera or fill in its {field}")
    return matrix


def _moved(pixels: float) -> Floats:
    return np.array([[0.0, 0.0, pixels], [0.0, 0.0, pixels], [0.0, 0.0, 0.0]])
