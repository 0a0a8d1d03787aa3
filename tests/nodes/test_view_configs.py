"""RViz configs and Foxglove layouts: they parse, and name topics that nodes have, with types and QoS that fit."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fed_nodes import qos
from scripts.write_interfaces import NODES, PUB, SOMETIMES, SUB, Row, policy

CONFIG = Path(__file__).resolve().parents[2] / "config"
RVIZ, FOXGLOVE = sorted((CONFIG / "rviz").glob("*")), sorted((CONFIG / "foxglove").glob("*"))
#: Message type of each display and panel that reads one kind.
TYPES = {
    "rviz_default_plugins/Image": "sensor_msgs/msg/Image",
    "rviz_default_plugins/PointCloud2": "sensor_msgs/msg/PointCloud2",
    "rviz_default_plugins/MarkerArray": "visualization_msgs/msg/MarkerArray",
    "rviz_default_plugins/Map": "nav_msgs/msg/OccupancyGrid",
    "DiagnosticSummary": "diagnostic_msgs/msg/DiagnosticArray",
}
DRAWN_IN_3D = {TYPES[f"rviz_default_plugins/{name}"] for name in ("PointCloud2", "MarkerArray", "Map")}


def rows_of(topic: str) -> list[Row]:
    """Return the documented topics that a full name can be, in a robot's or the fleet's namespace."""
    sometimes = [row for cases in SOMETIMES.values() for _, rows in cases for row in rows]
    found = []
    for row in [*(row for rows in NODES.values() for row in rows), *sometimes]:
        name = row.name.replace("<fleet_ns>", "/fleet")
        pattern = re.sub(r"<\w+>", r"\\w+", name if name.startswith("/") else f"/\\w+/{name}")
        if row.way in (PUB, SUB) and re.fullmatch(pattern, topic):
            found.append(row)
    return found


def types_of(topic: str) -> set[str]:
    return {row.type for row in rows_of(topic)}


def displays(path: Path) -> list[dict[str, Any]]:
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [display for display in tree["Visualization Manager"]["Displays"] if "Topic" in display]


def test_there_is_one_of_each_task() -> None:
    assert [path.name for path in RVIZ] == ["bev.rviz", "depth.rviz", "detection.rviz"]
    assert [path.name for path in FOXGLOVE] == ["bev.json", "depth.json", "detection.json"]


@pytest.mark.parametrize("path", RVIZ, ids=lambda path: path.name)
def test_displays_of_rviz_fit_their_topics(path: Path) -> None:
    found = displays(path)
    assert len(found) >= 3
    for display in found:
        topic = display["Topic"]
        assert types_of(topic["Value"]) == {TYPES[display["Class"]]}, display["Name"]
        published = [policy(getattr(qos, row.qos)) for row in rows_of(topic["Value"]) if row.way == PUB]
        published = published or [policy(qos.SENSORS)]
        wanted = topic["Reliability Policy"], topic["Durability Policy"]
        assert wanted[1] == "Volatile"
        if wanted[0] == "Reliable":
            assert {reliability for reliability, _ in published} == {"reliable"}, display["Name"]


def panels_in(shape: Any) -> Iterator[str]:
    if isinstance(shape, str):
        yield shape
    else:
        assert shape["direction"] in ("row", "column") and 0 < shape["splitPercentage"] < 100
        for side in ("first", "second"):
            yield from panels_in(shape[side])


@pytest.mark.parametrize("path", FOXGLOVE, ids=lambda path: path.name)
def test_panels_of_foxglove_fit_their_topics(path: Path) -> None:
    tree = json.loads(path.read_text(encoding="utf-8"))
    panels = tree["configById"]
    assert sorted(panels_in(tree["layout"])) == sorted(panels)
    for name, panel in panels.items():
        kind = name.split("!")[0]
        if kind == "Image":
            mode = panel["imageMode"]
            assert types_of(mode["imageTopic"]) == {"sensor_msgs/msg/Image"}, name
            assert types_of(mode["calibrationTopic"]) == {"sensor_msgs/msg/CameraInfo"}, name
        elif kind == "3D":
            assert panel["topics"] and all(
                types_of(topic) and types_of(topic) <= DRAWN_IN_3D for topic in panel["topics"]
            )
        elif kind == "RawMessages":
            assert types_of(panel["topicPath"]), name
        else:
            assert types_of(panel["topicToRender"]) == {TYPES[kind]}, name


def test_what_is_said_once_is_latched_so_that_recorders_get_it() -> None:
    said_once = {"fed_msgs/msg/Selection", "fed_msgs/msg/RoundPlan", "fed_msgs/msg/FleetStatus"}
    rows = [row for rows in NODES.values() for row in rows if row.way == PUB and row.type in said_once]
    assert {row.type for row in rows} == said_once
    assert {policy(getattr(qos, row.qos)) for row in rows} == {("reliable", "transient_local")}
