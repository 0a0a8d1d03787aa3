"""Small bags with what inference publishes, written as a recorder would."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_KILTED)
START_NS = 1_700_000_000_000_000_000
_SENSOR, _GEOMETRY = "sensor_msgs/msg/", "geometry_msgs/msg/"


def make(kind: str, **fields: Any) -> Any:
    """Return a message; fields that are left out are zero."""
    cls, values = STORE.types[kind], {}
    for name, (form, what) in STORE.get_msgdef(kind).fields:
        values[name] = fields.pop(name) if name in fields else _zero(form.name, what)
    assert not fields, f"{kind} has no {list(fields)}"
    return cls(**values)


def _zero(form: str, what: Any) -> Any:
    if form == "BASE":
        return "" if what[0] == "string" else False if what[0] == "bool" else 0
    if form == "NAME":
        return make(what)
    (inner, base), count = what
    if inner.name == "BASE" and base[0] != "string":
        return np.zeros(count if form == "ARRAY" else 0, STORE_DTYPES.get(base[0], base[0]))
    return []


STORE_DTYPES = {"byte": "u1", "char": "u1", "octet": "u1"}


def header(frame: str, number: int = 0) -> Any:
    sec, nanosec = divmod(START_NS + number * 100_000_000, 1_000_000_000)
    return make(
        "std_msgs/msg/Header", frame_id=frame, stamp=make("builtin_interfaces/msg/Time", sec=sec, nanosec=nanosec)
    )


def image(pixels: np.ndarray[Any, Any], encoding: str, number: int, frame: str = "optical") -> Any:
    height, width = pixels.shape[:2]
    data = np.frombuffer(pixels.tobytes(), np.uint8)
    sizes = {"height": height, "width": width, "step": pixels.nbytes // height}
    return make(_SENSOR + "Image", header=header(frame, number), encoding=encoding, data=data, **sizes)


def info(width: int, height: int, frame: str = "optical") -> Any:
    k = np.array([60.0, 0.0, (width - 1) / 2, 0.0, 60.0, (height - 1) / 2, 0.0, 0.0, 1.0])
    return make(_SENSOR + "CameraInfo", header=header(frame), width=width, height=height, k=k)


def cloud(points: np.ndarray[Any, Any], number: int, frame: str) -> Any:
    fields = [make(_SENSOR + "PointField", name=n, offset=4 * k, datatype=7, count=1) for k, n in enumerate("xyz")]
    data = np.frombuffer(points.astype("<f4").tobytes(), np.uint8)
    sizes = {"height": 1, "width": len(points), "point_step": 12, "row_step": 12 * len(points)}
    return make(_SENSOR + "PointCloud2", header=header(frame, number), fields=fields, data=data, **sizes)


def box(place: Sequence[float], size: Sequence[float], number: int, frame: str, score: float = 0.9) -> Any:
    pose = make(
        _GEOMETRY + "Pose",
        position=make(_GEOMETRY + "Point", **dict(zip("xyz", place, strict=True))),
        orientation=make(_GEOMETRY + "Quaternion", w=1.0),
    )
    colour = make("std_msgs/msg/ColorRGBA", r=1.0, a=0.1 + 0.9 * score)
    scale = make(_GEOMETRY + "Vector3", **dict(zip("xyz", size, strict=True)))
    fields = {"header": header(frame, number), "ns": "car", "type": 1, "pose": pose, "scale": scale, "color": colour}
    return make("visualization_msgs/msg/Marker", **fields)


def markers(boxes: Sequence[Any], number: int, frame: str) -> Any:
    first = make("visualization_msgs/msg/Marker", header=header(frame, number), action=3)
    return make("visualization_msgs/msg/MarkerArray", markers=[first, *boxes])


def grid(values: np.ndarray[Any, Any], number: int) -> Any:
    size, data = len(values), np.ascontiguousarray(values, np.int8).ravel()
    corner = make(_GEOMETRY + "Pose", position=make(_GEOMETRY + "Point", x=-size / 4, y=-size / 4))
    meta = make("nav_msgs/msg/MapMetaData", resolution=0.5, width=size, height=size, origin=corner)
    return make("nav_msgs/msg/OccupancyGrid", header=header("base_link", number), info=meta, data=data)


def transforms(places: dict[str, tuple[Sequence[float], Sequence[float]]]) -> Any:
    """Return frames on base_link: position and quaternion x, y, z, w of each."""
    found = []
    for child, (place, turn) in places.items():
        pose = make(
            _GEOMETRY + "Transform",
            translation=make(_GEOMETRY + "Vector3", **dict(zip("xyz", place, strict=True))),
            rotation=make(_GEOMETRY + "Quaternion", **dict(zip("xyzw", turn, strict=True))),
        )
        fields = {"header": header("base_link"), "child_frame_id": child, "transform": pose}
        found.append(make(_GEOMETRY + "TransformStamped", **fields))
    return make("tf2_msgs/msg/TFMessage", transforms=found)


def write(path: Path, messages: Sequence[tuple[str, Any]]) -> Path:
    """Write messages with their topics, 1 ms apart."""
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        known: dict[str, Any] = {}
        for number, (topic, message) in enumerate(messages):
            kind = message.__msgtype__
            if topic not in known:
                known[topic] = writer.add_connection(topic, kind, typestore=STORE)
            writer.write(known[topic], START_NS + number * 1_000_000, STORE.serialize_cdr(message, kind))
    return path
