"""Sensor topics of a vehicle that detects: images of all cameras and a cloud that were taken at one time."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, PointCloud2

from fed_core.errors import DataError
from fed_core.types import ScanFrame
from fed_nodes.convert.clouds import CloudError
from fed_nodes.convert.scans import scan_from_msgs
from fed_nodes.sensing.camera_sets import CameraSets
from fed_nodes.sensing.scan_rigs import ScanRig
from fed_nodes.sensing.sensors import RAW, SensorTopic, image_topic
from fed_nodes.sensing.waiting import most_waiting

#: Checks, one a second, without a complete set before a person is told.
_PATIENCE = 2


@dataclass(frozen=True)
class ScanFeed:
    """Where scans go.

    Attributes:
        use: takes a scan and the frame of its cloud.
        drop: takes the text of why a set was dropped.
        wanted: tells whether anything is taken at all.
    """

    use: Callable[[ScanFrame, str], None]
    drop: Callable[[str], None]
    wanted: Callable[[], bool] = lambda: True


class ScanSets:
    """Calls ``feed.use`` with each complete scan.

    Args:
        rig: the sensors.
        slop_s: largest time between the messages of a set.
        feed: receives the scans, on the executor's thread.
        most_early: sets that wait for camera infos; the oldest are dropped first.

    Attributes:
        dropped: sets that could not be used, by reason.
    """

    def __init__(self, rig: ScanRig, slop_s: float, feed: ScanFeed, *, most_early: int = 1) -> None:
        self._rig, self._slop_s, self._feed, self._most_early = rig, slop_s, feed, most_early
        self._sets = CameraSets(rig.names, round(slop_s * 1e9))
        self._infos: dict[str, CameraInfo] = {}
        self._early: list[tuple[Any, ...]] = []
        self.dropped: Counter[str] = Counter()
        self._checks, self._refused, self._without_place = 0, "", 0

    def open(self, node: Node, profile: QoSProfile, transport: str = RAW) -> list[SensorTopic]:
        """Return the topics, which the caller closes; images travel by ``transport``."""
        rig, made = self._rig, []
        for name in rig.cameras.names:
            made.append(SensorTopic(node, CameraInfo, f"{name}/camera_info", partial(self._info, name), profile))
            made.append(image_topic(node, f"{name}/image_raw", transport, partial(self._add, name), profile))
        add = partial(self._add, rig.lidar)
        return [*made, SensorTopic(node, PointCloud2, f"{rig.lidar}/points", add, profile)]

    def counts(self) -> Mapping[str, str]:
        """Return what found no set, points that were nowhere, and the sets that could not be used by reason."""
        reasons = {f"dropped_{reason}": str(count) for reason, count in sorted(self.dropped.items())}
        found = {"without_set": self._sets.dropped, "dropped_sets": self.dropped.total()}
        found["points_without_place"] = self._without_place
        return {**{name: str(count) for name, count in found.items()}, **reasons}

    def problem(self) -> str:
        """Return what keeps sets from being complete or used; "" = all is well. Asked once a second."""
        since, topics = self._sets.since_last, self._rig.topics
        waits = self._feed.wanted() and (any(since.values()) or bool(self._early))
        self._checks = self._checks + 1 if waits else 0
        if self._checks < _PATIENCE:
            return self._refused
        if self._early:
            return self._waiting()
        silent = [topic for name, topic in zip(self._rig.names, topics, strict=True) if not since[name]]
        if silent:
            return f"no scan is complete: nothing comes on {', '.join(silent)}; rig and lidar list {', '.join(topics)}"
        return f"the messages on {', '.join(topics)} are further apart than {self._slop_s:g} s, so none is used"

    def _waiting(self) -> str:
        missing = ", ".join(f"{name}/camera_info" for name in self._rig.cameras.names if name not in self._infos)
        return f"images wait for {missing}; publish what the cameras are calibrated to"

    def _info(self, name: str, msg: CameraInfo) -> None:
        self._infos[name] = msg
        if len(self._infos) == len(self._rig.cameras.names):
            early, self._early = self._early, []
            for found in early:
                self._complete(found)

    def _add(self, name: str, msg: Any) -> None:
        if not self._feed.wanted():
            return
        found = self._sets.add(name, msg)
        if found is None:
            return
        if len(self._infos) == len(self._rig.cameras.names):
            self._complete(found)
            return
        self._early.append(found)
        many = len(self._early) - min(self._most_early, most_waiting(sum(len(msg.data) for msg in found)))
        if many > 0:
            del self._early[:many]
            self.dropped["no_camera_info"] += many

    def _complete(self, found: tuple[Any, ...]) -> None:
        self._checks = 0
        *images, cloud = found
        try:
            scan = scan_from_msgs(self._rig, images, [self._infos[name] for name in self._rig.cameras.names], cloud)
        except DataError as err:
            self.dropped[err.reason if isinstance(err, CloudError) else "image"] += 1
            self._refused = f"dropped a scan: {err}"
            self._feed.drop(self._refused)
            return
        self._refused = ""
        self._without_place += cloud.height * cloud.width - len(scan.points)
        self._feed.use(scan, cloud.header.frame_id)
