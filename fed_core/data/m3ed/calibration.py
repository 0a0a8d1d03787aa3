"""Cameras of an M3ED recording: pinhole with radial-tangential distortion, placed against the left event camera."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.intrinsics import Matrix, pinhole
from fed_core.errors import DataError

#: Cameras by frame name; the name is the path of the group, as in the key T_to_prophesee_left.
RGB, EVENT_LEFT, EVENT_RIGHT = "ovc_rgb", "prophesee_left", "prophesee_right"
GROUPS = {RGB: "ovc/rgb", EVENT_LEFT: "prophesee/left", EVENT_RIGHT: "prophesee/right"}

# Inverting the distortion: 40 steps of at most 1e-10 leave far less than 0.01 px.
_STEPS = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 40, 1e-10)
_ROTATION_ERROR = 1e-3


@dataclass(frozen=True)
class CameraCalibration:
    """One camera.

    Attributes:
        name: frame name ("ovc_rgb").
        intrinsics: (fx, fy, cx, cy) in pixels.
        distortion: (k1, k2, p1, p2).
        width: columns.
        height: rows.
        to_event_left: (4, 4) float64; p_event_left = T p_camera, metres.
    """

    name: str
    intrinsics: tuple[float, float, float, float]
    distortion: tuple[float, float, float, float]
    width: int
    height: int
    to_event_left: Matrix

    @property
    def matrix(self) -> Matrix:
        """(3, 3) float64 pinhole matrix in pixels."""
        return pinhole(self.intrinsics)

    def cropped(self, width: int, height: int) -> "CameraCalibration":
        """Return the camera of the image at half size, cut to (width, height) around its middle.

        Pixel centres lie at whole numbers, so halving maps u to (u + 0.5) / 2 - 0.5.
        """
        fx, fy, cx, cy = self.intrinsics
        left, top = (self.width // 2 - width) // 2, (self.height // 2 - height) // 2
        halved = (fx / 2, fy / 2, (cx + 0.5) / 2 - 0.5 - left, (cy + 0.5) / 2 - 0.5 - top)
        return replace(self, intrinsics=halved, width=width, height=height)

    def rays(self) -> npt.NDArray[np.float32]:
        """Return for every pixel the point at depth 1 that it sees: (H, W, 2) float32 (x/z, y/z)."""
        columns, rows = np.meshgrid(np.arange(self.width), np.arange(self.height))
        pixels = np.stack([columns, rows], axis=-1).reshape(-1, 1, 2).astype(np.float64)
        distortion = np.array(self.distortion)
        seen = cv2.undistortPointsIter(pixels, self.matrix, distortion, np.eye(3), np.eye(3), _STEPS)
        return np.asarray(seen, dtype=np.float32).reshape(self.height, self.width, 2)

    def project(self, points: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
        """Return the pixels of points in the camera frame.

        Args:
            points: (N, 3) metres.

        Returns:
            (N, 2) float32 (u, v) in pixels; NaN behind the camera and where the distortion folds back.
        """
        z = points[:, 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = points[:, 0] / z, points[:, 1] / z
        r2 = x * x + y * y
        k1, k2, p1, p2 = self.distortion
        radial = 1.0 + r2 * (k1 + k2 * r2)
        fx, fy, cx, cy = self.intrinsics
        u = fx * (x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)) + cx
        v = fy * (y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y) + cy
        pixels: npt.NDArray[np.float32] = np.stack([u, v], axis=-1).astype(np.float32)
        pixels[~((z > 0) & (r2 < self._fold_r2()))] = np.nan
        return pixels

    def _fold_r2(self) -> float:
        """Return the squared radius beyond which the polynomial maps outer rays back into the image."""
        # Derivative of r (1 + k1 r^2 + k2 r^4), in s = r^2: 1 + 3 k1 s + 5 k2 s^2.
        k1, k2 = self.distortion[:2]
        roots = np.roots([5 * k2, 3 * k1, 1.0])
        crossings = [float(root.real) for root in roots if abs(root.imag) < 1e-12 and root.real > 0]
        return min(crossings, default=float("inf"))


def read_camera(file: Any, name: str, path: Path) -> CameraCalibration:
    """Read one camera of an open ``<seq>_data.h5``.

    Args:
        file: open HDF5 file.
        name: a key of :data:`GROUPS`.
        path: its path, for messages.

    Raises:
        DataError: the calibration is missing, of another camera model, or no calibration at all.
    """
    where = f"{GROUPS[name]}/calib"
    if where not in file:
        raise DataError(f"{path} has no calibration /{where}; without it depth cannot be brought to the image")
    group = file[where]
    for key, wanted in (("camera_model", "pinhole"), ("distortion_model", "radtan")):
        if key in group and _text(group[key]) != wanted:
            raise DataError(f"{path}, /{where}/{key} is {_text(group[key])!r}; only {wanted} is supported")
    fx, fy, cx, cy = _numbers(group, "intrinsics", (4,), path)
    k1, k2, p1, p2 = _numbers(group, "distortion_coeffs", (4,), path)
    width, height = _numbers(group, "resolution", (2,), path)
    pose = _numbers(group, "T_to_prophesee_left", (4, 4), path)
    if not (fx > 0 and fy > 0 and width >= 1 and height >= 1):
        raise DataError(
            f"{path}, /{where}: focal lengths {fx:g}, {fy:g} and size {width:g}x{height:g} must be positive"
        )
    if np.abs(pose[:3, :3] @ pose[:3, :3].T - np.eye(3)).max() > _ROTATION_ERROR:
        raise DataError(f"{path}, /{where}/T_to_prophesee_left holds no rotation")
    return CameraCalibration(name, (fx, fy, cx, cy), (k1, k2, p1, p2), int(width), int(height), pose)


def _numbers(group: Any, key: str, shape: tuple[int, ...], path: Path) -> npt.NDArray[np.float64]:
    where = f"{path}, {group.name}/{key}"
    if key not in group:
        raise DataError(f"{where} is missing; without it depth cannot be brought to the image")
    try:
        values = np.asarray(group[key][()], dtype=np.float64)
    except (TypeError, ValueError, OSError) as err:
        raise DataError(f"{where} holds no numbers") from err
    if values.shape != shape or not np.isfinite(values).all():
        raise DataError(f"{where} needs {' x '.join(map(str, shape))} finite numbers, has shape {values.shape}")
    return values


def _text(dataset: Any) -> str:
    value = np.asarray(dataset[()], dtype=object).ravel()[0]  # a text, or a list of one
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
