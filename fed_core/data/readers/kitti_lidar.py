"""KITTI with laser scans instead of depth images: folders of the object benchmark, and raw drives."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fed_core.data.image_files import list_images, read_rgb, read_text
from fed_core.data.intrinsics import checked, pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.projection import Floats, depth_of_points
from fed_core.data.readers.base import DEFAULT_FRAME_ID, FolderReader, readers, stamps_from_names
from fed_core.data.readers.kitti import drive_stamps
from fed_core.data.units import require_some_depth
from fed_core.errors import DataError
from fed_core.types import DepthFrame

#: Depth that counts [m]: what is nearer is the car itself, what is farther is noise.
LIMITS_M = (0.5, 120.0)
_VALUES = 4  # x, y, z, reflectance of a point, float32


@dataclass(frozen=True)
class LaserCamera:
    """How a camera sees the points of the LiDAR.

    Attributes:
        matrix: (3, 3) float64 pinhole matrix in pixels.
        from_lidar: (4, 4) float64 metres, the LiDAR's frame to the camera's optical one.
    """

    matrix: Floats
    from_lidar: Floats


@dataclass(frozen=True)
class LaserFrame:
    """Files of one frame: picture, scan, and the file or folder with the calibration."""

    image: Path
    scan: Path
    calibration: Path
    stamp_ns: int


class KittiScans:
    """Pictures with the depth that the laser points have in them; a few percent of the pixels.

    Args:
        path: the folder.
        frames: files in time order.
        options: what the caller wants.

    Attributes:
        name: short name.
        source: the folder.
    """

    def __init__(self, path: Path, frames: tuple[LaserFrame, ...], options: OpenOptions) -> None:
        if not frames:
            raise DataError(f"{path} holds no picture with a laser scan")
        self.name, self.source = options.name or path.resolve().name, str(path)
        self._frames, self._options = frames, options
        self.frame_id = options.frame_id or DEFAULT_FRAME_ID

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._frames)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read frame ``index``; broken files raise :class:`DataError`."""
        files = self._frames[index]
        rgb, camera = read_rgb(files.image), self.camera(index)
        size = (rgb.shape[0], rgb.shape[1])
        depth_m = depth_of_points(self.points(index)[:, :3], camera.from_lidar, camera.matrix, size, LIMITS_M)
        require_some_depth(depth_m, str(files.scan))
        return DepthFrame(rgb, depth_m, files.stamp_ns, camera.matrix, self.frame_id)

    def points(self, index: int) -> npt.NDArray[np.float32]:
        """Return the scan of a frame, (N, 4) float32: x ahead, y left, z up [m], reflectance."""
        file = self._frames[index].scan
        try:
            data = file.read_bytes()
        except OSError as err:
            raise DataError(f"cannot read {file}: {err.strerror}") from err
        if not data or len(data) % (4 * _VALUES):
            raise DataError(f"{file} is no laser scan: {len(data)} bytes are not points of {4 * _VALUES} bytes")
        return np.frombuffer(data, "<f4").reshape(-1, _VALUES).astype(np.float32)

    def camera(self, index: int) -> LaserCamera:
        """Return the camera of a frame."""
        camera = _camera(self._frames[index].calibration)
        if self._options.intrinsics:
            return LaserCamera(pinhole(self._options.intrinsics), camera.from_lidar)
        return camera


@readers.register("kitti_lidar")
class KittiLidar(FolderReader):
    """Car recordings with the scans of the laser."""

    layout = "image_2/, velodyne/ and calib/; or a drive folder with image_02/data and velodyne_points/data"

    def matches(self, path: Path) -> bool:
        """Tell whether one of the two layouts is there, and no depth images, which are better."""
        if (path / "image_2").is_dir() and (path / "velodyne").is_dir() and (path / "calib").is_dir():
            return True
        is_drive = (path / "image_02" / "data").is_dir() and (path / "velodyne_points" / "data").is_dir()
        return is_drive and not (path / "proj_depth").exists()

    def open(self, path: Path, options: OpenOptions) -> KittiScans:
        """Return the recording; pictures without a scan are left out."""
        if not self.matches(path):
            raise DataError(f"{path} is not of the layout kitti_lidar: {self.layout}")
        is_drive = not (path / "image_2").is_dir()
        images = list_images(path / "image_02" / "data" if is_drive else path / "image_2")
        scans = path / "velodyne_points" / "data" if is_drive else path / "velodyne"
        images = [image for image in images if (scans / f"{image.stem}.bin").exists()]
        times = drive_stamps(path / "image_02" / "data", {image.stem: image for image in images}) if is_drive else {}
        stamps = [times[image.stem] for image in images] if times else stamps_from_names(images, options)
        where = _calibration_folder(path) if is_drive else path / "calib"
        frames = tuple(
            LaserFrame(image, scans / f"{image.stem}.bin", where if is_drive else where / f"{image.stem}.txt", ns)
            for image, ns in zip(images, stamps, strict=True)
        )
        return KittiScans(path, frames, options)


def _calibration_folder(path: Path) -> Path:
    """Return the folder with the files of a day; KITTI puts it above its drives."""
    for folder in (path, path.resolve().parent):
        if (folder / "calib_velo_to_cam.txt").exists():
            return folder
    raise DataError(f"{path} has no calib_velo_to_cam.txt, nor has the folder above; get the calibration of that day")


def _camera(where: Path) -> LaserCamera:
    """Return the left colour camera of a file of the object benchmark, or of a folder of a raw day."""
    if where.is_dir():
        to_reference, cameras = where / "calib_velo_to_cam.txt", where / "calib_cam_to_cam.txt"
        rotation, shift = _numbers(to_reference, "R", (3, 3)), _numbers(to_reference, "T", (3, 1))
        rectify, projection = _numbers(cameras, "R_rect_00", (3, 3)), _numbers(cameras, "P_rect_02", (3, 4))
        told = f"{cameras}, P_rect_02"
    else:
        placed = _numbers(where, "Tr_velo_to_cam", (3, 4))
        rotation, shift = placed[:, :3], placed[:, 3:]
        rectify, projection = _numbers(where, "R0_rect", (3, 3)), _numbers(where, "P2", (3, 4))
        told = f"{where}, P2"
    matrix = checked(projection[:, :3], told)
    from_lidar = np.eye(4)
    # The projection also moves from the reference camera to this one, in its fourth column.
    from_lidar[:3, :3] = rectify @ rotation
    from_lidar[:3, 3:] = rectify @ shift + np.linalg.solve(matrix, projection[:, 3:])
    return LaserCamera(matrix, from_lidar)


def _numbers(file: Path, key: str, shape: tuple[int, int]) -> Floats:
    for line in read_text(file).splitlines():
        name, _, rest = line.partition(":")
        if name.strip() != key:
            continue
        try:
            found = np.array([float(word) for word in rest.split()]).reshape(shape)
        except ValueError as err:
            raise DataError(f"{file}: {key} needs {shape[0] * shape[1]} numbers") from err
        if not np.isfinite(found).all():
            raise DataError(f"{file}: {key} has numbers that are not finite")
        return found
    raise DataError(f"{file} has no {key}")
