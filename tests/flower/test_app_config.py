"""Which robot a node is: the run config names a fleet file, the node's own config a place or a name in it."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fed_core.errors import ConfigError
from fed_flower.app_config import robot_of
from fed_flower.client_app import client_app

FLEET = """
run: two
robots:
  - {id: ana, frames: 3, source: {data: ana, step: 2}}
  - {id: ben}
"""


def context(folder: Path, node: dict[str, Any], **run: Any) -> Context:
    config = {"fleet": str(folder / "fleet.yaml"), "folder": str(folder / "run"), **run}
    return Context(run_id=1, node_id=5, node_config=node, state=RecordDict(), run_config=config)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    return tmp_path


def test_by_place_by_name_and_with_a_recording_of_its_own(folder: Path) -> None:
    ana = robot_of(context(folder, {"partition-id": 0}, threads=3, device="cpu"))
    assert (ana.robot_id, ana.threads, ana.device, ana.samples.base) == ("ana", 3, "cpu", folder)
    assert (ana.samples.source.data, ana.samples.source.stop, ana.samples.source.step) == ("ana", 6, 2)
    ben = robot_of(context(folder, {"robot-id": "ben", "data": "/data/today", "partition-id": 0}))
    assert (ben.robot_id, ben.samples.source.data, ben.threads, ben.device) == ("ben", "/data/today", 1, "auto")


def test_what_is_rendered_is_recorded_once(tmp_path: Path) -> None:
    source = "{generated: {platform: uav, environment: forest, frames: 2, width: 32, height: 24}}"
    (tmp_path / "fleet.yaml").write_text(f"run: one\nrobots: [{{id: ana, source: {source}}}]\n")
    first = robot_of(context(tmp_path, {"partition-id": 0})).samples.source.data
    stamp = Path(first).stat().st_mtime_ns
    assert Path(first).parent == tmp_path / "run" / "robots" / "ana"
    assert robot_of(context(tmp_path, {"partition-id": 0})).samples.source.data == first
    assert Path(first).stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ({"robot-id": "eve"}, "robot-id is 'eve' in the node config; the fleet file knows ana, ben"),
        ({}, 'the node config names no robot; add robot-id="NAME" or partition-id=NUMBER'),
        ({"partition-id": 2}, r"partition-id is 2, but the fleet file has 2 robot\(s\); start as many nodes"),
        ({"partition-id": 1}, "robot 'ben' has no recording: the fleet file names none, and neither does data"),
    ],
)
def test_mistakes_are_one_line(folder: Path, node: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        robot_of(context(folder, node))


def test_no_fleet(folder: Path) -> None:
    with pytest.raises(ConfigError, match='^the run config names no fleet; add fleet = "/path/to/fleet.yaml"$'):
        robot_of(context(folder, {"partition-id": 0}, fleet=""))


def test_a_node_answers_a_mistake_with_its_line(folder: Path) -> None:
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    message = Message(RecordDict(), dst_node_id=5, message_type=MessageType.QUERY)
    reply = client_app()(message, context(folder, {"partition-id": 7}))
    assert reply.has_error()
    assert str(reply.error.reason).startswith("partition-id is 7, but the fleet file has 2 robot(s)")
