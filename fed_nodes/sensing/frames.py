"""Sensor topics of a robot: pairs colour, depth and camera into frames."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo

from fed_core.config import check, from_tree, option
from fed_core.data.stamp_pairs import FIRST, SECOND, StampPairs
from fed_core.errors import ConfigError, DataError
from fed_core.types import DepthFrame
from fed_nodes.convert.clouds import CloudError
from fed_nodes.convert.images import stamp_ns
from fed_nodes.sensing.depth_sources import COLOUR, DEPTH, INFO, DepthCamera, DepthSource, LidarDepth, StereoDepth
from fed_nodes.sensing.extrinsics import MOUNTS, TF, Extrinsics, FixedExtrinsics, TfExtrinsics
from fed_nodes.sensing.rigs import Mount
from fed_nodes.sensing.sensors import COMPRESSED, COMPRESSED_DEPTH, RAW, SensorTopic, image_topic
from fed_nodes.sensing.waiting import most_waiting

__all__ = ["COLOUR", "DEPTH", "INFO", "FrameOptions", "FramePairer", "pair_frames", "sensor_names"]

#: What gives depth.
CAMERA, LIDAR, STEREO = "camera", "lidar", "stereo"

Wanted = Callable[[int], bool]


@dataclass(frozen=True)
class FrameOptions:
    """Which sensors a robot of task depth has (``docs/your_robot.md``)."""

    depth_from: str = option(CAMERA, help="what gives depth", choices=(CAMERA, LIDAR, STEREO))
    image_transport: str = option(RAW, help="how colour images travel", choices=(RAW, COMPRESSED))
    depth_transport: str = option(RAW, help="how depth images travel", choices=(RAW, COMPRESSED_DEPTH))
    rectified: bool = option(False, help="one camera or a stereo pair: images are rectified, their camera is P")
    depth_near_m: float = option(0.3, help="lidar, stereo: smallest depth used", unit="m", low=0.0, high=1000.0)
    depth_far_m: float = option(100.0, help="lidar, stereo: largest depth used", unit="m", low=0.1, high=10_000.0)
    extrinsics: str = option(MOUNTS, help="what places a LiDAR as the camera sees it", choices=(MOUNTS, TF))
    lidar_mount: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={"help": "position and rotation of a LiDAR, as YAML, in the frame that camera_mount is in"},
    )
    camera_mount: Mapping[str, Any] = field(
        default_factory=dict,
        metadata={"help": "position and rotation of the optical frame; empty = lidar_mount is in that frame"},
    )
    max_disparity_px: int = option(128, help="stereo: largest disparity searched", unit="px", low=16, high=1024)

    def __post_init__(self) -> None:
        """Check the options, also against each other."""
        check(self)
        if not self.depth_far_m > self.depth_near_m:
            raise ConfigError(f"depth_far_m is {self.depth_far_m:g}; it must be more than depth_near_m")
        for name in ("lidar_mount", "camera_mount"):
            self.mount(name)
        if self.depth_from == LIDAR and self.extrinsics == MOUNTS and not self.lidar_mount:
            text = "depth_from is lidar, but nothing says where it sits"
            raise ConfigError(f"{text}; give lidar_mount a position and a rotation, or set extrinsics to tf")

    def mount(self, name: str) -> Mount | None:
        """Return ``lidar_mount`` or ``camera_mount``; None where it is empty."""
        tree = getattr(self, name)
        return from_tree(Mount, tree, name) if tree else None

    @property
    def limits_m(self) -> tuple[float, float]:
        """Smallest and largest depth used."""
        return self.depth_near_m, self.depth_far_m


class FramePairer:
    """Calls ``use`` with each complete frame.

    Attributes:
        topics: the sensor topics, for their health.
    """

    def __init__(
        self, node: Node, source: DepthSource, slop_s: float, use: Callable[[DepthFrame], None], wanted: Wanted
    ) -> None:
        self._node, self._source, self._use, self._wanted = node, source, use, wanted
        self._pairs = StampPairs(round(slop_s * 1e9))
        self._infos: dict[str, CameraInfo] = {}
        self._made = self._refused = 0
        self.topics: list[SensorTopic] = []

    def open(self, transport: str, profile: QoSProfile) -> None:
        """Listen to all topics."""
        node, source = self._node, self._source
        self._colour = image_topic(node, COLOUR, transport, partial(self._add, FIRST), profile)
        self._partner = source.subscribe(node, partial(self._add, SECOND), profile)
        infos = [SensorTopic(node, CameraInfo, name, partial(self._on_info, name), profile) for name in source.infos]
        self.topics = [self._colour, self._partner, *infos]

    @property
    def dropped(self) -> int:
        """Messages that found no partner, and pairs that could not be used."""
        return sum(self._pairs.unpaired) + self._refused

    def counts(self) -> dict[str, str]:
        """Return how many frames were made, and what was not used by reason, for diagnostics."""
        unpaired = self._pairs.unpaired
        found = {"frames": self._made, "refused_frames": self._refused, **self._source.counts()}
        found |= {"unpaired_colour": unpaired[FIRST], "unpaired_depth": unpaired[SECOND]}
        return {name: str(count) for name, count in found.items()}

    def close(self) -> None:
        """Stop listening."""
        topics, self.topics = self.topics, []
        for topic in topics:
            topic.close()
        self._source.close()

    def _on_info(self, name: str, msg: CameraInfo) -> None:
        self._infos[name] = msg
        self._match()

    def _add(self, stream: int, msg: Any) -> None:
        self._pairs.add(stream, stamp_ns(msg.header.stamp), msg, most_waiting(len(msg.data)))
        self._match()

    def _match(self) -> None:
        if len(self._infos) < len(self._source.infos):
            return
        infos = tuple(self._infos[name] for name in self._source.infos)
        for colour, partner in self._pairs.take():
            if not self.topics:
                return  # closed by who used the frame before
            if not self._wanted(stamp_ns(colour.header.stamp)):
                continue
            try:
                frame = self._source.frame(colour, partner, infos)
            except DataError as err:
                self._refused += 1
                (self._partner if isinstance(err, CloudError) else self._colour).drop(f"dropped a frame: {err}")
                continue
            self._made += 1
            self._use(frame)


def pair_frames(
    node: Node,
    options: FrameOptions,
    profile: QoSProfile,
    slop_s: float,
    use: Callable[[DepthFrame], None],
    *,
    wanted: Wanted = lambda time_ns: True,
) -> FramePairer:
    """Return what pairs a robot's sensor topics into frames, until it is closed.

    Args:
        node: owner of the subscriptions.
        options: which sensors there are.
        profile: quality of service of their topics.
        slop_s: largest time between colour and depth.
        use: receives the frames, on the executor's thread.
        wanted: tells of the time [ns] of a frame whether it is worth to be made, before it is.

    Raises:
        ConfigError: extrinsics shall come from TF, which is not installed.
    """
    pairer = FramePairer(node, _source(node, options), slop_s, use, wanted)
    pairer.open(options.image_transport, profile)
    return pairer


def sensor_names(node: Node, options: FrameOptions = FrameOptions()) -> dict[str, Any]:  # noqa: B008 (frozen)
    """Return the full names of the sensor topics after remapping."""
    kinds: dict[str, type[DepthSource]] = {CAMERA: DepthCamera, LIDAR: LidarDepth, STEREO: StereoDepth}
    kind = kinds[options.depth_from]
    return {name: node.resolve_topic_name(name) for name in (COLOUR, kind.topic, *kind.infos)}


def _source(node: Node, options: FrameOptions) -> DepthSource:
    if options.depth_from == CAMERA:
        return DepthCamera(options.depth_transport, rectified=options.rectified)
    limits_m, rectified = options.limits_m, options.rectified
    if options.depth_from == STEREO:
        return StereoDepth(options.image_transport, options.max_disparity_px, limits_m, rectified=rectified)
    return LidarDepth(_extrinsics(node, options), limits_m, rectified=rectified)


def _extrinsics(node: Node, options: FrameOptions) -> Extrinsics:
    lidar = options.mount("lidar_mount")
    if options.extrinsics == TF or lidar is None:
        return TfExtrinsics(node)
    return FixedExtrinsics(options.mount("camera_mount"), lidar)
