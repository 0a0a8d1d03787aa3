"""Small recordings that the tests write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

from fed_core.types import Array, DepthFrame

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
INFO = "sensor_msgs/msg/CameraInfo"
STRING = "std_msgs/msg/String"


def save(path: Path, image: Array) -> Path:
    """Write an image; colour is given as RGB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = image[..., ::-1] if image.ndim == 3 and image.shape[2] == 3 else image
    if not cv2.imwrite(str(path), pixels):
        raise RuntimeError(f"cannot write {path}")
    return path


@pytest.fixture
def write_pair() -> Callable[..., None]:
    """Return a function that writes one RGB-D frame: (colour path, depth path, counts)."""

    def write(colour: Path, depth: Path, counts: Any, *, dtype: str = "u2", shade: int = 0) -> None:
        values = np.array(counts, dtype=dtype)
        rgb = np.zeros((*values.shape, 3), dtype=np.uint8)
        rgb[...] = (200, 100, shade)
        save(colour, rgb)
        save(depth, values)

    return write


class ListSequence:
    """Frames from a list."""

    def __init__(self, frames: list[DepthFrame], name: str = "listed") -> None:
        self.frames, self.name, self.source = frames, name, "test"

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: int) -> DepthFrame:
        return self.frames[index]


def frame(index: int, *, height: int = 4, width: int = 6, depth_m: float = 2.0) -> DepthFrame:
    """Return a frame whose colour and depth tell its index; one pixel has no depth."""
    rgb = np.full((height, width, 3), (index, 10, 20), dtype=np.uint8)
    depth = np.full((height, width), depth_m + index, dtype=np.float32)
    depth[0, 0] = np.nan
    k = np.array([[5.0, 0, 3.0], [0, 6.0, 2.0], [0, 0, 1.0]])
    return DepthFrame(rgb, depth, 1_000_000_000_000 + index * 100_000_000, k, "cam_optical")


@pytest.fixture
def make_sequence() -> Callable[..., ListSequence]:
    """Return a function that makes a sequence of so many frames."""
    return lambda count, **kwargs: ListSequence([frame(i, **kwargs) for i in range(count)])


class BagMaker:
    """Writes small bags of ROS 1 or 2 message by message."""

    def __init__(self, path: Path, kind: str = "mcap") -> None:
        self.ros1 = kind == "ros1"
        self.store = get_typestore(Stores.ROS1_NOETIC if self.ros1 else Stores.ROS2_KILTED)
        plugin = StoragePlugin.SQLITE3 if kind == "sqlite3" else StoragePlugin.MCAP
        self.writer: Any = Writer1(path) if self.ros1 else Writer2(path, version=9, storage_plugin=plugin)
        self.path = path
        self.writer.open()
        self.connections: dict[str, Any] = {}

    def add(self, topic: str, kind: str, log_ns: int, message: Any) -> None:
        if topic not in self.connections:
            self.connections[topic] = self.writer.add_connection(topic, kind, typestore=self.store)
        serialize = self.store.serialize_ros1 if self.ros1 else self.store.serialize_cdr
        self.writer.write(self.connections[topic], log_ns, bytes(serialize(message, kind)))

    def image(self, topic: str, stamp_ns: int, encoding: str, pixels: Array, **changes: Any) -> None:
        fields = {
            "header": self.header(stamp_ns),
            "height": pixels.shape[0],
            "width": pixels.shape[1],
            "encoding": encoding,
            "is_bigendian": 0,
            "step": pixels.nbytes // pixels.shape[0],
            "data": np.frombuffer(pixels.tobytes(), dtype=np.uint8),
        }
        log_ns = changes.pop("log_ns", stamp_ns)
        self.add(topic, IMAGE, log_ns, self.store.types[IMAGE](**{**fields, **changes}))

    def compressed(self, topic: str, stamp_ns: int, form: str, data: bytes) -> None:
        message = self.store.types[COMPRESSED](
            header=self.header(stamp_ns), format=form, data=np.frombuffer(data, dtype=np.uint8)
        )
        self.add(topic, COMPRESSED, stamp_ns, message)

    def info(self, topic: str, stamp_ns: int, width: int = 6, height: int = 4, focal: float = 5.0) -> None:
        k = np.array([focal, 0, 3, 0, focal, 2, 0, 0, 1.0])
        names = ("D", "K", "R", "P") if self.ros1 else ("d", "k", "r", "p")
        arrays = dict(zip(names, (np.zeros(5), k, np.zeros(9), np.zeros(12)), strict=True))
        roi = self.store.types["sensor_msgs/msg/RegionOfInterest"](
            x_offset=0, y_offset=0, height=0, width=0, do_rectify=False
        )
        message = self.store.types[INFO](
            header=self.header(stamp_ns),
            height=height,
            width=width,
            distortion_model="plumb_bob",
            binning_x=0,
            binning_y=0,
            roi=roi,
            **arrays,
        )
        self.add(topic, INFO, stamp_ns, message)

    def string(self, topic: str, log_ns: int, text: str) -> None:
        self.add(topic, STRING, log_ns, self.store.types[STRING](data=text))

    def header(self, stamp_ns: int) -> Any:
        stamp = self.store.types["builtin_interfaces/msg/Time"](
            sec=stamp_ns // 1_000_000_000, nanosec=stamp_ns % 1_000_000_000
        )
        extra = {"seq": 0} if self.ros1 else {}
        return self.store.types["std_msgs/msg/Header"](stamp=stamp, frame_id="cam", **extra)

    def close(self) -> Path:
        self.writer.close()
        return self.path


@pytest.fixture
def bag_maker() -> type[BagMaker]:
    """The class that writes small bags."""
    return BagMaker


@pytest.fixture
def rgbd_bag() -> Callable[..., Path]:
    """Return a function that writes a bag of so many good RGB-D frames, 100 ms apart, depth 5 ms after colour."""

    def make(path: Path, kind: str = "mcap", count: int = 4) -> Path:
        maker = BagMaker(path, kind)
        for i in range(count):
            ns = 50_000_000_000 + i * 100_000_000
            maker.info("/cam/rgb/camera_info", ns)
            maker.image("/cam/rgb/image", ns, "bgr8", np.full((4, 6, 3), (1, 2, i), dtype=np.uint8))
            maker.image("/cam/depth/image", ns + 5_000_000, "16UC1", np.full((4, 6), 1000 + i, dtype=np.uint16))
        return maker.close()

    return make
