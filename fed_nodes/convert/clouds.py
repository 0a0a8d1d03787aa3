"""Clouds of a LiDAR: ``sensor_msgs/PointCloud2`` to arrays and back.

A message is a claim about its bytes. All of it is checked against their number before any point is read.
"""

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt
from sensor_msgs.msg import PointCloud2, PointField
from std_msgs.msg import Header

from fed_core.errors import DataError

#: Most points that a cloud may have: ten times those of ten sweeps.
MAX_POINTS = 4_000_000
#: Largest size of one point [bytes].
MAX_POINT_BYTES = 1024
#: Fields that are published; ``time_lag`` [s] tells how much older than the stamp a point is.
FIELDS = ("x", "y", "z", "intensity", "time_lag")

_FORMATS = {
    PointField.INT8: "i1",
    PointField.UINT8: "u1",
    PointField.INT16: "i2",
    PointField.UINT16: "u2",
    PointField.INT32: "i4",
    PointField.UINT32: "u4",
    PointField.FLOAT32: "f4",
    PointField.FLOAT64: "f8",
}
_FLOATS = ("f4", "f8")


class CloudError(DataError):
    """A cloud cannot be used; ``reason`` is what such clouds are counted under."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def points_from_msg(msg: PointCloud2) -> npt.NDArray[np.float32]:
    """Return the points (P, 5) float32 of a cloud: x, y, z [m], intensity, time lag [s].

    Points without a finite place are left out (organised clouds have them where nothing came back). Intensity and time
    lag are 0 where the cloud has no such field or no finite value.

    Raises:
        CloudError: the cloud has no point, no place of points, or claims what its bytes do not hold.
    """
    _check_size(msg)
    layout = _layout(msg)
    table: np.ndarray[Any, Any] = np.ndarray(
        (msg.height, msg.width), layout, np.frombuffer(msg.data, np.uint8), strides=(msg.row_step, msg.point_step)
    )
    found = np.zeros((msg.height * msg.width, len(FIELDS)), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for column, name in enumerate(FIELDS):
            if name in (layout.names or ()):
                found[:, column] = table[name].ravel()
    found = found[np.isfinite(found[:, :3]).all(1)]
    if not len(found):
        raise CloudError("no_points", f"a cloud of {msg.height * msg.width} points has none with a finite place")
    found[:, 3:][~np.isfinite(found[:, 3:])] = 0.0
    return found


def points_to_msg(points: npt.NDArray[np.float32], header: Header) -> PointCloud2:
    """Return points (P, 5) float32 as a cloud of the fields :data:`FIELDS`."""
    table = np.ascontiguousarray(points, "<f4")
    step = 4 * len(FIELDS)
    return PointCloud2(
        header=header,
        height=1,
        width=len(table),
        fields=[
            PointField(name=name, offset=4 * place, datatype=PointField.FLOAT32, count=1)
            for place, name in enumerate(FIELDS)
        ],
        is_bigendian=False,
        point_step=step,
        row_step=step * len(table),
        data=array("B", table.tobytes()),
        is_dense=True,
    )


def _check_size(msg: PointCloud2) -> None:
    count, size = msg.height * msg.width, f"a cloud of {msg.width}x{msg.height} points"
    if count == 0:
        raise CloudError("no_points", f"{size} is empty")
    if count > MAX_POINTS or msg.point_step > MAX_POINT_BYTES:
        most = f"at most {MAX_POINTS} points of {MAX_POINT_BYTES} bytes are read"
        raise CloudError("too_large", f"{size} of {msg.point_step} bytes; {most}")
    if msg.point_step == 0 or (msg.height > 1 and msg.row_step < msg.width * msg.point_step):
        raise CloudError("wrong_step", f"{size} has a point_step of {msg.point_step} and a row_step of {msg.row_step}")
    needed = (msg.height - 1) * msg.row_step + msg.width * msg.point_step
    if len(msg.data) < needed:
        raise CloudError("truncated", f"{size} of {msg.point_step} bytes has {len(msg.data)} bytes, not {needed}")


def _layout(msg: PointCloud2) -> "np.dtype[np.void]":
    """Return where the wanted fields of a point lie."""
    order = ">" if msg.is_bigendian else "<"
    fields = {field.name: field for field in msg.fields if field.name in FIELDS}
    missing = [name for name in FIELDS[:3] if name not in fields]
    if missing:
        there = ", ".join(field.name for field in msg.fields[:20]) or "none"
        raise CloudError("no_xyz", f"a cloud has no field {', '.join(missing)}; its fields: {there}")
    formats = {}
    for name, field in fields.items():
        kind = _FORMATS.get(field.datatype, "")
        if not kind or field.count > 1 or (name in FIELDS[:3] and kind not in _FLOATS):
            raise CloudError(
                "wrong_type", f"field {name} of a cloud is {field.count} of datatype {field.datatype}; expected a float"
            )
        if field.offset + np.dtype(kind).itemsize > msg.point_step:
            text = f"field {name} of a cloud lies at byte {field.offset} of points of {msg.point_step} bytes"
            raise CloudError("wrong_step", text)
        formats[name] = order + kind
    return np.dtype(
        {
            "names": list(formats),
            "formats": list(formats.values()),
            "offsets": [fields[name].offset for name in formats],
            "itemsize": msg.point_step,
        }
    )
