"""The cameras of a vehicle: ``Image`` and ``CameraInfo`` of each to one frame in CARLA's axes, and back.

ROS counts the centre of the first pixel as 0, CARLA as 0.5: the optical axis moves by half a pixel between the two.
A camera's distortion is taken out of its images, which then have the matrix K (:mod:`fed_nodes.convert.cameras`).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.data.opv2v.masks import fov_mask, pooled, sector_mask
from fed_core.data.opv2v.poses import Rig as CarlaRig
from fed_core.data.opv2v.sequence import FOV, SECTOR
from fed_core.errors import DataError
from fed_core.types import RigFrame
from fed_nodes.convert.cameras import undistorted
from fed_nodes.convert.images import colour_to_msg, info_to_msg, rgb_from_msg, stamp_ns, to_stamp
from fed_nodes.convert.occupancy import RASTER
from fed_nodes.sensing.rigs import Rig

Floats = npt.NDArray[np.float64]

_HALF_PIXEL = 0.5


def frame_from_msgs(rig: Rig, images: Sequence[Image], infos: Sequence[CameraInfo], vehicle: str = "") -> RigFrame:
    """Return the frame of one image and camera info per camera, in the order of the rig.

    Its time is that of the latest image.

    Raises:
        DataError: an image cannot be read, or its camera info does not describe a camera of its size.
    """
    pictures, matrices = [], []
    for name, mount, image, info in zip(rig.names, rig.mounts, images, infos, strict=True):
        try:
            picture, matrix = undistorted(rgb_from_msg(image), info, rectified=mount.rectified)
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


def _moved(pixels: float) -> Floats:
    return np.array([[0.0, 0.0, pixels], [0.0, 0.0, pixels], [0.0, 0.0, 0.0]])
