"""Live 3D detection: images of a rig and a cloud in, boxes around the vehicle out."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from fed_core.types import ScanFrame
from fed_nodes import qos
from fed_nodes.convert.boxes import boxes_to_detections, boxes_to_markers, vision_messages
from fed_nodes.convert.images import to_stamp
from fed_nodes.live.streams import Feed, Taken
from fed_nodes.sensing.scan_rigs import ScanRig
from fed_nodes.sensing.scan_sets import ScanFeed, ScanSets
from fed_nodes.sensing.sensors import RAW, SensorTopic

#: Topics of the boxes, as markers and as detections.
MARKERS, DETECTIONS = "detections/markers", "detections"


class DetectionStream:
    """Follows :class:`fed_nodes.live.streams.Stream`.

    Args:
        node: owner of the topics.
        rig: the sensors.
        slop_s: largest time between the messages of a scan.
        min_score: boxes below it are not published.
        transport: how images travel (:mod:`fed_nodes.sensing.sensors`).

    Attributes:
        min_score: as given; may change.
    """

    task = "detection"

    def __init__(
        self, node: LifecycleNode, rig: ScanRig, *, slop_s: float, min_score: float, transport: str = RAW
    ) -> None:
        self._node, self._rig, self._slop_s, self.min_score = node, rig, slop_s, min_score
        self._transport = transport
        self.takes = f"the sensors {', '.join(rig.names)}"
        self._messages = vision_messages()
        self._detections: Any = None
        self.topics: Sequence[SensorTopic] = ()

    def open(self, feed: Feed, sensors: QoSProfile, opened: ExitStack) -> None:
        """Open the topics; ``opened`` closes them."""
        node, self._feed = self._node, feed
        self._markers = node.create_lifecycle_publisher(MarkerArray, MARKERS, qos.OUTPUTS)
        opened.callback(node.destroy_publisher, self._markers)
        if self._messages is None:
            node.get_logger().info(f"vision_msgs is not installed: boxes come on {MARKERS} alone")
        else:
            kind = self._messages.Detection3DArray
            self._detections = node.create_lifecycle_publisher(kind, DETECTIONS, qos.OUTPUTS)
            opened.callback(node.destroy_publisher, self._detections)
        self._sets = ScanSets(self._rig, self._slop_s, ScanFeed(self._use, feed.drop, feed.wanted))
        self.topics = self._sets.open(node, sensors, self._transport)
        for topic in self.topics:
            opened.callback(topic.close)

    def served(self, network: Any) -> None:
        """Any network will do."""

    def publish(self, taken: Taken, prediction: Any) -> None:
        """Publish the boxes in the LiDAR's frame, best first."""
        boxes = prediction.take(prediction.scores >= self.min_score)
        self._markers.publish(boxes_to_markers(boxes, taken.header))
        if self._detections is not None:
            self._detections.publish(boxes_to_detections(boxes, taken.header, self._messages))

    def counts(self) -> Mapping[str, str]:
        """Return the messages that found no set and the sets that could not be used, by reason."""
        return self._sets.counts()

    def problem(self) -> str:
        """Return what keeps scans from being complete or used."""
        return self._sets.problem()

    def _use(self, scan: ScanFrame, frame_id: str) -> None:
        header = Header(stamp=to_stamp(scan.stamp_ns), frame_id=frame_id)
        self._feed.use(Taken(header, scan, scan.images))
