"""The real inference node goes on publishing depth, whatever a camera does, and its diagnostics say what is wrong."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_nodes import qos
from fed_nodes.convert.images import info_to_msg, stamp_ns, to_stamp
from tests.ros.fleets import Fleet
from tests.ros.kept_models import keep_models

# A process that loads PyTorch, on a machine that may be busy.
pytestmark = pytest.mark.timeout(300)

COLOUR, DEPTH = "/live/camera/image_raw", "/live/depth/image"
WELL = "serving global of round 7"
START_NS, STEP_NS = 50_000_000_000, 33_333_333


class Camera:
    """Publishes images from the watcher's node; each is later than the one before."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.watcher = fleet, fleet.watcher
        self._images = self.publisher()
        self._infos = self.watcher.node.create_publisher(CameraInfo, "/live/camera/camera_info", qos.SENSORS_RELIABLE)
        self._numbers = count(1)
        self.bad = 0

    def publisher(self) -> Any:
        return self.watcher.node.create_publisher(Image, COLOUR, qos.SENSORS_RELIABLE)

    def show(self, *, width: int = 64, height: int = 48, info: tuple[int, int] | None = None, **change: Any) -> int:
        """Publish one image and return its time [ns]; its camera_info is of the size ``info``."""
        time_ns = START_NS + next(self._numbers) * STEP_NS
        header = Header(stamp=to_stamp(time_ns), frame_id="camera_optical_frame")
        wide, high = info or (width, height)
        self._infos.publish(info_to_msg([[60.0, 0, wide / 2], [0, 60.0, high / 2], [0, 0, 1]], high, wide, header))
        msg = Image(header=header, height=height, width=width, encoding="rgb8", step=3 * width)
        msg.data.frombytes(np.full(height * width * 3, 90, np.uint8).tobytes())
        for name, value in change.items():
            setattr(msg, name, value)
        self._images.publish(msg)
        return time_ns

    def until_depth(self, **image: Any) -> Image:
        """Show images until there is the depth of one of them."""
        start_ns = self.show(**image)

        def shown() -> list[Image]:
            self.show(**image)
            return [msg for msg in list(self.watcher.messages[DEPTH]) if stamp_ns(msg.header.stamp) >= start_ns]

        return self.watcher.until(shown, 120.0)[0]

    def until_told(self, text: str, do: Callable[[], Any]) -> dict[str, str]:
        """Do something again and again until the node's diagnostics say a text; return their values."""
        self.watcher.messages["/diagnostics"].clear()

        def told() -> list[dict[str, str]]:
            do()
            states = [m.status[0] for m in list(self.watcher.messages["/diagnostics"])]
            return [
                {value.key: value.value for value in state.values} | {"level": state.level.hex()}
                for state in states
                if state.name.startswith("/live/inference") and text in state.message
            ]

        return self.watcher.until(told, 60.0)[-1]

    def show_bad(self, **change: Any) -> None:
        """Show one image that cannot be used for each that can."""
        self.show(**change)
        self.bad += 1
        self.show()


@pytest.fixture(scope="module")
def camera(shared_fleet: Fleet) -> Camera:
    watcher = shared_fleet.watcher
    watcher.watch(Image, DEPTH, qos.OUTPUTS)
    watcher.watch(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
    models = keep_models(shared_fleet.folder / "kept")
    shared_fleet.nodes["inference"] = shared_fleet.inference(state_dir=models)
    made = Camera(shared_fleet)
    made.until_depth()
    return made


def test_a_camera_that_is_well(camera: Camera) -> None:
    values = camera.until_told(WELL, camera.show)
    assert values["level"] == "00" and values[f"{COLOUR} dropped"] == "0"
    assert float(values[f"{COLOUR} rate_hz"]) > 1 and float(values[f"{COLOUR} age_s"]) < 2.0


#: What is wrong with an image, and what is said of it.
BAD: list[tuple[dict[str, Any], str]] = [
    ({"encoding": "nv21"}, "colour encoding 'nv21' is not supported; supported: rgb8, bgr8"),
    ({"encoding": "rgb16"}, "image rows of 64 pixels need 384 bytes, but step says 192"),
    ({"data": b"short"}, "image of 64x48 pixels needs 9216 bytes, but 5 are there"),
    ({"header": Header()}, "dropped a message without a time (header.stamp is zero)"),
]


def test_images_that_cannot_be_used_are_told_while_depth_goes_on(camera: Camera) -> None:
    for change, text in BAD:
        values = camera.until_told(text, partial(camera.show_bad, **change))
        assert values["level"] == "01" and 1 <= int(values[f"{COLOUR} dropped"]) <= camera.bad
        assert (camera.until_depth().height, camera.until_depth().width) == (48, 64)
    assert camera.until_told(WELL, camera.show)["level"] == "00"  # what was wrong is forgotten


def test_a_resolution_that_changes_mid_stream(camera: Camera) -> None:
    for width, height in ((96, 72), (64, 48), (33, 21), (64, 48)):
        found = camera.until_depth(width=width, height=height)
        assert (found.width, found.height, found.step) == (width, height, 4 * width)
    text = "camera_info is of 64x48 pixels, the image 96x72"
    values = camera.until_told(text, lambda: camera.show(width=96, height=72, info=(64, 48)))
    assert values["level"] == "01"
    found = camera.until_depth(width=96, height=72, info=(64, 48))
    assert (found.width, found.height) == (96, 72)  # depth needs no camera_info


def test_a_camera_that_stops_and_returns(camera: Camera) -> None:
    camera.until_depth()
    values = camera.until_told(f"{COLOUR}: no message for ", lambda: None)
    assert values["level"] == "01" and values[f"{COLOUR} rate_hz"] == "0.0"
    assert float(values[f"{COLOUR} age_s"]) > 2.0
    camera.until_depth()
    assert camera.until_told(WELL, camera.show)["level"] == "00"


def test_a_second_publisher_is_told_and_used(camera: Camera) -> None:
    second = camera.publisher()
    values = camera.until_told(f"{COLOUR}: 2 publishers at once (/watcher, /watcher)", camera.show)
    assert values["level"] == "01"
    first, camera._images = camera._images, second
    camera.until_depth()
    camera._images = first
    camera.watcher.node.destroy_publisher(second)
    assert camera.until_told(WELL, camera.show)["level"] == "00"


def test_the_node_ends_well_and_was_never_at_a_loss(camera: Camera) -> None:
    node = camera.fleet.nodes["inference"]
    assert node.stop() == 0
    node.close()
    assert not [line for line in node.output if "Traceback" in line]
