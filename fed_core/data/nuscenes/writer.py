"""Writes nuScenes tables and sensor files that the devkit opens."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fed_core.types import DetectionFrame

Floats = npt.NDArray[np.float64]


class TableWriter:
    """Writes scenes one by one; the tables are written by :meth:`close`, so a folder without them is not complete.

    Tokens hang on the names of scenes, channels, times and instances only: the same input gives the same bytes.
    Several writers may fill one dataroot, each with scenes and a version of its own; :func:`merge_tables` joins them.

    Args:
        root: dataroot; made where it is missing.
        version: name of the version folder, "v1.0-generated"; it must not exist.
        jpeg_quality: of the pictures, 1 to 100.
    """

    def __init__(self, root: Path, version: str, *, jpeg_quality: int = 95) -> None:
        raise NotImplementedError

    def add_log(self, name: str, *, location: str, vehicle: str = "generated", date: str = "2000-01-01") -> None:
        """Begin a log ("boston-seaport" is a location); the scenes that follow belong to it."""
        raise NotImplementedError

    def add_scene(self, name: str, description: str, *, split: str) -> None:
        """Begin a scene; "night" and "rain" in its description tell the domain, ``split`` is "train" or "val"."""
        raise NotImplementedError

    def add_sweep(
        self, points: npt.NDArray[np.float32], stamp_ns: int, *, lidar_to_ego: Floats, ego_to_global: Floats
    ) -> None:
        """Append a LiDAR scan between keyframes: points (P, 4 or more) float32 x, y, z [m], intensity."""
        raise NotImplementedError

    def add_keyframe(self, frame: DetectionFrame, instances: Sequence[str], attributes: Sequence[str] = ()) -> str:
        """Append a keyframe, later than what came before; returns its sample token.

        Only points of time lag 0 are written: give the earlier ones to :meth:`add_sweep`. Times are cut to whole
        microseconds. ``frame.token`` and the boxes' velocities are not stored: the devkit takes them from the tracks.

        Args:
            frame: pictures, points, boxes in the LiDAR frame.
            instances: (M) names of the objects, unique in the scene; the same in all keyframes of one object.
            attributes: (M) "vehicle.moving", "pedestrian.standing", ... or "" = none; () = none at all.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Write the tables and ``splits.json``."""
        raise NotImplementedError


def merge_tables(root: Path, parts: Sequence[str], version: str) -> None:
    """Join version folders of one dataroot to a new one; the parts stay.

    Args:
        root: dataroot.
        parts: names of the version folders, as different writers wrote them.
        version: name of the new version folder.
    """
    raise NotImplementedError
