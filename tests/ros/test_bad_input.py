"""What nodes say to bad input: one line that names what is wrong, no traceback."""

from typing import Any

import numpy as np
import pytest
from fed_msgs.msg import FleetStatus, RobotStatus
from sensor_msgs.msg import CameraInfo, Image

from fed_nodes import qos
from tests.ros.fleets import NETWORK, Fleet, record


def refused_at_start(process: Any, *texts: str) -> None:
    """Check for exit code 2 and exactly one line that says why."""
    assert process.wait(30.0) == 2
    process.close()
    told = [line for line in process.output if line.startswith("error: ")]
    assert len(told) == 1, process.output
    assert all(text in told[0] for text in texts), told[0]
    assert not any("Traceback" in line for line in process.output)


def test_replay_of_a_bag_that_is_cut_off(fleet: Fleet) -> None:
    bag = record(fleet.folder / "cut")
    storage = next(bag.glob("*.mcap"))
    storage.write_bytes(storage.read_bytes()[:5000])
    refused_at_start(fleet.replay("spot", bag), "cut")


def test_replay_of_a_bag_without_the_topic(fleet: Fleet) -> None:
    bag = record(fleet.folder / "bag")
    source = {"data": str(bag), "topics": {"colour": "/front/image"}}
    refused_at_start(fleet.replay("spot", bag, source=source), "/front/image", "/camera/color/image_raw")


@pytest.mark.parametrize(
    ("node", "parameters", "texts"),
    [
        ("replay", {"rate_hz": 5000.0, "source": {"data": "x"}}, ("rate_hz", "1000")),
        ("aggregator", {"rounds": -1}, ("rounds", "-1")),
        ("aggregator", {"strategy": "fedmagic"}, ("fedmagic", "fedavg")),
        ("aggregator", {"rounds": "many"}, ("rounds",)),
        ("aggregator", {"task": "nope"}, ("no task is called 'nope'; known: bev, depth, detection",)),
        ("aggregator", {"network": "nope"}, ("no network is called 'nope'; known: adabins_",)),
        ("aggregator", {"train": "{lr: -1}"}, ("TrainConfig.lr is -1",)),
        ("aggregator", {"train": "{speed: 2}"}, ("train", "speed")),
        ("robot_client", {}, ("robot_id",)),
        ("robot_client", {"robot_id": "bad name"}, ("robot_id is 'bad name'; a robot id is letters, digits and _",)),
        ("robot_client", {"robot_id": "a", "network": "nope"}, ("no network is called 'nope'; known: adabins_",)),
        ("robot_client", {"robot_id": "a", "task": "nope"}, ("no task is called 'nope'",)),
        ("robot_client", {"robot_id": "a", "source": "{data: ["}, ("source", "YAML")),
        ("score", {}, ("source",)),
    ],
)
def test_bad_parameters(fleet: Fleet, node: str, parameters: dict[str, Any], texts: tuple[str, ...]) -> None:
    parameters.setdefault("state_dir", str(fleet.folder / "robot"))
    parameters.setdefault("runs_dir", str(fleet.folder / "runs"))
    refused_at_start(fleet.node(node, **parameters), *texts)


class Camera:
    """Publishes single pictures on a robot's topics, from the watcher's node."""

    def __init__(self, fleet: Fleet, namespace: str) -> None:
        self._fleet, self._stamp = fleet, 0
        node, profile = fleet.watcher.node, qos.SENSORS_RELIABLE
        base = f"/{namespace}/camera"
        self._colour = node.create_publisher(Image, f"{base}/image_raw", profile)
        self._depth = node.create_publisher(Image, f"{base}/depth/image_raw", profile)
        self._info = node.create_publisher(CameraInfo, f"{base}/camera_info", profile)

    def publish(
        self,
        *,
        colour: str = "rgb8",
        depth: str = "32FC1",
        depth_size: tuple[int, int] = (64, 48),
        depth_m: float = 2.0,
        focal_px: float = 60.0,
    ) -> None:
        self._stamp += 1
        info = CameraInfo(width=64, height=48, k=[focal_px, 0.0, 31.5, 0.0, focal_px, 23.5, 0.0, 0.0, 1.0])
        channels = 1 if colour == "mono8" else 3
        pictures = (
            (self._colour, colour, np.full((48, 64, channels), 90, np.uint8)),
            (self._depth, depth, np.full(depth_size[::-1], depth_m, np.float32)),
        )
        self._info.publish(info)
        for publisher, encoding, pixels in pictures:
            msg = Image(height=pixels.shape[0], width=pixels.shape[1], encoding=encoding)
            msg.step, msg.data = pixels.nbytes // pixels.shape[0], pixels.tobytes()
            msg.header.stamp.sec = self._stamp
            publisher.publish(msg)

    def wait_for_readers(self) -> None:
        topics = (self._colour, self._depth, self._info)
        self._fleet.watcher.until(lambda: all(t.get_subscription_count() for t in topics))


def test_pictures_that_a_robot_cannot_use(fleet: Fleet) -> None:
    robot, camera = fleet.robot("spot"), Camera(fleet, "spot")
    camera.wait_for_readers()
    camera.publish(colour="nv99")
    robot.wait_line(r".*dropped a frame: colour encoding 'nv99' is not supported; supported: .*rgb8")
    # The log of dropped frames is throttled, so the next kinds go to robots of their own.
    robot, camera = fleet.robot("drone"), Camera(fleet, "drone")
    camera.wait_for_readers()
    camera.publish(depth="64FC1")
    robot.wait_line(r".*dropped a frame: .*64FC1.*32FC1")
    robot, camera = fleet.robot("car"), Camera(fleet, "car")
    camera.wait_for_readers()
    camera.publish(depth_size=(32, 24))
    robot.wait_line(r".*dropped a frame: colour is 64x48 and depth 32x24; publish depth registered")
    robot, camera = fleet.robot("boat"), Camera(fleet, "boat")
    camera.wait_for_readers()
    camera.publish(focal_px=0.0)
    robot.wait_line(r".*dropped a frame: camera_info says focal lengths 0, 0 in k; calibrate the camera")


def test_frames_without_any_valid_depth(fleet: Fleet) -> None:
    fleet.watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    robot, camera = fleet.robot("spot", record_frames=3), Camera(fleet, "spot")
    camera.wait_for_readers()
    for _ in range(3):
        camera.publish(depth_m=float("nan"))
    robot.wait_line(r".*no usable sample: every frame is broken or lacks depth between 0.1 m and 20.0 m")
    status = fleet.watcher.wait("/fleet/robot_status", lambda m: m.phase == RobotStatus.FAILED)
    assert "no usable sample" in status.text


def test_replay_skips_frames_without_any_valid_depth(fleet: Fleet) -> None:
    replay = fleet.replay("spot", record(fleet.folder / "blind", blind=True, frames=3), reliable=False)
    replay.wait_line(r".*skipped frame 0: .*no pixel has a valid depth")
    replay.wait_line(r".*played 0 of 3 frames of blind")


def test_everybody_says_what_it_waits_for(fleet: Fleet) -> None:
    fleet.watcher.watch(RobotStatus, "/fleet/robot_status", qos.STATUS)
    fleet.watcher.watch(FleetStatus, "/fleet/status", qos.LATCHED)
    camera = fleet.robot("blind")
    status = fleet.watcher.wait("/fleet/robot_status", lambda m: m.text)
    assert status.text.startswith("waiting for images on /blind/camera/image_raw")
    camera.close()
    robot = fleet.robot("spot", source={"data": str(record(fleet.folder / "bag"))})
    robot.wait_line(r".*waiting for an aggregator on /fleet/register")
    robot.close()
    aggregator = fleet.aggregator(min_robots=2)
    aggregator.wait_line(r".*waiting for the initial model")
    fleet.watcher.wait("/fleet/status", lambda m: m.waiting_for == "2 more robots to register (0 of 2)")


@pytest.mark.slow
def test_robots_that_are_refused(fleet: Fleet) -> None:
    bag = {"data": str(record(fleet.folder / "bag"))}
    aggregator = fleet.aggregator(min_robots=5)
    first = fleet.robot("spot", source=bag)
    aggregator.wait_line(r".*robot spot joined with 10 samples")
    twin = fleet.robot("spot", source=bag, state_dir=fleet.folder / "robots" / "twin")
    twin.wait_line(r".*refused \(DUPLICATE_ROBOT\): a live robot is already called 'spot'; choose another id")
    other = fleet.robot("drone", source=bag, network_options={**NETWORK, "height": 128})
    match = other.wait_line(r".*(refused \(WRONG_MODEL\): .*)")
    assert "model 'adabins_s' (" in match[1] and "this run trains 'adabins_s' (" in match[1]
    assert first.stop() == 0
