"""Parameters of the inference node."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rclpy.lifecycle import LifecycleNode

from fed_core.config import check, option
from fed_core.data.opv2v.sequence import FOV, OFF, SECTOR
from fed_core.errors import ConfigError
from fed_nodes.live.bev import BevStream
from fed_nodes.live.depth import DepthStream
from fed_nodes.live.detection import DetectionStream
from fed_nodes.live.streams import Stream
from fed_nodes.sensing.rigs import CameraMount, Mount, lidar_option, rig_from_tree, rig_option
from fed_nodes.sensing.scan_rigs import scan_rig_from_tree
from fed_nodes.sensing.sensors import COMPRESSED, RAW

#: What runs networks, see :mod:`fed_models.runtimes`.
RUNTIMES = ("torch", "compile", "onnx")


@dataclass(frozen=True)
class InferenceConfig:
    """How models are chosen and served (``config/inference.yaml``)."""

    reader_id: str = option("inference", help="name under which models are read; unique in the fleet")
    robot_id: str = option("", help="robot that asks, for strategies with a model of each robot; empty = none")
    robot_dir: str = option(
        "", help="that robot's state_dir, for methods that keep tensors on the robots; empty = none"
    )
    state_dir: Path = option(Path("inference"), help="folder of downloaded models")
    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")
    descriptor_frames: int = option(8, help="first frames that choose the models", unit="count", low=2, high=200)
    gap_s: float = option(
        5.0,
        help="a jump of image time or of /clock by more than this starts a new sequence",
        unit="s",
        low=0.01,
        live=True,
    )
    drift_frames: int = option(
        0, help="compare the last so many frames with those of the choice; 0 = never", unit="count", low=0, high=100_000
    )
    drift_threshold: float = option(
        0.0, help="a larger distance of the two starts a new sequence; 0 = it is only told", low=0.0
    )
    reliable_sensors: bool = option(False, help="ask the image publisher for reliable delivery (replays)")
    image_transport: str = option(RAW, help="how camera images travel", choices=(RAW, COMPRESSED))
    rectified: bool = option(False, help="task depth: images are rectified, their camera is P of the CameraInfo")
    undistort: bool = option(
        False, help="task depth: take the lens distortion out of images, as training on LiDAR or stereo depth does"
    )
    cloud: bool = option(False, help="task depth: also publish it as a cloud of coloured points, depth/points")
    rig: Mapping[str, CameraMount] = rig_option()
    lidar: Mapping[str, Mount] = lidar_option()
    min_score: float = option(0.1, help="boxes with a lower score are not published", low=0.0, high=1.0, live=True)
    base_frame: str = option("base_link", help="frame of the vehicle, in which rig tells where its cameras are")
    sync_slop_s: float = option(0.02, help="largest time between the messages of a rig", unit="s", low=0.0, high=10.0)
    known_cells: str = option(
        SECTOR, help="cells that the cameras of a rig look at, as in training", choices=(SECTOR, FOV, OFF)
    )
    threads: int = option(1, help="CPU threads of the network", unit="count", low=1, high=1024)
    device: str = option(
        "cpu", help="where the network runs; auto: on the GPU where there is one", choices=("cpu", "cuda", "auto")
    )
    runtime: str = option("torch", help="what runs the network (docs/live_depth.md)", choices=RUNTIMES)
    autostart: bool = option(True, help="configure and activate without a lifecycle manager")

    def __post_init__(self) -> None:
        check(self)
        if self.drift_frames == 1:
            raise ConfigError("drift_frames is 1; at least 2 frames can be described, 0 switches it off")
        if self.device == "cuda" and self.runtime == "onnx":
            raise ConfigError("runtime onnx runs on the CPU; set device to cpu, or runtime to torch")
        if self.robot_dir and not self.robot_id:
            raise ConfigError("robot_dir is set, but not robot_id; name the robot whose folder it is")
        if self.undistort and self.rectified:
            raise ConfigError("undistort and rectified are both true; rectified images have no distortion, set one")
        if self.lidar:
            scan_rig_from_tree(self.rig, self.lidar)
        else:
            rig_from_tree(self.rig).require_known(self.known_cells)

    def change(self, stream: Stream) -> None:
        """Give the values that may change to the topics of the task."""
        if isinstance(stream, DetectionStream):
            stream.min_score = self.min_score

    def stream(self, node: LifecycleNode) -> Stream:
        """Return the topics of the task: one camera and its depth, a rig and a map, or a rig with LiDAR and boxes."""
        if self.lidar:
            scan_rig = scan_rig_from_tree(self.rig, self.lidar)
            return DetectionStream(
                node, scan_rig, slop_s=self.sync_slop_s, min_score=self.min_score, transport=self.image_transport
            )
        if not self.rig:
            return DepthStream(
                node, self.image_transport, cloud=self.cloud, rectified=self.rectified, undistort=self.undistort
            )
        rig = rig_from_tree(self.rig)
        return BevStream(
            node, rig, base_frame=self.base_frame, slop_s=self.sync_slop_s, known=self.known_cells,
            transport=self.image_transport,
        )  # fmt: skip
