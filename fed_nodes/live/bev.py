"""Live map of vehicles: the images of a rig in, an occupancy grid in the vehicle's frame out."""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from nav_msgs.msg import OccupancyGrid
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.errors import DataError
from fed_nodes import qos
from fed_nodes.convert.bev import frame_from_msgs, known_cells
from fed_nodes.convert.images import to_stamp
from fed_nodes.convert.occupancy import occupancy_to_msg
from fed_nodes.live.streams import Feed, Taken
from fed_nodes.sensing.camera_sets import CameraSets
from fed_nodes.sensing.rigs import Rig
from fed_nodes.sensing.sensors import RAW, SensorTopic, image_topic

#: Checks, one a second, without a complete set before a person is told.
_PATIENCE = 2


class BevStream:
    """Follows :class:`fed_nodes.live.streams.Stream`.

    Args:
        node: owner of the topics.
        rig: the cameras.
        base_frame: frame of the vehicle.
        slop_s: largest time between the images of a set.
        known: which cells are known: "sector", "fov" or "off".
        transport: how images travel (:mod:`fed_nodes.sensing.sensors`).
    """

    task = "bev"

    def __init__(
        self, node: LifecycleNode, rig: Rig, *, base_frame: str, slop_s: float, known: str, transport: str = RAW
    ) -> None:
        self._node, self._rig, self._base_frame, self._known = node, rig, base_frame, known
        self._slop_s, self._transport = slop_s, transport
        self.topics: list[SensorTopic] = []
        self.takes = f"the cameras {', '.join(rig.names)}"
        self._sets = CameraSets(rig.names, round(slop_s * 1e9))
        self._infos: dict[str, CameraInfo] = {}
        self._early: tuple[Image, ...] | None = None  # a set that waits for camera infos
        self._dropped_sets, self._checks, self._refused = 0, 0, ""
        self._extent_m = 0.0

    def open(self, feed: Feed, sensors: QoSProfile, opened: ExitStack) -> None:
        """Open the topics; ``opened`` closes them."""
        node, self._feed = self._node, feed
        self._grids = node.create_lifecycle_publisher(OccupancyGrid, "occupancy", qos.OUTPUTS)
        opened.callback(node.destroy_publisher, self._grids)
        for name in self._rig.names:
            self.topics += [
                SensorTopic(node, CameraInfo, f"{name}/camera_info", partial(self._on_info, name), sensors),
                image_topic(node, f"{name}/image_raw", self._transport, partial(self._on_image, name), sensors),
            ]
        for topic in self.topics:
            opened.callback(topic.close)

    def served(self, network: Any) -> None:
        """Take over the size of the network's map."""
        self._extent_m = float(network.extent_m)

    def publish(self, taken: Taken, prediction: Any) -> None:
        """Publish the probabilities (S, S) float32 of vehicles; cells that no camera looks at are unknown."""
        known = known_cells(taken.sample, len(prediction), self._extent_m, self._known)
        self._grids.publish(occupancy_to_msg(prediction, self._extent_m, taken.header, known))

    def counts(self) -> Mapping[str, str]:
        """Return the images that found no set and the sets that could not be used."""
        return {"images_without_set": str(self._sets.dropped), "dropped_sets": str(self._dropped_sets)}

    def problem(self) -> str:
        """Return what keeps sets from being complete or used."""
        since = self._sets.since_last
        waits = self._feed.wanted() and (any(since.values()) or self._early is not None)
        self._checks = self._checks + 1 if waits else 0
        if self._checks < _PATIENCE:
            return self._refused
        silent = [name for name in self._rig.names if not since[name]]
        if self._early is not None:
            missing = ", ".join(f"{name}/camera_info" for name in self._rig.names if name not in self._infos)
            return f"images wait for {missing}; publish what the cameras are calibrated to"
        if silent:
            rig = f"the rig lists {', '.join(self._rig.names)}"
            return f"no set of images is complete: none comes on {_topics(silent)}; {rig}"
        return f"images of {self.takes} are further apart than sync_slop_s ({self._slop_s:g} s), so none is used"

    def _on_info(self, name: str, msg: CameraInfo) -> None:
        self._infos[name] = msg
        if self._early is not None:
            early, self._early = self._early, None
            self._complete(early)

    def _on_image(self, name: str, msg: Image) -> None:
        if not self._feed.wanted():
            return
        found = self._sets.add(name, msg)
        if found is not None:
            self._complete(found)

    def _complete(self, images: tuple[Image, ...]) -> None:
        if len(self._infos) < len(self._rig.names):
            self._dropped_sets += self._early is not None
            self._early = images
            return
        self._checks = 0
        try:
            frame = frame_from_msgs(self._rig, images, [self._infos[name] for name in self._rig.names])
        except DataError as err:
            self._dropped_sets += 1
            self._refused = f"dropped a set of images: {err}"
            self._feed.drop(self._refused)
            return
        self._refused = ""
        header = Header(stamp=to_stamp(frame.stamp_ns), frame_id=self._base_frame)
        self._feed.use(Taken(header, frame, frame.images))


def _topics(names: list[str]) -> str:
    return ", ".join(f"{name}/image_raw" for name in names)
