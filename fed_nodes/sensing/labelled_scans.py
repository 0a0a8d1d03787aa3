"""Scans from sensor topics, labelled with the true boxes of their time: what a robot of task detection records."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import QoSProfile
from visualization_msgs.msg import MarkerArray

from fed_core.errors import DataError
from fed_core.types import DetectionFrame, ScanFrame
from fed_nodes.convert.boxes import boxes_from_markers, markers_time_ns
from fed_nodes.convert.images import stamp_ns
from fed_nodes.convert.scans import Floats, labelled, odometry_from_msg
from fed_nodes.playing.scan_publisher import ODOMETRY, TRUTH
from fed_nodes.sensing.scan_rigs import ScanRig
from fed_nodes.sensing.scan_sets import ScanFeed, ScanSets
from fed_nodes.sensing.sensors import RAW, SensorTopic
from fed_nodes.sensing.waiting import MOST, most_waiting, shorten


class LabelledScans:
    """Calls ``use`` with each complete frame: all cameras, the cloud, the true boxes and where the vehicle was.

    Args:
        node: owner of the subscriptions.
        rig: the sensors.
        profile: quality of service of the sensor topics, the boxes' too.
        slop_s: largest time between the messages of a frame.
        use: receives the frames, on the executor's thread.
        transport: how images travel.

    Attributes:
        topics: the sensor topics, for their health.
    """

    def __init__(
        self,
        node: Node,
        rig: ScanRig,
        profile: QoSProfile,
        slop_s: float,
        use: Callable[[DetectionFrame], None],
        *,
        transport: str = RAW,
    ) -> None:
        self._node, self._use, self._slop_ns = node, use, round(slop_s * 1e9)
        self._scans: OrderedDict[int, ScanFrame] = OrderedDict()
        self._boxes: OrderedDict[int, MarkerArray] = OrderedDict()
        self._poses: OrderedDict[int, Odometry] = OrderedDict()
        self._dropped = 0
        self._sets = ScanSets(rig, slop_s, ScanFeed(self._on_scan, self._tell), most_early=MOST)
        self.topics = [
            *self._sets.open(node, profile, transport),
            SensorTopic(node, MarkerArray, TRUTH, self._on_boxes, profile),
            SensorTopic(node, Odometry, ODOMETRY, self._on_pose, profile),
        ]

    @property
    def dropped(self) -> int:
        """Scans and boxes that could not be used."""
        return self._dropped + self._sets.dropped.total()

    def counts(self) -> Mapping[str, str]:
        """Return what was not used by reason, for diagnostics."""
        return {**self._sets.counts(), "dropped_labels": str(self._dropped)}

    def close(self) -> None:
        """Stop listening."""
        topics, self.topics = self.topics, []
        for topic in topics:
            topic.close()

    def _on_scan(self, scan: ScanFrame, frame_id: str) -> None:
        self._scans[scan.stamp_ns] = scan
        size_bytes = scan.points.nbytes + sum(picture.nbytes for picture in scan.images)
        self._dropped += shorten(self._scans, most_waiting(size_bytes))
        self._match()

    def _on_boxes(self, msg: MarkerArray) -> None:
        self._boxes[markers_time_ns(msg)] = msg
        self._dropped += shorten(self._boxes)
        self._match()

    def _on_pose(self, msg: Odometry) -> None:
        self._poses[stamp_ns(msg.header.stamp)] = msg
        shorten(self._poses)
        self._match()

    def _match(self) -> None:
        for time_ns in list(self._scans):
            boxes, pose = self._near(self._boxes, time_ns), self._near(self._poses, time_ns)
            if boxes is None or pose is None:
                continue
            try:
                frame = _labelled(self._scans.pop(time_ns), self._boxes.pop(boxes), self._poses[pose])
            except DataError as err:
                self._dropped += 1
                self._tell(f"dropped true boxes: {err}")
                continue
            self._use(frame)

    def _near(self, waiting: "OrderedDict[int, Any]", time_ns: int) -> int | None:
        near = min(waiting, key=lambda other: abs(other - time_ns), default=None)
        return near if near is not None and abs(near - time_ns) <= self._slop_ns else None

    def _tell(self, text: str) -> None:
        self._node.get_logger().error(text, throttle_duration_sec=2.0)


def scan_topics(node: Node, rig: ScanRig) -> Mapping[str, str]:
    """Return the full names of the topics that a robot records from, after remapping."""
    return {name: node.resolve_topic_name(name) for name in (*rig.topics, TRUTH, ODOMETRY)}


def _labelled(scan: ScanFrame, boxes: MarkerArray, pose: Odometry) -> DetectionFrame:
    placed: Floats = odometry_from_msg(pose)
    return labelled(replace(scan, ego_to_global=placed), boxes_from_markers(boxes))
