"""The stream of one camera: what is taken from its images, with the lens's distortion and without."""

import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.types import Array
from fed_nodes import qos
from fed_nodes.convert.cameras import undistorted
from fed_nodes.convert.images import to_stamp
from fed_nodes.live.depth import DepthStream
from fed_nodes.live.streams import Feed, Taken

K = [20.0, 0.0, 15.5, 0.0, 20.0, 11.5, 0.0, 0.0, 1.0]
BENT = (-0.3, 0.1, 0.0, 0.0, 0.0)
RGB = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)


class Camera:
    """A stream with recorders on both sides, its topics called as DDS would."""

    def __init__(self, **options: Any) -> None:
        self.taken: list[Taken] = []
        self.published: dict[str, list[Any]] = {}
        self.topics: dict[str, Any] = {}
        self.wanted = True
        self.stream = DepthStream(self._node(), **options)
        self.stream.open(Feed(lambda: self.wanted, self.taken.append, lambda text: None), qos.SENSORS, ExitStack())

    def _node(self) -> Any:
        def subscribe(kind: type, topic: str, callback: Any, profile: Any) -> Any:
            self.topics[topic] = callback
            return SimpleNamespace(topic_name=topic)

        def advertise(kind: type, topic: str, profile: Any) -> Any:
            self.published[topic] = []
            return SimpleNamespace(publish=self.published[topic].append, get_subscription_count=lambda: 1)

        def say(text: str, **options: Any) -> None: ...

        return SimpleNamespace(
            create_lifecycle_publisher=advertise,
            create_subscription=subscribe,
            get_logger=lambda: SimpleNamespace(info=say, warning=say),
            get_clock=lambda: SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0)),
            count_publishers=lambda topic: 1,
            destroy_publisher=lambda publisher: None,
        )

    def info(self, **changes: Any) -> CameraInfo:
        values: dict[str, Any] = {"width": 32, "height": 24, "k": K, "distortion_model": "plumb_bob", "d": BENT}
        info = CameraInfo(**{**values, **changes})
        self.topics["camera/camera_info"](info)
        return info

    def image(self) -> None:
        header = Header(stamp=to_stamp(1_000_000_000), frame_id="camera_optical_frame")
        msg = Image(header=header, height=24, width=32, encoding="rgb8", step=96)
        msg.data.frombytes(RGB.tobytes())
        self.topics["camera/image_raw"](msg)

    def publish(self, depth_m: Array) -> dict[str, Any]:
        self.stream.publish(self.taken[-1], depth_m)
        return {topic: messages[-1] for topic, messages in self.published.items() if messages}


def test_images_are_taken_as_they_come() -> None:
    camera = Camera()
    told = camera.info()
    camera.image()
    np.testing.assert_array_equal(camera.taken[0].sample, RGB)
    info = camera.publish(np.ones((24, 32), np.float32))["depth/camera_info"]
    assert info is told and tuple(info.d) == BENT


def test_undistort_gives_the_network_what_training_saw_and_a_camera_without_distortion() -> None:
    camera = Camera(undistort=True, cloud=True)
    expected, _ = undistorted(RGB, camera.info())
    camera.image()
    (taken,) = camera.taken
    assert not np.array_equal(expected, RGB)
    np.testing.assert_array_equal(taken.sample, expected)
    np.testing.assert_array_equal(taken.pictures[0], expected)  # models are chosen by these

    published = camera.publish(np.full((24, 32), 2.0, np.float32))
    info, cloud = published["depth/camera_info"], published["depth/points"]
    assert (info.width, info.height, info.header) == (32, 24, taken.header)
    assert not any(info.d)
    np.testing.assert_array_equal(info.k, K)
    np.testing.assert_array_equal(np.reshape(info.p, (3, 4)), np.c_[np.reshape(K, (3, 3)), np.zeros(3)])
    corner = np.frombuffer(bytes(cloud.data), np.float32)[:3]
    np.testing.assert_allclose(corner, [-15.5 / 20 * 2, -11.5 / 20 * 2, 2.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (None, "no camera_info came yet"),
        ({"width": 64}, "camera_info is of 64x24 pixels, the image 32x24"),
        ({"distortion_model": "cubic"}, "distortion model 'cubic' is not supported"),
    ],
)
def test_undistort_drops_an_image_whose_lens_is_not_known(changes: dict[str, Any] | None, text: str) -> None:
    camera = Camera(undistort=True)
    if changes is not None:
        camera.info(**changes)
    camera.image()
    assert camera.taken == [] and camera.stream.topics[0].health().dropped == 1
    problem = camera.stream.problem()
    assert problem.startswith(f"camera/image_raw: dropped a message: {text}") and "\n" not in problem

    camera.info()
    camera.image()
    assert len(camera.taken) == 1


def test_an_image_that_nobody_wants_costs_nothing() -> None:
    camera = Camera(undistort=True)
    camera.wanted = False
    camera.image()  # without a camera_info it would be dropped
    assert camera.taken == [] and camera.stream.topics[0].health().dropped == 0


def test_a_camera_info_that_comes_after_the_first_images_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    camera = Camera()
    camera.image()
    assert camera.taken[0].camera is None and camera.stream.problem() == ""
    later_s = time.monotonic() + 5.1
    monkeypatch.setattr("fed_nodes.live.depth.time", SimpleNamespace(monotonic=lambda: later_s))
    camera.image()
    assert camera.stream.problem().startswith("depth is published without camera_info: no camera_info came yet")
    camera.info()
    camera.image()
    assert camera.stream.problem() == "" and camera.taken[-1].camera is not None
