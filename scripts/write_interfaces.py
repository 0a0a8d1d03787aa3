"""Write docs/interfaces.md: topics, services and parameters of every node (``python scripts/write_interfaces.py``).

The tests compare this table with the graph of a running fleet.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rclpy.qos import QoSProfile

from fed_core.config import to_tree
from fed_core.roles.membership import AggregatorConfig
from fed_core.roles.robot import RobotConfig
from fed_nodes import qos
from fed_nodes.aggregator import RunParameters
from fed_nodes.control import ControlConfig
from fed_nodes.live.config import InferenceConfig
from fed_nodes.monitor import MonitorConfig
from fed_nodes.params import is_live
from fed_nodes.recording.recorder import RecorderConfig
from fed_nodes.replay import ReplayConfig
from fed_nodes.robot_client import RobotParameters
from fed_nodes.score import ScoreConfig
from fed_nodes.training.limits import TrainingLimits
from fed_nodes.training.yielding import YieldingConfig

ROOT = Path(__file__).resolve().parents[1]
PUB, SUB, SRV, CLI = "publishes", "subscribes", "serves", "calls"


class Row(NamedTuple):
    """One topic or service of a node; names without a slash are in the node's namespace."""

    way: str
    name: str
    type: str
    qos: str
    meaning: str


IMAGE, INFO = "sensor_msgs/msg/Image", "sensor_msgs/msg/CameraInfo"
READ, REGISTER = "fed_msgs/srv/ReadBlob", "fed_msgs/srv/RegisterRobot"
PLAN = "<fleet_ns>/round"
HEALTH = Row(
    PUB, "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS", "state of the node, once a second"
)

NODES: dict[str, list[Row]] = {
    "aggregator": [
        Row(PUB, PLAN, "fed_msgs/msg/RoundPlan", "LATCHED", "the current round: who trains what, from which models"),
        Row(PUB, "<fleet_ns>/status", "fed_msgs/msg/FleetStatus", "LATCHED", "state of run and robots"),
        Row(SUB, "<fleet_ns>/status", "fed_msgs/msg/FleetStatus", "LATCHED", "whether another aggregator runs there"),
        Row(SUB, "<fleet_ns>/descriptors", "fed_msgs/msg/SequenceDescriptor", "UPDATES", "descriptors of the robots"),
        Row(SUB, "<fleet_ns>/updates", "fed_msgs/msg/UpdateReport", "UPDATES", "manifests of trained updates"),
        Row(SUB, "<fleet_ns>/robot_status", "fed_msgs/msg/RobotStatus", "STATUS", "heartbeats"),
        Row(SRV, "<fleet_ns>/register", REGISTER, "", "takes robots and readers, or says why not"),
        Row(SRV, "<fleet_ns>/read_blob/<reader>", READ, "BLOBS", "chunks of models, one service for each reader"),
        Row(CLI, "/<robot>/read_blob", READ, "BLOBS", "reads the robots' updates"),
        HEALTH,
    ],
    "robot_client": [
        Row(SUB, "camera/image_raw", IMAGE, "SENSORS", "colour; recorded until there are enough frames"),
        Row(SUB, "camera/depth/image_raw", IMAGE, "SENSORS", "depth registered to colour: 32FC1 [m] or 16UC1 [mm]"),
        Row(SUB, "camera/camera_info", INFO, "SENSORS", "calibration"),
        Row(SUB, PLAN, "fed_msgs/msg/RoundPlan", "LATCHED", "what to train"),
        Row(SUB, "<fleet_ns>/status", "fed_msgs/msg/FleetStatus", "LATCHED", "whether the aggregator knows this robot"),
        Row(PUB, "<fleet_ns>/descriptors", "fed_msgs/msg/SequenceDescriptor", "LATCHED", "descriptor of its images"),
        Row(PUB, "<fleet_ns>/updates", "fed_msgs/msg/UpdateReport", "LATCHED", "manifest of its update"),
        Row(
            PUB, "<fleet_ns>/masks", "fed_msgs/msg/LayerMask", "LATCHED", "shared layers, where a method shares a part"
        ),
        Row(PUB, "<fleet_ns>/robot_status", "fed_msgs/msg/RobotStatus", "STATUS", "heartbeat and progress"),
        Row(SRV, "read_blob", READ, "BLOBS", "chunks of its updates"),
        Row(SUB, "battery", "sensor_msgs/msg/BatteryState", "SENSORS", "its charge may make training pause"),
        Row(SRV, "pause_training", "std_srvs/srv/SetBool", "", "pauses training between two batches, or ends that"),
        Row(CLI, "<fleet_ns>/register", REGISTER, "", "joins the fleet"),
        Row(CLI, "<fleet_ns>/read_blob/<robot>", READ, "BLOBS", "reads models"),
        HEALTH,
    ],
    "inference": [
        Row(SUB, "camera/image_raw", IMAGE, "SENSORS", "colour images of the running sequence"),
        Row(SUB, "camera/camera_info", INFO, "SENSORS", "calibration, passed on with the depth"),
        Row(SUB, PLAN, "fed_msgs/msg/RoundPlan", "LATCHED", "models to choose from"),
        Row(PUB, "depth/image", IMAGE, "OUTPUTS", "32FC1 [m], stamp and frame of the colour image"),
        Row(PUB, "depth/camera_info", INFO, "OUTPUTS", "calibration, stamp of the depth"),
        Row(PUB, "selection", "fed_msgs/msg/Selection", "LATCHED", "models that serve the running sequence, and why"),
        Row(SRV, "new_sequence", "std_srvs/srv/Trigger", "", "the next image starts a new sequence"),
        Row(CLI, "<fleet_ns>/register", REGISTER, "", "asks to read models"),
        Row(CLI, "<fleet_ns>/read_blob/<reader_id>", READ, "BLOBS", "reads models"),
        HEALTH,
    ],
    "replay": [
        Row(PUB, "camera/image_raw", IMAGE, "DRIVERS", "colour, rgb8"),
        Row(PUB, "camera/depth/image_raw", IMAGE, "DRIVERS", "depth, 32FC1 [m]"),
        Row(PUB, "camera/camera_info", INFO, "DRIVERS", "calibration"),
        Row(PUB, "clock", "rosgraph_msgs/msg/Clock", "SENSORS", "time of the recording, in this namespace only"),
        HEALTH,
    ],
    "monitor": [
        Row(SUB, PLAN, "fed_msgs/msg/RoundPlan", "LATCHED", "told as a JSON line"),
        Row(SUB, "<fleet_ns>/status", "fed_msgs/msg/FleetStatus", "LATCHED", "told as a JSON line"),
        Row(SUB, "<fleet_ns>/robot_status", "fed_msgs/msg/RobotStatus", "STATUS", "told as a JSON line"),
        Row(SUB, "<fleet_ns>/masks", "fed_msgs/msg/LayerMask", "UPDATES", "told as a JSON line"),
        Row(SUB, "/<inference>/selection", "fed_msgs/msg/Selection", "LATCHED", "told as a JSON line"),
        Row(SUB, "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "DIAGNOSTICS", "who is not well is told"),
        HEALTH,
    ],
    "control": [
        Row(CLI, "/<any>", "std_srvs/srv/SetBool", "", "called when a line of standard input says so"),
        Row(CLI, "/<any>", "std_srvs/srv/Trigger", "", "called when a line of standard input says so"),
        HEALTH,
    ],
}
GRID, ODOMETRY = "nav_msgs/msg/OccupancyGrid", "nav_msgs/msg/Odometry"
CLOUD, MARKERS = "sensor_msgs/msg/PointCloud2", "visualization_msgs/msg/MarkerArray"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
DETECTIONS = "vision_msgs/msg/Detection3DArray"
SCAN = [
    Row(SUB, "<camera>/image_raw", IMAGE, "SENSORS", "images, of each camera of the rig"),
    Row(SUB, "<camera>/camera_info", INFO, "SENSORS", "calibration, of each camera of the rig"),
    Row(SUB, "<lidar>/points", CLOUD, "SENSORS", "points of the LiDAR"),
]
#: What a node has besides or instead, in some cases only: when, and what.
SOMETIMES: dict[str, list[tuple[str, list[Row]]]] = {
    "robot_client": [
        (
            "With a `rig` ([live bird's eye view](live_bev.md)), instead of the topics of camera and depth:",
            [
                Row(SUB, "<camera>/image_raw", IMAGE, "SENSORS", "images, of each camera of the rig"),
                Row(SUB, "<camera>/camera_info", INFO, "SENSORS", "calibration, of each camera of the rig"),
                Row(SUB, "truth/occupancy", GRID, "SENSORS", "the map to learn, of the time of the images"),
            ],
        ),
        (
            "With a `lidar` ([live 3D detection](live_detection.md)), instead of these:",
            [
                *SCAN,
                Row(SUB, "truth/boxes", MARKERS, "SENSORS", "the boxes to learn, of the time of the cloud"),
                Row(SUB, "odometry", ODOMETRY, "SENSORS", "where the vehicle is in the map"),
            ],
        ),
        (
            "With `depth_from: lidar` ([your robot](your_robot.md)), instead of the depth images:",
            [Row(SUB, "lidar/points", CLOUD, "SENSORS", "points, projected into the image of the camera")],
        ),
        (
            "With `depth_from: stereo`, instead of the depth images:",
            [
                Row(SUB, "camera/right/image_raw", IMAGE, "SENSORS", "of the right camera, of the time of the left"),
                Row(SUB, "camera/right/camera_info", INFO, "SENSORS", "its calibration; p holds the baseline"),
            ],
        ),
        (
            "With `image_transport: compressed` and `depth_transport: compressedDepth`, instead of raw images:",
            [
                Row(SUB, "<image topic>/compressed", COMPRESSED, "SENSORS", "jpeg or png"),
                Row(SUB, "<depth topic>/compressedDepth", COMPRESSED, "SENSORS", "depth as image_transport packs it"),
            ],
        ),
    ],
    "inference": [
        (
            "With `image_transport: compressed` the images are `sensor_msgs/msg/CompressedImage` on "
            "`camera/image_raw/compressed`. With `cloud: true` also:",
            [Row(PUB, "depth/points", CLOUD, "OUTPUTS", "organised cloud of the depth: x, y, z [m], rgb")],
        ),
        (
            "With a `rig` ([live bird's eye view](live_bev.md)), instead of the topics of the camera and of depth:",
            [
                Row(SUB, "<camera>/image_raw", IMAGE, "SENSORS", "images, of each camera of the rig"),
                Row(SUB, "<camera>/camera_info", INFO, "SENSORS", "calibration, of each camera of the rig"),
                Row(PUB, "occupancy", GRID, "OUTPUTS", "map of vehicles in the vehicle's frame"),
            ],
        ),
        (
            "With a `lidar` ([live 3D detection](live_detection.md)), instead of these:",
            [
                *SCAN,
                Row(PUB, "detections/markers", MARKERS, "OUTPUTS", "boxes, in the frame of the cloud"),
                Row(PUB, "detections", DETECTIONS, "OUTPUTS", "the same, where `vision_msgs` is installed"),
            ],
        ),
        (
            "With `cloud: true` also:",
            [Row(PUB, "depth/points", CLOUD, "OUTPUTS", "the depth as coloured points, in the frame of the image")],
        ),
    ],
    "replay": [
        (
            "With an M3ED recording also (and, where `tf2_msgs` is installed, the cameras' static frames on "
            "`/tf_static`):",
            [
                Row(PUB, "prophesee/left/camera_info", INFO, "DRIVERS", "left event camera, frame prophesee_left"),
                Row(PUB, "prophesee/right/camera_info", INFO, "DRIVERS", "right event camera, frame prophesee_right"),
                Row(PUB, "prophesee/left/depth/image_raw", IMAGE, "DRIVERS", "depth as published, left, 32FC1 [m]"),
            ],
        ),
        (
            "With `task: bev`, instead of camera and depth (and, where `tf2_msgs` is installed, the cameras' static "
            "frames on `/tf_static`); cameras are called front, right, left, back:",
            [
                Row(PUB, "<camera>/image_raw", IMAGE, "DRIVERS", "images, rgb8, all of a frame with one stamp"),
                Row(PUB, "<camera>/camera_info", INFO, "DRIVERS", "calibration"),
                Row(PUB, "truth/occupancy", GRID, "DRIVERS", "the true map, 0, 100, or -1 where no camera looks"),
            ],
        ),
        (
            "With `task: detection`, instead of camera and depth (and, where `tf2_msgs` is installed, the sensors' "
            "static frames on `/tf_static`); sensors have nuScenes' names:",
            [
                Row(PUB, "<camera>/image_raw", IMAGE, "DRIVERS", "images, rgb8, all of a frame with one stamp"),
                Row(PUB, "<camera>/camera_info", INFO, "DRIVERS", "calibration"),
                Row(PUB, "LIDAR_TOP/points", CLOUD, "DRIVERS", "x, y, z [m], intensity, time_lag [s]; frame lidar_top"),
                Row(PUB, "truth/boxes", MARKERS, "DRIVERS", "the true boxes, in the frame of the cloud"),
                Row(PUB, "odometry", ODOMETRY, "DRIVERS", "base_link in map"),
            ],
        ),
        (
            "With a KITTI recording that has laser scans also (and, where `tf2_msgs` is installed, the frame of the "
            "LiDAR on `/tf_static`):",
            [Row(PUB, "lidar/points", CLOUD, "DRIVERS", "x, y, z [m], intensity; frame velodyne")],
        ),
        (
            "With `task: any`, instead of camera and depth (`clock` stays), every topic of the bag whose type is "
            "installed, byte by byte:",
            [Row(PUB, "<recorded name>", "as recorded", "as recorded", "in this namespace; `/tf`, `/tf_static` stay")],
        ),
        (
            "With every recording, below the name of the node:",
            [
                Row(SRV, "replay/start", "std_srvs/srv/Trigger", "", "plays on; after its end from the beginning"),
                Row(SRV, "replay/stop", "std_srvs/srv/Trigger", "", "stops before the next frame; time stands still"),
                Row(SRV, "replay/restart", "std_srvs/srv/Trigger", "", "plays from the first frame"),
            ],
        ),
    ],
    "monitor": [
        (
            "With `pictures: true` also, of each inference node what it publishes:",
            [
                Row(SUB, "/<inference>/depth/image", IMAGE, "NEWEST", "told as a small picture"),
                Row(SUB, "/<inference>/occupancy", GRID, "NEWEST", "told as a small picture"),
                Row(SUB, "/<inference>/detections/markers", MARKERS, "NEWEST", "told as a small picture"),
            ],
        ),
    ],
}
PARAMETERS: dict[str, tuple[type, ...]] = {
    "aggregator": (RunParameters, AggregatorConfig),
    "robot_client": (RobotConfig, RobotParameters, TrainingLimits, YieldingConfig, RecorderConfig),
    "inference": (InferenceConfig,),
    "replay": (ReplayConfig,),
    "monitor": (MonitorConfig,),
    "control": (ControlConfig,),
    "score": (ScoreConfig,),
}
HEAD = """# Interfaces

Written by `scripts/write_interfaces.py`; a test compares it with the graph of a running fleet.

Names without a slash at the start are in the namespace of the node, one for each robot; every one can be remapped.
Absolute names are those of the fleet, below the parameter `<fleet_ns>` (`/fleet` by default), the blob services that
robots tell each other, and ROS's own `/diagnostics` and `/tf_static`. Messages and services are told in `msgs/`. With
`reliable_sensors` (readers) and `reliable` (replay), sensor topics use `SENSORS_RELIABLE` instead; `clock` stays as it
is. `inference` is a lifecycle node and has the usual services of one; `score` publishes as `replay` does, calls
`new_sequence` and reads `selection` and `depth/image`, `occupancy` or `detections/markers`. For each robot that is set
aside (`quarantine_after`), and only then, `aggregator` serves `<fleet_ns>/readmit/<robot>`, a `std_srvs/srv/Trigger`.

## Conventions

- **Units and axes** (REP 103): metres, seconds, radians; right-handed; bodies x forward, y left, z up; optical frames
  z forward, x right, y down. Depth (REP 118) is published as 32FC1 in metres, NaN = unknown, and read as that or as
  16UC1 in millimetres, 0 = unknown.
- **Frames** (REP 105): outputs keep stamp and frame of their input: depth is in the optical frame of its image, boxes
  in the frame of their cloud. `occupancy` is in `base_frame`. Only a replay names frames itself (`base_link`, `map`).
- **Quality of service** (REP 2003): sensors are read best effort, so that every driver's publisher fits, and replays
  publish reliably, so that every reader fits. `occupancy` is no map in the sense of that REP but what the vehicle sees
  now, gone with the next picture: reliable and volatile, as all outputs of `inference`. Who shows it in RViz's Map
  display sets its durability to volatile.
- **Diagnostics**: each node publishes one status a second, named `<node>: state`, with the robot or the run as hardware
  id; WARN and ERROR say in words what is wrong. A node that is gone is silent, which tools show as stale.
- **Exit codes**: 0 it was told to stop (SIGINT, SIGTERM) or has done its work, 1 it failed while it ran, or the disk is
  full, 2 it could not start as it is configured; then one line says why, and starting it again will not help.
- **Parameters** are read once, at the start, but for those that are `live`: `ros2 param set` changes them while the
  node runs, after the same checks. `ros2 param dump` gives a file that starts the same node again.

## Quality of service
"""


def policy(profile: QoSProfile) -> tuple[str, str]:
    """Return reliability and durability, in words."""
    return profile.reliability.name.lower(), profile.durability.name.lower()


def parameter_rows(cls: type) -> Iterator[list[str]]:
    """Yield name, default, bounds, unit, whether it is live, meaning of each parameter."""
    for field in dataclasses.fields(cls):
        meta = field.metadata
        if meta.get("choices"):
            bounds = ", ".join(meta["choices"])
        else:
            low, high = meta.get("low"), meta.get("high")
            bounds = "" if low is None and high is None else f"{_number(low)} .. {_number(high)}"
        yield [
            f"`{field.name}`",
            _default(field),
            bounds,
            meta.get("unit", ""),
            "live" if is_live(field) else "",
            meta.get("help", "").replace("<", "&lt;"),
        ]


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,}".replace(",", " ")


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{to_tree(field.default)}`" if str(field.default) else "empty"
    return "required" if field.default_factory is dataclasses.MISSING else "empty"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def interfaces(rows: list[Row]) -> str:
    """Return the table of topics and services."""
    cells = [[r.way, f"`{r.name}`", f"`{r.type}`", r.qos or "services", r.meaning] for r in rows]
    return table(["", "name", "type", "QoS", "meaning"], cells)


def document() -> str:
    """Return the text of docs/interfaces.md."""
    parts = [HEAD]
    profiles = {name: value for name, value in vars(qos).items() if isinstance(value, QoSProfile)}
    rows = [[f"`{name}`", *policy(profile), str(profile.depth)] for name, profile in profiles.items()]
    parts.append(table(["profile", "reliability", "durability", "depth"], rows))
    for node, classes in PARAMETERS.items():
        parts.append(f"## {node}\n")
        if node in NODES:
            parts.append(interfaces(NODES[node]))
        for when, rows_then in SOMETIMES.get(node, ()):
            parts.append(f"{when}\n")
            parts.append(interfaces(rows_then))
        parameters = [row for cls in classes for row in parameter_rows(cls)]
        parts.append(table(["parameter", "default", "bounds", "unit", "", "meaning"], parameters))
    return "\n".join(parts)


def main() -> int:
    """Write the file."""
    (ROOT / "docs" / "interfaces.md").write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
