"""Message types of bags: those that are installed as they were recorded, and those that are not."""

import re

import pytest
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import Image

from fed_core.data.message_types import CarriedType, field_types
from fed_core.errors import DataError
from fed_nodes.playing.recorded_types import message_class

OTHER = "was recorded with other fields than it has here"
POINT = "geometry_msgs/msg/Point"
#: Plain types of every width, arrays, bounds, bytes, times, types inside of types, and no fields at all.
STANDARD = [
    "sensor_msgs/msg/Image",
    "sensor_msgs/msg/CameraInfo",
    "sensor_msgs/msg/PointCloud2",
    "nav_msgs/msg/Odometry",
    "shape_msgs/msg/SolidPrimitive",
    "diagnostic_msgs/msg/DiagnosticArray",
    "rcl_interfaces/msg/ParameterEvent",
    "std_msgs/msg/Char",
    "std_msgs/msg/Float64MultiArray",
    "std_msgs/msg/Empty",
]


def recorded(name: str, definition: str) -> dict[str, dict[str, str]]:
    return field_types(CarriedType(name, definition, "", bytes))


@pytest.mark.parametrize("name", STANDARD)
def test_a_type_that_is_installed_as_it_was_recorded(name: str) -> None:
    definition, _ = get_typestore(Stores.ROS2_KILTED).generate_msgdef(name, ros_version=2)
    types = recorded(name, definition)
    assert next(iter(types)) == name
    assert message_class(name, types).__name__ == name.rpartition("/")[2]


def test_without_a_definition_the_name_counts() -> None:
    assert recorded("sensor_msgs/msg/Image", "}{\n") == {}
    assert message_class("sensor_msgs/msg/Image", {}) is Image


@pytest.mark.parametrize(
    ("name", "definition", "words"),
    [
        (
            POINT,
            "float32 x\nfloat32 y\nfloat32 z\n",
            f"{POINT} {OTHER}: x was float",
        ),
        (POINT, "float64 x\nfloat64 y\n", f"{POINT} {OTHER}"),
        (
            "geometry_msgs/msg/Polygon",
            f"Point32[4] points\n{'=' * 80}\nMSG: geometry_msgs/Point32\nfloat32 x\nfloat32 y\nfloat32 z\n",
            f"geometry_msgs/msg/Polygon {OTHER}: points was geometry_msgs/Point32[4]",
        ),
        (
            "geometry_msgs/msg/PointStamped",
            f"std_msgs/Header header\ngeometry_msgs/Point point\n{'=' * 80}\nMSG: std_msgs/Header\nuint32 seq\n"
            f"builtin_interfaces/Time stamp\nstring frame_id\n{'=' * 80}\nMSG: builtin_interfaces/Time\nint32 sec\n"
            f"uint32 nanosec\n{'=' * 80}\nMSG: geometry_msgs/Point\nfloat64 x\nfloat64 y\nfloat64 z\n",
            f"std_msgs/msg/Header {OTHER}",
        ),
    ],
)
def test_a_type_of_other_fields_is_refused(name: str, definition: str, words: str) -> None:
    """Its bytes would be misread by whoever takes the message."""
    with pytest.raises(DataError, match=f"^{re.escape(words)}$"):
        message_class(name, recorded(name, definition))
