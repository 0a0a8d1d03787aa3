"""Writes miniature M3ED recordings with the published schema: a slanted plane seen by a moving camera rig.

World = left event camera at time 0. Red of an image tells the depth of its pixel (10 counts per metre), green the
index of the image, blue is 7; the file holds blue first.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import h5py
import numpy as np
from scipy.spatial.transform import Rotation

from fed_core.types import Array

#: Depth times from the issue tracker of the data set, and two more at the same pace.
EXAMPLE_US = (81938, 181917, 281800, 381722)
DEPTH_US = (*EXAMPLE_US, 481640, 581560)
COUNTS_PER_M = 10.0
BLUE = 7
#: The plane n . x = d in the world, metres.
NORMAL, OFFSET_M = np.array([0.25, -0.1, 0.96]), 8.0


@dataclass(frozen=True)
class Camera:
    """One camera of the rig: height and width, (fx, fy, cx, cy), (k1, k2, p1, p2), p_event_left = T p_camera."""

    height: int
    width: int
    intrinsics: tuple[float, ...]
    distortion: tuple[float, ...]
    to_event_left: Array

    @property
    def matrix(self) -> Array:
        fx, fy, cx, cy = self.intrinsics
        return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1.0]])


def rigid(rotation_deg: tuple[float, float, float], shift_m: tuple[float, float, float]) -> Array:
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_euler("xyz", rotation_deg, degrees=True).as_matrix()
    pose[:3, 3] = shift_m
    return pose


EVENT_LEFT = Camera(72, 128, (103.2, 103.4, 63.4, 36.1), (-0.095, 0.11, 3e-4, -2e-4), np.eye(4))
EVENT_RIGHT = Camera(72, 128, (103.6, 103.1, 62.9, 35.8), (-0.093, 0.10, -1e-4, 2e-4), rigid((0.1, 0, 0), (0.12, 0, 0)))
RGB = Camera(80, 128, (98.0, 98.3, 64.2, 40.7), (-0.05, 0.06, 1e-4, 3e-4), rigid((0.4, -0.6, 0.2), (0.05, 0.06, -0.02)))
OVC_LEFT = Camera(80, 128, (98.4, 98.1, 63.8, 40.1), (-0.05, 0.06, 0, 0), rigid((0.2, 0, 0), (0.0, 0.06, -0.02)))


def pose_at(time_us: float) -> Array:
    """Cn_T_C0: the rig goes forward at 1 m/s, sideways at 0.4 m/s and turns at 6 degrees per second."""
    t = time_us * 1e-6
    return np.linalg.inv(rigid((0.0, 6.0 * t, 1.5 * t), (0.4 * t, 0.0, 1.0 * t)))


def rays(camera: Camera) -> Array:
    """(H, W, 3) points at depth 1 behind each (distorted) pixel."""
    v, u = np.mgrid[: camera.height, : camera.width]
    pixels = np.stack([u, v], -1).reshape(-1, 1, 2).astype(float)
    criteria = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 60, 1e-12)
    xy = cv2.undistortPointsIter(pixels, camera.matrix, np.array(camera.distortion), np.eye(3), np.eye(3), criteria)
    return np.concatenate([xy[:, 0], np.ones((len(xy), 1))], axis=1).reshape(camera.height, camera.width, 3)


def plane_depth(camera: Camera, time_us: float) -> Array:
    """(H, W) metres: the depth of the plane in every pixel of a camera at a time."""
    to_camera = np.linalg.inv(camera.to_event_left) @ pose_at(time_us)  # x_camera = to_camera x_world
    normal = to_camera[:3, :3] @ NORMAL
    offset = OFFSET_M + normal @ to_camera[:3, 3]
    return np.asarray(offset / (rays(camera) @ normal))


def image(index: int, time_us: float) -> Array:
    """(H, W, 3) uint8 BGR of the colour camera."""
    bgr = np.empty((RGB.height, RGB.width, 3), np.uint8)
    bgr[..., 0] = BLUE
    bgr[..., 1] = index
    bgr[..., 2] = np.clip(np.rint(plane_depth(RGB, time_us) * COUNTS_PER_M), 0, 255)
    return bgr


def depth_map(time_us: float) -> Array:
    """(H, W) float32 metres with the marks of missing depth that real files hold."""
    depth = plane_depth(EVENT_LEFT, time_us).astype(np.float32)
    depth[:6] = np.inf  # the LiDAR sees no sky
    depth[6, 0], depth[6, 1] = np.nan, 0.0
    return depth


def write_recording(
    folder: Path,
    name: str = "spot_forest_hard",
    *,
    num_images: int = 12,
    depth_us: tuple[int, ...] = DEPTH_US,
    video: bool = False,
    images_in_hdf5: bool = True,
) -> Path:
    """Write NAME_data.h5, NAME_depth_gt.h5, NAME_pose_gt.h5 and, if wanted, NAME_rgb.avi; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    image_us = 40_000 * np.arange(num_images, dtype=np.int64)
    images = [image(i, float(t)) for i, t in enumerate(image_us)]
    with h5py.File(folder / f"{name}_data.h5", "w") as file:
        file.attrs.update({"version": "1.2", "raw_bag_name": f"{name}.bag", "creation_date": "2023-07-01"})
        write_ovc(file, image_us, images if images_in_hdf5 else None)
        write_events(file, image_us)
        write_ouster(file)
    write_depth(folder, name, np.array(depth_us, dtype=np.int64))
    if video:
        write_video(folder / f"{name}_rgb.avi", images)
    return folder


def stack(file: Any, key: str, images: list[Array]) -> None:
    data = np.stack(images)
    file.create_dataset(key, data=data, chunks=(1, *data.shape[1:]), compression="lzf")


def write_ovc(file: Any, image_us: Array, images: list[Array] | None) -> None:
    num = len(image_us)
    if images is not None:
        stack(file, "/ovc/rgb/data", images)
        for side in ("left", "right"):
            stack(file, f"/ovc/{side}/data", [i[..., 2:] for i in images])
    for side in ("left", "right"):
        file[f"/ovc/ts_map_prophesee_{side}_t"] = np.arange(num, dtype=np.uint64)
    file["/ovc/ts"] = image_us
    for key in ("omega", "accel"):
        file[f"/ovc/imu/{key}"] = np.full((16 * num, 3), np.nan)
    file["/ovc/imu/ts"] = 2500 * np.arange(16 * num, dtype=np.int64)
    file["/ovc/imu/calib/T_to_prophesee_left"] = np.eye(4)
    for group, camera in (("ovc/rgb", RGB), ("ovc/left", OVC_LEFT), ("ovc/right", OVC_LEFT)):
        write_calibration(file, group, camera)


def write_events(file: Any, image_us: Array) -> None:
    for side, camera in (("left", EVENT_LEFT), ("right", EVENT_RIGHT)):
        group = f"/prophesee/{side}"
        for key, kind in (("x", "u2"), ("y", "u2"), ("t", "i8"), ("p", "i1"), ("ms_map_idx", "u8")):
            file[f"{group}/{key}"] = np.zeros(len(image_us), dtype=kind)
        write_calibration(file, group, camera)


def write_ouster(file: Any) -> None:
    file["/ouster/data"] = np.zeros((3, 128, 64), dtype=np.uint8)
    file["/ouster/metadata"] = "{}"
    for key in ("ts_start", "ts_end"):
        file[f"/ouster/{key}"] = np.arange(3, dtype=np.int64) * 100_000
    file["/ouster/calib/T_to_prophesee_left"] = np.eye(4)


def write_calibration(file: Any, group: str, camera: Camera) -> None:
    calib = file.create_group(f"{group}/calib")
    calib["camera_model"], calib["distortion_model"] = "pinhole", "radtan"
    calib["rostopic"] = f"/{group}/image_raw"
    calib["intrinsics"] = np.array(camera.intrinsics)
    calib["distortion_coeffs"] = np.array(camera.distortion)
    calib["resolution"] = np.array([camera.width, camera.height])
    calib["T_to_prophesee_left"] = camera.to_event_left


def write_depth(folder: Path, name: str, depth_us: Array) -> None:
    poses = np.stack([pose_at(float(t)) for t in depth_us])
    for suffix in ("depth_gt", "pose_gt"):
        with h5py.File(folder / f"{name}_{suffix}.h5", "w") as file:
            file.attrs.update({"version": "1.2", "creation_date": "2023-07-01", "cam_name": "/prophesee/left"})
            file["/ts"], file["/ts_map_prophesee_left"] = depth_us, np.zeros(len(depth_us), dtype=np.uint64)
            file["/Cn_T_C0"] = file["/Ln_T_L0"] = poses
            if suffix == "depth_gt":
                stack(file, "/depth/prophesee/left", [depth_map(float(t)) for t in depth_us])


def write_video(path: Path, images: list[Array]) -> None:
    height, width = images[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"FFV1"), 25.0, (width, height))
    if not writer.isOpened():
        raise RuntimeError("this OpenCV cannot write FFV1")
    for bgr in images:
        writer.write(bgr)
    writer.release()
