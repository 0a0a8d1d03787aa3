"""A camera beside an inference node: publishes frames at a fixed rate, notes when their depth comes back.

One JSON object per line on standard output: ``{"ready": true}``, then one for each command on standard input:

- ``play RATE_HZ SECONDS``: stamps of all published frames and, by stamp, the delay until their depth came [ms]; it
  ends when no depth came for a second;
- ``wait SECONDS``: publishes at up to 50 Hz until a depth comes, ``{"came": true}``;
- ``counts``: values of the inference node's next diagnostics; ``rounds``: the fleet's round, and the share of it that
  its robot trained;
- ``pause 0|1``: lets the robot's training go on, or stops it between two batches.
"""

import json
import sys
import threading
import time
from typing import Any

import cv2
import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from fed_msgs.msg import FleetStatus, RobotStatus
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header
from std_srvs.srv import SetBool

from fed_core.data.open import open_source
from fed_nodes import qos
from fed_nodes.convert.images import colour_to_msg, info_to_msg, stamp_ns, to_stamp

WIDTH, HEIGHT = 640, 480
SCENE = {"platform": "ugv", "environment": "urban_day", "seed": 3, "frames": 8, "width": 160, "height": 120}


def pictures() -> list[Any]:
    """Return rendered frames (480, 640, 3) uint8 RGB."""
    from pathlib import Path

    sequence = open_source({"generated": SCENE}, Path())
    return [
        np.ascontiguousarray(cv2.resize(sequence[index].rgb, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC))
        for index in range(len(sequence))
    ]


class Camera:
    """Publishes in namespace ``/live``; depth is read reliably."""

    def __init__(self) -> None:
        self.node = rclpy.create_node("camera", namespace="/live")
        self._images = self.node.create_publisher(Image, "camera/image_raw", qos.SENSORS_RELIABLE)
        self._infos = self.node.create_publisher(CameraInfo, "camera/camera_info", qos.SENSORS_RELIABLE)
        self.node.create_subscription(Image, "depth/image", self._on_depth, qos.OUTPUTS)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.DIAGNOSTICS)
        self.node.create_subscription(FleetStatus, "/fleet/status", self._on_status, qos.LATCHED)
        self.node.create_subscription(RobotStatus, "/fleet/robot_status", self._on_robot, qos.STATUS)
        self._pauser = self.node.create_client(SetBool, "/robot/pause_training")
        self.changed = threading.Condition()
        self.counts: list[dict[str, str]] = []
        self.round, self.progress = 0, 0.0
        header = Header(frame_id="camera_optical_frame")
        self._messages = [colour_to_msg(picture, header) for picture in pictures()]
        matrix = np.array([[500.0, 0, WIDTH / 2], [0, 500.0, HEIGHT / 2], [0, 0, 1]])
        self._info = info_to_msg(matrix, HEIGHT, WIDTH, header)
        self.sent: dict[int, float] = {}
        self.came: dict[int, float] = {}
        self.last_s = 0.0

    def _on_depth(self, msg: Image) -> None:
        self.last_s = time.monotonic()
        self.came[stamp_ns(msg.header.stamp)] = self.last_s

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        for status in msg.status:
            if status.name.startswith("/live/inference"):
                with self.changed:
                    self.counts.append({value.key: value.value for value in status.values})
                    self.changed.notify_all()

    def _on_status(self, msg: FleetStatus) -> None:
        self.round = msg.round

    def _on_robot(self, msg: RobotStatus) -> None:
        self.progress = float(msg.progress) if msg.phase == RobotStatus.TRAINING else 0.0

    def next_counts(self) -> dict[str, str]:
        """Return the values of the second diagnostics from now: what it tells is of after the call."""
        with self.changed:
            known = len(self.counts)
            self.changed.wait_for(lambda: len(self.counts) >= known + 2, 20.0)
            return self.counts[-1] if self.counts else {}

    def pause(self, wanted: bool) -> dict[str, Any]:
        """Stop or continue training."""
        self._pauser.wait_for_service(20.0)
        response = self._pauser.call(SetBool.Request(data=wanted))
        return {"paused": wanted, "success": response.success, "text": response.message}

    def wait(self, seconds: float) -> bool:
        """Publish until a depth comes."""
        self.came, end = {}, time.monotonic() + seconds
        while not self.came and time.monotonic() < end:
            self._publish(0)
            time.sleep(0.02)
        return bool(self.came)

    def _publish(self, number: int) -> None:
        now_ns, msg = time.time_ns(), self._messages[number % len(self._messages)]
        self._info.header.stamp = msg.header.stamp = to_stamp(now_ns)
        self._infos.publish(self._info)
        self.sent[now_ns] = time.monotonic()
        self._images.publish(msg)

    def play(self, rate_hz: float, seconds: float) -> None:
        """Publish frames at a rate."""
        self.sent, self.came = {}, {}
        period, start = 1.0 / rate_hz, time.monotonic()
        for number in range(max(1, round(rate_hz * seconds))):
            time.sleep(max(0.0, start + number * period - time.monotonic()))
            self._publish(number)
        self.last_s = time.monotonic()
        while time.monotonic() - self.last_s < 1.0:
            time.sleep(0.05)

    def told(self) -> dict[str, Any]:
        """Return what was sent, and the delays of what came."""
        came = self.came
        delays = {stamp: round(1e3 * (came[stamp] - sent), 3) for stamp, sent in self.sent.items() if stamp in came}
        return {"sent": list(self.sent), "delays_ms": delays}


def carry_out(camera: Camera, command: str, *arguments: str) -> dict[str, Any]:
    """Return the answer to a command."""
    if command == "play":
        camera.play(*map(float, arguments))
        return camera.told()
    if command == "wait":
        return {"came": camera.wait(float(arguments[0]))}
    if command == "pause":
        return camera.pause(arguments[0] == "1")
    if command == "rounds":
        return {"round": camera.round, "progress": camera.progress}
    return camera.next_counts()


def main() -> None:
    """Work off commands until standard input ends."""
    rclpy.init()
    camera = Camera()
    executor = SingleThreadedExecutor()
    executor.add_node(camera.node)
    spinning = threading.Thread(target=executor.spin, daemon=True)
    spinning.start()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(carry_out(camera, *line.split())), flush=True)
    executor.shutdown()
    spinning.join(10.0)
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
