"""Records a robot's training samples from its sensor topics: a bag, an OPV2V folder (cameras) or nuScenes (LiDAR)."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rclpy.node import Node

from fed_core.config import check, option
from fed_core.data.bag_writer import DEFAULT_TOPICS, BagWriter
from fed_core.data.nuscenes.recording import ScanWriter
from fed_core.data.nuscenes.recording import recorded_source as recorded_scans
from fed_core.data.opv2v.sequence import FOV, OFF, SECTOR
from fed_core.data.opv2v.writer import Opv2vWriter, recorded_source
from fed_core.types import BevFrame, DepthFrame, DetectionFrame
from fed_nodes import qos
from fed_nodes.frames import FrameOptions, FramePairer, pair_frames, sensor_names
from fed_nodes.labelled_scans import LabelledScans, scan_topics
from fed_nodes.labelled_sets import LabelledSets, set_topics
from fed_nodes.rigs import CameraMount, Mount, rig_from_tree
from fed_nodes.scan_rigs import scan_rig_from_tree


@dataclass(frozen=True)
class RecorderConfig:
    """What a robot records (``config/robot_client.yaml``)."""

    record_frames: int = option(100, help="frames recorded before training", unit="count", low=2, high=10_000_000)
    record_bytes: int = option(2_000_000_000, help="largest size of the recording", unit="bytes", low=1_000_000)
    record_idle_s: float = option(
        0.0, help="silence after which a recording ends with what it has; 0 = never", unit="s", low=0.0, high=86400.0
    )
    slop_s: float = option(0.02, help="largest time between the messages of a frame", unit="s", low=0.0, high=1.0)
    reliable_sensors: bool = option(False, help="ask the sensor publishers for reliable delivery (replays)")
    rig: Mapping[str, CameraMount] = field(
        default_factory=dict,
        metadata={"help": "cameras of a vehicle by topic prefix, as YAML (docs/live_bev.md); empty = one camera"},
    )
    lidar: Mapping[str, Mount] = field(
        default_factory=dict,
        metadata={"help": "task detection: the LiDAR by topic prefix, as YAML (docs/live_detection.md); empty = none"},
    )
    known_cells: str = option(
        SECTOR, help="task bev: cells that the cameras of a rig look at", choices=(SECTOR, FOV, OFF)
    )

    def __post_init__(self) -> None:
        check(self)
        if self.lidar:
            scan_rig_from_tree(self.rig, self.lidar)
        else:
            rig_from_tree(self.rig).require_known(self.known_cells)

    def listen(self, node: Node, use: Callable[[Any], None]) -> "FramePairer | LabelledSets | LabelledScans":
        """Subscribe to the sensor topics; ``use`` receives the frames."""
        profile = qos.SENSORS_RELIABLE if self.reliable_sensors else qos.SENSORS
        if self.lidar:
            return LabelledScans(node, scan_rig_from_tree(self.rig, self.lidar), profile, self.slop_s, use)
        if self.rig:
            return LabelledSets(node, rig_from_tree(self.rig), profile, self.slop_s, use)
        return pair_frames(node, FrameOptions(), profile, self.slop_s, use)

    def topics(self, node: Node) -> str:
        """Return the full names of the sensor topics, for people."""
        if self.lidar:
            return ", ".join(scan_topics(node, scan_rig_from_tree(self.rig, self.lidar)).values())
        return ", ".join((set_topics(node, rig_from_tree(self.rig)) if self.rig else sensor_names(node)).values())

    def write_to(self, path: Path) -> "BagWriter | Opv2vWriter | ScanWriter":
        """Begin a recording."""
        if self.lidar:
            return ScanWriter(path)
        return Opv2vWriter(path, known=self.known_cells) if self.rig else BagWriter(path, topics=DEFAULT_TOPICS)


class Recorder:
    """Writes frames to ``<folder>`` until there are enough; an unfinished recording starts again.

    Args:
        node: owner of the subscriptions.
        config: how much is recorded.
        folder: where the finished recording lies.
        on_done: called once when the recording is finished.
    """

    def __init__(self, node: Node, config: RecorderConfig, folder: Path, on_done: Callable[[], None]) -> None:
        self._node, self._config, self._folder, self._on_done = node, config, folder, on_done
        self._part = folder.with_name(folder.name + ".part")
        self._count, self._bytes = 0, 0
        self._writer: Any = None
        self._pairer: FramePairer | LabelledSets | LabelledScans | None = None
        if not folder.exists():
            shutil.rmtree(self._part, ignore_errors=True)
            self._pairer = config.listen(node, self._on_frame)
        self._last_s = 0.0
        self._timer = node.create_timer(1.0, self._look_for_end)

    def source(self) -> dict[str, Any] | None:
        """Return the entry of the finished recording, as in a fleet file; None while it is recorded."""
        if not self._folder.exists():
            return None
        if self._config.lidar:
            return recorded_scans(self._folder)
        return recorded_source(self._folder) if self._config.rig else {"data": str(self._folder.absolute())}

    def progress(self) -> tuple[float, int, str]:
        """Return the share recorded, the frames so far, and a line for people."""
        topics = self._config.topics(self._node)
        text = f"recording from {topics}" if self._count else f"waiting for images on {topics}"
        return self._count / self._config.record_frames, self._count, text

    def close(self) -> None:
        """Give an unfinished recording up."""
        if self._pairer is not None:
            self._pairer.close()
            self._pairer = None
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    def _on_frame(self, frame: DepthFrame | BevFrame | DetectionFrame) -> None:
        if self._pairer is None:
            return
        if self._writer is None:
            self._writer = self._config.write_to(self._part)
        self._writer.add(frame)
        self._count += 1
        self._last_s = time.monotonic()
        self._bytes += _size_bytes(frame)
        if self._count >= self._config.record_frames or self._bytes >= self._config.record_bytes:
            self._finish()

    def _look_for_end(self) -> None:
        idle = self._config.record_idle_s
        if idle and self._pairer is not None and self._count > 1 and time.monotonic() - self._last_s >= idle:
            self._finish()

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        self._part.rename(self._folder)
        self.close()
        self._node.get_logger().info(f"recorded {self._count} frames")
        self._on_done()


def _size_bytes(frame: DepthFrame | BevFrame | DetectionFrame) -> int:
    if isinstance(frame, DetectionFrame):
        return frame.points.nbytes + sum(image.nbytes for image in frame.images)
    if isinstance(frame, BevFrame):
        return sum(image.nbytes for image in frame.images)
    return frame.rgb.nbytes + frame.depth_m.nbytes
