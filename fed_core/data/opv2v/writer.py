"""Writes frames of a vehicle as OPV2V folders, one by one: what a robot records of itself."""

import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fed_core.data.image_files import encode_png
from fed_core.data.opv2v import files
from fed_core.data.opv2v.poses import Floats
from fed_core.data.opv2v.sequence import BevOptions
from fed_core.errors import DataError
from fed_core.types import BevFrame

#: A jump of time by more than this, or back, starts the next scenario.
GAP_NS = 5_000_000_000
RATE_HZ = BevOptions().rate_hz
#: A robot writes while it drives: fast before small.
_COMPRESSION = 1
#: Cosine of the pitch from which on roll and yaw differ.
_UPRIGHT = 1e-9
#: How the folder must be opened; it lies in it.
OPTIONS = "options.json"


class Opv2vWriter:
    """Write frames to a new folder.

    Scenarios are called by the time of their first frame, to the second; frame numbers count ten a second, and never
    the same one twice. Poses are those on the vehicle: where it was in the world is not told.

    Args:
        path: new folder.
        known: how cells are known, as ``amcm_mask`` of :class:`fed_core.data.opv2v.sequence.BevOptions`.

    Raises:
        DataError: the folder exists or cannot be written.
    """

    def __init__(self, path: Path, *, known: str) -> None:
        if path.exists():
            raise DataError(f"{path} exists already; choose another folder for the recording")
        self._path, self._known = path, known
        self._shape: tuple[tuple[int, ...], int, float] | None = None
        self._names: set[str] = set()
        self._scenario, self._start_ns, self._last_ns, self._number = path, 0, 0, 0

    def add(self, frame: BevFrame) -> None:
        """Append one frame; one with other cameras or another map than the first raises ``DataError``."""
        shape = (frame.cameras, len(frame.mask), round(frame.metres_per_cell * len(frame.mask), 6))
        if self._shape is None:
            self._shape = shape
        elif shape != self._shape:
            told = "a frame has cameras {}, a map of {} cells and {:g} m"
            first = "the first has {}, {} and {:g} m".format(*self._shape)
            raise DataError(f"{told.format(*shape)}; {first}; record them apart")
        folder, name = self._place(frame.stamp_ns, frame.vehicle)
        for camera, image in zip(frame.cameras, frame.images, strict=True):
            files.write_whole(files.image_file(folder, name, camera), encode_png(image[..., ::-1], _COMPRESSION))
        files.write_whole(
            files.mask_file(folder, name, "visible"), encode_png(frame.mask.astype(np.uint8) * 255, _COMPRESSION)
        )
        files.write_whole(
            files.pose_file(folder, name), yaml.safe_dump(_poses(frame), default_flow_style=None).encode()
        )

    def close(self) -> None:
        """Finish the recording."""
        if self._shape is None:
            raise DataError(f"nothing was recorded for {self._path}")
        cameras, cells, side_m = self._shape
        options = {"cameras": list(cameras), "map_size": cells, "radius_m": side_m / 2, "amcm_mask": self._known}
        files.write_whole(self._path / OPTIONS, json.dumps(options).encode())

    def discard(self) -> None:
        """Delete what was written."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _place(self, stamp_ns: int, vehicle: str) -> tuple[Path, str]:
        if not 0 <= stamp_ns - self._last_ns <= GAP_NS or not self._names:
            self._begin(stamp_ns)
        else:
            self._number = max(self._number + 1, round((stamp_ns - self._start_ns) * RATE_HZ / 1e9))
        self._last_ns = stamp_ns
        return self._scenario / (vehicle or "0"), f"{self._number:06d}"

    def _begin(self, stamp_ns: int) -> None:
        start = datetime.fromtimestamp(stamp_ns // 10**9, timezone.utc)
        while (name := start.strftime("%Y_%m_%d_%H_%M_%S")) in self._names or not files.is_scenario(name):
            start += timedelta(seconds=1)
        self._names.add(name)
        self._scenario, self._start_ns, self._number = self._path / name, stamp_ns, 0


def recorded_source(path: Path) -> dict[str, Any]:
    """Return the entry of a folder that :class:`Opv2vWriter` wrote, as in a fleet file."""
    try:
        options = json.loads((path / OPTIONS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise DataError(f"{path} is no finished recording of a vehicle's cameras: {err}") from err
    return {"data": str(path.absolute()), "options": options}


def pose_of(matrix: Floats) -> list[float]:
    """Return x, y, z [m], roll, yaw, pitch [deg] of (4, 4), what :func:`fed_core.data.opv2v.poses.world_from` reads."""
    turn = matrix[:3, :3]
    pitch = np.arcsin(np.clip(turn[2, 0], -1.0, 1.0))
    if np.hypot(turn[0, 0], turn[1, 0]) > _UPRIGHT:
        roll, yaw = np.arctan2(-turn[2, 1], turn[2, 2]), np.arctan2(turn[1, 0], turn[0, 0])
    else:  # straight up or down, roll and yaw turn about one axis: all of it is yaw
        roll, yaw = 0.0, np.arctan2(-turn[0, 1], turn[1, 1])
    return [*(float(value) for value in matrix[:3, 3]), *(float(np.degrees(angle)) for angle in (roll, yaw, pitch))]


def _poses(frame: BevFrame) -> dict[str, Any]:
    tree: dict[str, Any] = {"true_ego_pos": [0.0] * 6}
    for camera, matrix, pose in zip(frame.cameras, frame.intrinsics, frame.extrinsics, strict=True):
        tree[f"camera{camera}"] = {"cords": pose_of(pose), "intrinsic": matrix.tolist()}
    return tree
