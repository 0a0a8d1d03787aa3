"""Clouds: what is written comes back, what drivers publish is understood, and no lie of a message is believed."""

from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import PointCloud2, PointField
from std_msgs.msg import Header

from fed_nodes.convert import clouds
from fed_nodes.convert.clouds import CloudError, points_from_msg, points_to_msg

POINTS = np.array([[1, 2, 3, 40, 0], [-1, 0.5, 0, 7, 0.05]], np.float32)


def cloud(points: np.ndarray = POINTS, **changes: Any) -> PointCloud2:
    msg = points_to_msg(points, Header(frame_id="lidar"))
    for name, value in changes.items():
        setattr(msg, name, value)
    return msg


def field(name: str, offset: int, datatype: int = PointField.FLOAT32, count: int = 1) -> PointField:
    return PointField(name=name, offset=offset, datatype=datatype, count=count)


def test_points_travel_as_they_are() -> None:
    msg = deserialize_message(serialize_message(cloud()), PointCloud2)
    assert [f.name for f in msg.fields] == ["x", "y", "z", "intensity", "time_lag"]
    assert (msg.width, msg.height, msg.point_step, msg.header.frame_id) == (2, 1, 20, "lidar")
    np.testing.assert_array_equal(points_from_msg(msg), POINTS)


def test_a_drivers_own_layout_is_understood() -> None:
    """Big endian doubles, a byte of intensity, gaps between points and rows, a ring nobody asks for."""
    layout = np.dtype(
        {
            "names": ["ring", "z", "y", "x", "intensity"],
            "formats": [">u2", ">f8", ">f8", ">f8", "u1"],
            "offsets": [0, 4, 12, 20, 30],
            "itemsize": 40,
        }
    )
    rows = np.zeros((2, 100), np.uint8)
    for row, (x, intensity) in enumerate([(5.0, 200), (6.0, 9)]):
        points = np.zeros(2, layout)
        points["x"], points["y"], points["z"], points["intensity"] = [x, np.nan], 1.5, -2.0, intensity
        rows[row, :80] = points.view(np.uint8)
    fields = [field("ring", 0, PointField.UINT16), field("z", 4, PointField.FLOAT64), field("y", 12, 8)]
    fields += [field("x", 20, PointField.FLOAT64), field("intensity", 30, PointField.UINT8)]
    msg = PointCloud2(
        height=2,
        width=2,
        fields=fields,
        is_bigendian=True,
        point_step=40,
        row_step=100,
        data=array("B", rows.tobytes()),
    )
    # Each row's second point has no finite place.
    np.testing.assert_array_equal(points_from_msg(msg), [[5, 1.5, -2, 200, 0], [6, 1.5, -2, 9, 0]])


def test_a_row_step_that_is_not_filled_in_does_no_harm_to_one_row() -> None:
    np.testing.assert_array_equal(points_from_msg(cloud(row_step=0)), POINTS)


def test_an_intensity_that_is_not_finite_is_none() -> None:
    np.testing.assert_array_equal(points_from_msg(cloud(np.array([[1, 2, 3, np.nan, np.inf]]))), [[1, 2, 3, 0, 0]])


XYZ = [field("x", 0), field("y", 4), field("z", 8)]


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"width": 0}, "no_points", "a cloud of 0x1 points is empty"),
        ({"fields": XYZ[:2]}, "no_xyz", "a cloud has no field z; its fields: x, y"),
        ({"fields": []}, "no_xyz", "a cloud has no field x, y, z; its fields: none"),
        ({"width": 3}, "truncated", "a cloud of 3x1 points of 20 bytes has 40 bytes, not 60"),
        ({"data": array("B", bytes(39))}, "truncated", "has 39 bytes, not 40"),
        ({"point_step": 0}, "wrong_step", "a point_step of 0"),
        ({"point_step": 8}, "wrong_step", "field z of a cloud lies at byte 8 of points of 8 bytes"),
        ({"point_step": 4000, "width": 1}, "too_large", "at most 4000000 points of 1024 bytes are read"),
        ({"height": 2, "width": 1, "row_step": 10}, "wrong_step", "point_step of 20 and a row_step of 10"),
        ({"width": 2**31, "height": 2**31}, "too_large", "at most 4000000 points"),
        (
            {"fields": [*XYZ[:2], field("z", 8, PointField.INT32)]},
            "wrong_type",
            "field z of a cloud is 1 of datatype 5",
        ),
        ({"fields": [*XYZ[:2], field("z", 8, 99)]}, "wrong_type", "datatype 99; expected a float"),
        ({"fields": [*XYZ[:2], field("z", 8, count=3)]}, "wrong_type", "field z of a cloud is 3 of datatype 7"),
        ({"fields": [*XYZ[:2], field("z", 2**32 - 4)]}, "wrong_step", "lies at byte 4294967292 of points of 20 bytes"),
    ],
)
def test_a_cloud_that_lies_is_refused_with_its_reason(changes: dict[str, Any], reason: str, words: str) -> None:
    with pytest.raises(CloudError) as err:
        points_from_msg(cloud(**changes))
    assert err.value.reason == reason
    assert words in str(err.value) and "\n" not in str(err.value)


def test_a_cloud_of_nothing_but_nan_is_refused() -> None:
    with pytest.raises(CloudError, match="a cloud of 2 points has none with a finite place") as err:
        points_from_msg(cloud(np.full((2, 5), np.nan, np.float32)))
    assert err.value.reason == "no_points"


def test_nothing_is_allocated_before_the_claim_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clouds.np, "zeros", lambda *_: pytest.fail("allocated"))
    with pytest.raises(CloudError):
        points_from_msg(cloud(width=3_999_999))


@given(
    st.integers(0, 300),
    st.integers(0, 4),
    st.integers(0, 40),
    st.integers(0, 100),
    st.lists(st.tuples(st.sampled_from([*clouds.FIELDS, "ring"]), st.integers(0, 60), st.integers(0, 9))),
    st.binary(max_size=200),
    st.booleans(),
)
def test_any_message_gives_points_or_a_reason(
    width: int, height: int, point_step: int, row_step: int, fields: list[Any], data: bytes, big: bool
) -> None:
    msg = PointCloud2(width=width, height=height, point_step=point_step, row_step=row_step, is_bigendian=big)
    msg.fields = [field(name, offset, kind) for name, offset, kind in fields]
    msg.data = array("B", data)
    try:
        points = points_from_msg(msg)
    except CloudError as err:
        assert err.reason
    else:
        assert points.shape[1] == 5 and np.isfinite(points).all() and 0 < len(points) <= width * height
