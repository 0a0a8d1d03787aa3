"""What a task's live output is held against the truth with: one judge per task, made for one sequence."""

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import Image
from visualization_msgs.msg import MarkerArray

from fed_core.data.opv2v.maps import fit_map
from fed_core.errors import DataError
from fed_core.metrics.bev import Confusion, confusion, iou_frame, iou_global
from fed_core.metrics.depth import mean_metrics, score_frame
from fed_core.types import Array, BevFrame, Boxes3D, DepthFrame, DetectionFrame
from fed_nodes.convert.boxes import boxes_from_markers, markers_time_ns
from fed_nodes.convert.images import depth_from_msg, stamp_ns
from fed_nodes.convert.occupancy import occupancy_from_msg
from fed_nodes.live.detection import MARKERS

#: A cell is said to be a vehicle where that is the likelier class.
THRESHOLD = 0.5


class Judge(Protocol):
    """Scores the outputs of one sequence, frame by frame.

    Attributes:
        kind: message type of the output.
        topic: its topic, relative.
        lacking: what a sequence lacks that cannot be scored.
    """

    kind: type
    topic: str
    lacking: str

    def time_ns(self, msg: Any) -> int:
        """Return the time of the frame that an output is of."""

    def add(self, msg: Any, frame: Any) -> Mapping[str, Array]:
        """Score the output of a frame; returns what a picture of it needs."""

    def result(self) -> dict[str, Any] | None:
        """Return how many frames were scored, and the figures; None where there was nothing to score."""


class DepthJudge:
    """Depth in metres against the true depth.

    Args:
        cap_m: largest true depth that is scored.
    """

    kind, topic, lacking = Image, "depth/image", "a valid depth pixel"

    def __init__(self, cap_m: float) -> None:
        self._cap_m = cap_m
        self._found: list[dict[str, float]] = []

    def time_ns(self, msg: Image) -> int:
        """Return the time of the image."""
        return stamp_ns(msg.header.stamp)

    def add(self, msg: Image, frame: DepthFrame) -> Mapping[str, Array]:
        """Score one depth image."""
        predicted = depth_from_msg(msg)
        found = score_frame(predicted, frame.depth_m, cap_m=self._cap_m)
        if found is not None:
            self._found.append(found)
        return {"rgb": frame.rgb, "truth": frame.depth_m, "predicted": predicted}

    def result(self) -> dict[str, Any] | None:
        """Return the means over the frames."""
        return {"frames": len(self._found), "metrics": mean_metrics(self._found)} if self._found else None


class MapJudge:
    """A map of vehicles against the true one, over the cells that a camera sees (feddwa spec 9)."""

    kind, topic, lacking = OccupancyGrid, "occupancy", "a cell that a camera sees"

    def __init__(self) -> None:
        self._counts: list[Confusion] = []

    def time_ns(self, msg: OccupancyGrid) -> int:
        """Return the time of the grid."""
        return stamp_ns(msg.header.stamp)

    def add(self, msg: OccupancyGrid, frame: BevFrame) -> Mapping[str, Array]:
        """Score one grid; a map of another side than the frame's raises ``DataError``.

        What the grid calls unknown is no vehicle. A cell's value is a whole per cent, so one of 50.4 % is not said to
        be a vehicle here.
        """
        predicted, extent_m = occupancy_from_msg(msg)
        mask, known = fit_map(frame, len(predicted), extent_m)
        if known.any():
            self._counts.append(confusion(np.asarray(predicted > THRESHOLD), mask, known))
        shown = {f"camera{camera}": image for camera, image in zip(frame.cameras, frame.images, strict=True)}
        return {**shown, "truth": mask, "known": known, "predicted": predicted}

    def result(self) -> dict[str, Any] | None:
        """Return IoU of all cells together and by frame; None for a figure that no vehicle, true or claimed, gives."""
        if not self._counts:
            return None
        figures = {"iou_global": iou_global(self._counts), "iou_frame": iou_frame(self._counts)}
        metrics: dict[str, Any] = {key: value if math.isfinite(value) else None for key, value in figures.items()}
        for name in Confusion._fields:
            metrics[name] = int(sum(getattr(counts, name) for counts in self._counts))
        return {"frames": len(self._counts), "metrics": metrics}


class BoxJudge:
    """Boxes against the true ones by the nuScenes devkit, over the classes that are there (fedcka spec 7.3).

    Args:
        sequence: frames of one nuScenes folder.
    """

    kind, topic, lacking = MarkerArray, MARKERS, "a true box that the devkit counts"

    def __init__(self, sequence: Any) -> None:
        self._tables = getattr(sequence, "tables", None)
        if self._tables is None:
            raise DataError(f"{sequence.name} is of several sources; boxes are scored in one nuScenes folder at a time")
        self._results: dict[str, Any] = {}

    def time_ns(self, msg: MarkerArray) -> int:
        """Return the time of the cloud that the boxes are of."""
        return markers_time_ns(msg)

    def add(self, msg: MarkerArray, frame: DetectionFrame) -> Mapping[str, Array]:
        """Keep the boxes of one frame."""
        from fed_core.metrics.detection.submission import to_submission

        said = boxes_from_markers(msg)
        self._results[frame.token] = to_submission(said, frame)
        return scan_panel(frame, said)

    def result(self) -> dict[str, Any] | None:
        """Return NDS, mAP and CAP; None where no true box counts, and for a figure that is not defined."""
        from fed_core.metrics.detection.devkit import Truth, finite

        if not self._results:
            return None
        truth = Truth(self._tables, list(self._results))
        if not truth.classes:
            return None
        score = truth.evaluate(self._results).filtered()
        metrics = {"nds": score.nds, "map": score.map, "cap": score.cap, **score.errors}
        return {"frames": len(self._results), "metrics": {key: finite(value) for key, value in metrics.items()}}


def scan_panel(frame: DetectionFrame, said: Boxes3D) -> dict[str, Array]:
    """Return what a picture of a frame needs: the first camera, the points from above, true and predicted boxes."""
    panel: dict[str, Array] = {"points": frame.points[:, :2].astype(np.float32)}
    if frame.cameras:
        panel["image"] = frame.images[0]
        panel["to_pixel"] = frame.intrinsics[0] @ frame.lidar_to_camera[0][:3]
    for name, boxes in (("true", frame.boxes), ("said", said)):
        columns = (boxes.centres, boxes.sizes, boxes.yaws[:, None], boxes.labels[:, None], boxes.scores[:, None])
        panel[f"{name}_boxes"] = np.hstack(columns)
    return panel


def judge_of(task: str, cap_m: float, sequence: Any = None) -> Judge:
    """Return a new judge of a task's outputs.

    Args:
        task: name of the task.
        cap_m: task depth: largest true depth that is scored.
        sequence: task detection: what is played; its tables hold the true boxes.
    """
    if task == "detection":
        return BoxJudge(sequence)
    return MapJudge() if task == "bev" else DepthJudge(cap_m)
