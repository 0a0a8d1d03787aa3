"""What a vehicle records of itself, as a nuScenes folder: keyframes, the earlier scans in them, and true boxes.

Topics do not say which boxes of two keyframes are one object, but the devkit takes velocities from its track. So boxes
of a class are joined where an object of their velocity would have been.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.data.nuscenes.writer import TableWriter
from fed_core.errors import DataError
from fed_core.types import Boxes3D, DetectionFrame

#: A jump of time by more than this, or back, starts the next scene.
GAP_NS = 5_000_000_000
VERSION = "v1.0-recorded"
#: How the folder must be opened; it lies in it.
OPTIONS = "options.json"
#: Farthest that an object is from where its velocity says that it is [m].
_REACH_M = 1.5

Floats = npt.NDArray[np.float64]


class ScanWriter:
    """Write frames to a new folder.

    Args:
        path: new folder.

    Raises:
        DataError: the folder exists or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise DataError(f"{path} exists already; choose another folder for the recording")
        self._path = path
        self._tables: TableWriter | None = None
        self._cameras: tuple[str, ...] = ()
        self._last_ns, self._scenes, self._sweeps = 0, 0, 0
        self._tracks = _Tracks()

    def add(self, frame: DetectionFrame) -> None:
        """Append one frame; one with other cameras than the first raises ``DataError``."""
        tables = self._tables
        if tables is None:
            tables = self._tables = TableWriter(self._path, VERSION, jpeg_quality=98)
            tables.add_log("recording", location="unknown", vehicle="robot")
            self._cameras = frame.cameras
        if frame.cameras != self._cameras:
            told = f"{', '.join(frame.cameras) or 'none'}; the first has {', '.join(self._cameras) or 'none'}"
            raise DataError(f"a frame has cameras {told}; record them apart")
        if self._scenes == 0 or not 0 < frame.stamp_ns - self._last_ns <= GAP_NS:
            tables.add_scene(f"scene-{self._scenes:04d}", "recorded", split="train")
            self._scenes, self._last_ns, self._tracks = self._scenes + 1, 0, _Tracks()
        self._add_sweeps(tables, frame)
        tables.add_keyframe(frame, self._tracks.follow(frame))
        self._last_ns = frame.stamp_ns

    def close(self) -> None:
        """Finish the recording."""
        if self._tables is None:
            raise DataError(f"nothing was recorded for {self._path}")
        self._tables.close()
        options = {"version": VERSION, "cameras": list(self._cameras), "sweeps": self._sweeps}
        (self._path / OPTIONS).write_text(json.dumps(options), encoding="utf-8")

    def discard(self) -> None:
        """Delete what was written."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _add_sweeps(self, tables: TableWriter, frame: DetectionFrame) -> None:
        """Write the earlier scans of a frame, which are in its LiDAR frame already, oldest first."""
        lags = np.unique(frame.points[:, 4])[::-1]
        count = 0
        for lag in lags[lags > 0]:
            stamp_ns = frame.stamp_ns - round(float(lag) * 1e6) * 1000
            if stamp_ns <= self._last_ns:
                continue  # a keyframe of before, or older than it
            points = frame.points[frame.points[:, 4] == lag]
            tables.add_sweep(points, stamp_ns, lidar_to_ego=frame.lidar_to_ego, ego_to_global=frame.ego_to_global)
            count += 1
        self._sweeps = max(self._sweeps, count)


def recorded_source(path: Path) -> dict[str, Any]:
    """Return the entry of a folder that :class:`ScanWriter` wrote, as in a fleet file."""
    try:
        options: Mapping[str, Any] = json.loads((path / OPTIONS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise DataError(f"{path} is no finished recording of a vehicle's LiDAR: {err}") from err
    return {"data": str(path.absolute()), "options": dict(options)}


class _Tracks:
    """Names of the objects that boxes are of, keyframe after keyframe of a scene."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._places: Floats = np.zeros((0, 3))
        self._moves: Floats = np.zeros((0, 2))
        self._labels: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._count, self._time_ns = 0, 0

    def follow(self, frame: DetectionFrame) -> list[str]:
        """Return a name for each box; nearest pairs first, each object once."""
        pose = frame.ego_to_global @ frame.lidar_to_ego
        boxes: Boxes3D = frame.boxes
        places = boxes.centres @ pose[:3, :3].T + pose[:3, 3]
        moves = np.nan_to_num(boxes.velocities) @ pose[:2, :2].T
        seconds = (frame.stamp_ns - self._time_ns) * 1e-9
        expected = self._places[:, :2] + seconds * self._moves
        apart = np.linalg.norm(expected[:, None] - places[None, :, :2], axis=2)
        apart[self._labels[:, None] != boxes.labels[None]] = np.inf
        names = [""] * len(boxes)
        for before, now in np.argwhere(apart <= _REACH_M)[np.argsort(apart[apart <= _REACH_M], kind="stable")]:
            if not names[now] and self._names[before] not in names:
                names[now] = self._names[before]
        for index, name in enumerate(names):
            if not name:
                names[index], self._count = f"object_{self._count}", self._count + 1
        self._names, self._places, self._moves = names, places, moves
        self._labels, self._time_ns = boxes.labels, frame.stamp_ns
        return names
