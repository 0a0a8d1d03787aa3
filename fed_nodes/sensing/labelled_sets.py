"""Sensor topics of a vehicle with several cameras: sets of images, labelled with the true map of their time."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial

import numpy as np
from nav_msgs.msg import OccupancyGrid
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image

from fed_core.errors import DataError
from fed_core.types import BevFrame, RigFrame
from fed_nodes.convert.bev import frame_from_msgs
from fed_nodes.convert.images import stamp_ns
from fed_nodes.convert.occupancy import occupancy_from_msg
from fed_nodes.playing.rig_publisher import TRUTH
from fed_nodes.sensing.camera_sets import CameraSets
from fed_nodes.sensing.rigs import Rig
from fed_nodes.sensing.sensors import RAW, SensorTopic, image_topic
from fed_nodes.sensing.waiting import most_waiting, shorten

#: A cell is said to be a vehicle from here on.
_OCCUPIED = 0.5


class LabelledSets:
    """Calls ``use`` with each complete frame: all cameras and the true map.

    Args:
        node: owner of the subscriptions.
        rig: the cameras.
        profile: quality of service of the sensor topics, the map's too.
        slop_s: largest time between the images of a set, and between them and the map.
        use: receives the frames, on the executor's thread.
        transport: how images travel.

    Attributes:
        dropped: sets and maps that could not be used.
        topics: the sensor topics, for their health.
    """

    def __init__(
        self,
        node: Node,
        rig: Rig,
        profile: QoSProfile,
        slop_s: float,
        use: Callable[[BevFrame], None],
        *,
        transport: str = RAW,
    ) -> None:
        self._node, self._rig, self._use, self._slop_ns = node, rig, use, round(slop_s * 1e9)
        self._sets = CameraSets(rig.names, self._slop_ns)
        self._infos: dict[str, CameraInfo] = {}
        self._early: list[tuple[Image, ...]] = []  # sets that wait for camera infos
        self._frames: OrderedDict[int, RigFrame] = OrderedDict()
        self._maps: OrderedDict[int, OccupancyGrid] = OrderedDict()
        self._map_size = ""  # of the first map
        self.dropped = 0
        self.topics: list[SensorTopic] = []
        for name in rig.names:
            self.topics += [
                SensorTopic(node, CameraInfo, f"{name}/camera_info", partial(self._on_info, name), profile),
                image_topic(node, f"{name}/image_raw", transport, partial(self._on_image, name), profile),
            ]
        self.topics.append(SensorTopic(node, OccupancyGrid, TRUTH, self._on_map, profile))

    def counts(self) -> Mapping[str, str]:
        """Return what was not used by reason, for diagnostics."""
        return {"images_without_set": str(self._sets.dropped), "dropped_sets_and_maps": str(self.dropped)}

    def close(self) -> None:
        """Stop listening."""
        topics, self.topics = self.topics, []
        for topic in topics:
            topic.close()

    def _on_info(self, name: str, msg: CameraInfo) -> None:
        self._infos[name] = msg
        if len(self._infos) == len(self._rig.names):
            early, self._early = self._early, []
            for images in early:
                self._complete(images)

    def _on_image(self, name: str, msg: Image) -> None:
        images = self._sets.add(name, msg)
        if images is None:
            return
        if len(self._infos) == len(self._rig.names):
            self._complete(images)
            return
        early = [*self._early, images][-most_waiting(sum(len(image.data) for image in images)) :]
        self.dropped += len(self._early) + 1 - len(early)
        self._early = early
        missing = ", ".join(f"{name}/camera_info" for name in self._rig.names if name not in self._infos)
        self._tell(f"images wait for {missing}; publish what the cameras are calibrated to")

    def _complete(self, images: tuple[Image, ...]) -> None:
        try:
            frame = frame_from_msgs(self._rig, images, [self._infos[name] for name in self._rig.names])
        except DataError as err:
            self._drop(f"dropped a set of images: {err}")
            return
        self._frames[frame.stamp_ns] = frame
        self.dropped += shorten(self._frames, most_waiting(sum(picture.nbytes for picture in frame.images)))
        self._match()

    def _on_map(self, msg: OccupancyGrid) -> None:
        self._maps[stamp_ns(msg.header.stamp)] = msg
        self.dropped += shorten(self._maps, most_waiting(len(msg.data)))
        self._match()

    def _match(self) -> None:
        for time_ns in list(self._frames):
            near = min(self._maps, key=lambda other: abs(other - time_ns), default=None)
            if near is None or abs(near - time_ns) > self._slop_ns:
                continue
            try:
                frame = self._labelled(self._frames.pop(time_ns), self._maps.pop(near))
            except DataError as err:
                self._drop(f"dropped a map: {err}")
                continue
            self._use(frame)

    def _labelled(self, frame: RigFrame, msg: OccupancyGrid) -> BevFrame:
        probability, extent_m = occupancy_from_msg(msg)
        size = f"{len(probability)} cells a side and {extent_m:g} m"
        self._map_size = self._map_size or size
        if size != self._map_size:
            raise DataError(f"it has {size}, those before had {self._map_size}")
        known = np.isfinite(probability)
        own = {field.name: getattr(frame, field.name) for field in fields(RigFrame)}
        mask = known & (np.nan_to_num(probability) > _OCCUPIED)
        return BevFrame(**own, mask=mask, known=known, metres_per_cell=extent_m / len(mask))

    def _drop(self, text: str) -> None:
        self.dropped += 1
        self._tell(text)

    def _tell(self, text: str) -> None:
        self._node.get_logger().error(text, throttle_duration_sec=2.0)


def set_topics(node: Node, rig: Rig) -> Mapping[str, str]:
    """Return the full names of the topics of a rig after remapping, the map's too."""
    return {name: node.resolve_topic_name(name) for name in (*(f"{name}/image_raw" for name in rig.names), TRUTH)}
