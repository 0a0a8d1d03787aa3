"""A camera that is faster than the network: every image is predicted or counted as dropped, and the newest is served.

Real processes over DDS; the network is slow by its size.
"""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from fed_nodes import qos
from fed_nodes.convert.images import stamp_ns, to_stamp
from fed_nodes.timers import steady_timer
from tests.ros.fleets import NETWORK, Fleet
from tests.ros.kept_models import keep_models

pytestmark = pytest.mark.timeout(200)

#: Several times slower than the camera on one CPU thread.
SLOW = {**NETWORK, "height": 320, "width": 384}
PERIOD_NS = 16_666_667
IMAGES = 90
#: Images sent after the last one of which a depth came. A queue of this many holds them all, so that none can be lost
#: on the way, even where the machine stalls; then the camera waits.
MOST_AHEAD = qos.SENSORS_RELIABLE.depth - 2


class FastCamera:
    """Publishes numbered images at 60 Hz, and notes when each was sent and its depth came [s]."""

    def __init__(self, fleet: Fleet) -> None:
        node = fleet.watcher.node
        self._images = node.create_publisher(Image, "/live/camera/image_raw", qos.SENSORS_RELIABLE)
        self._rgb = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8).tobytes()
        self.sent_s: list[float] = []
        self.came_s: dict[int, float] = {}
        self._changed = threading.Condition()
        node.create_subscription(Image, "/live/depth/image", self._on_depth, qos.OUTPUTS)
        self._left = 0
        steady_timer(node, PERIOD_NS / 1e9, self._show)

    def send(self, count: int) -> None:
        """Send images, from now on."""
        self._left = count

    def wait_for_last(self, timeout_s: float) -> None:
        """Wait until the depth of the last image came."""
        with self._changed:
            done = self._changed.wait_for(lambda: not self._left and len(self.sent_s) - 1 in self.came_s, timeout_s)
        assert done, f"{self._left} images were not sent; of {len(self.sent_s)}, depth came of {sorted(self.came_s)}"

    def _show(self) -> None:
        number = len(self.sent_s)
        if not self._left or number - max(self.came_s, default=-1) > MOST_AHEAD:
            return
        header = Header(stamp=to_stamp(50 * 1_000_000_000 + number * PERIOD_NS), frame_id="camera_optical_frame")
        msg = Image(header=header, height=48, width=64, encoding="rgb8", step=192)
        msg.data.frombytes(self._rgb)
        self.sent_s.append(time.monotonic())
        self._left -= 1
        self._images.publish(msg)

    def _on_depth(self, msg: Image) -> None:
        with self._changed:
            self.came_s[(stamp_ns(msg.header.stamp) - 50 * 1_000_000_000) // PERIOD_NS] = time.monotonic()
            self._changed.notify_all()


def test_a_fast_camera_and_a_slow_network(fleet: Fleet, tmp_path: Path) -> None:
    fleet.watcher.watch(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
    camera = FastCamera(fleet)
    fleet.nodes["inference"] = fleet.inference(state_dir=keep_models(tmp_path / "models", SLOW), gap_s=1.0)
    camera.send(8)  # they wait for the node; the last of them is the first that is predicted
    camera.wait_for_last(90.0)
    camera.send(IMAGES)
    camera.wait_for_last(60.0)

    values = counted(fleet, len(camera.sent_s))
    assert values["received"] == len(camera.sent_s) == IMAGES + 8, "nothing was lost on the way"
    assert values["received"] == values["predicted"] + values["dropped"] and values["failed"] == 0
    assert values["predicted"] == len(camera.came_s) and values["dropped"] == len(camera.sent_s) - len(camera.came_s)
    assert values["dropped"] > values["predicted"], "the network was to be slow"

    came_s = list(camera.came_s.values())
    assert list(camera.came_s) == sorted(camera.came_s)
    # Of the last image: at most the prediction that ran when it came, and its own. A queue would hold many before it.
    longest_s = max(later - earlier for earlier, later in zip(came_s[1:], came_s[2:], strict=False))
    assert came_s[-1] - camera.sent_s[-1] < 2 * longest_s + 0.25


def counted(fleet: Fleet, received: int) -> dict[str, int]:
    """Return what the node says of its images once it has none under way."""
    found: dict[str, int] = {}

    def settled(msg: DiagnosticArray) -> bool:
        for status in msg.status:
            values = {v.key: v.value for v in status.values}
            if status.name.startswith("/live/inference") and "received" in values:
                found.update({name: int(values[name]) for name in ("received", "predicted", "dropped", "failed")})
                return found["received"] >= received and sum(found.values()) >= 2 * found["received"]
        return False

    fleet.watcher.messages["/diagnostics"].clear()
    fleet.watcher.wait("/diagnostics", settled, 20.0)
    return found
