"""What a robot makes of a server's messages: the strategy's round, or one line that says what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fed_flower import protocol
from fed_flower.client_app import client_app
from tests.core.training.tiny import toolbox, write_folder
from tests.flower.grids import NAMES, LocalGrid, app, fleet


@pytest.fixture
def grid(tmp_path: Path) -> LocalGrid:
    write_folder(tmp_path / NAMES[0], 4)
    return LocalGrid(app(tmp_path), [1])


def ask(grid: LocalGrid, kind: str, **changes: Any) -> Message:
    run = fleet("fedavg").run_config()
    order = protocol.Order("run", run, 1, True, {}, {})
    record = protocol.run_record("run", run, "") if kind == MessageType.QUERY else protocol.order_record(order)
    tree = {**json.loads(str(record["json"])), **changes}
    content = RecordDict({protocol.OURS: ConfigRecord({"json": json.dumps(tree)})})
    message = Message(content, dst_node_id=1, message_type=kind)
    return next(iter(grid.send_and_receive([message])))


def test_registers_with_its_samples_and_its_model(grid: LocalGrid) -> None:
    registration = protocol.read_registration(ask(grid, MessageType.QUERY).content)
    network = toolbox().build("tiny", {"height": 16, "width": 24})
    assert (registration.robot_id, registration.num_samples, registration.task) == ("ana", 4, "depth")
    assert registration.model_digest == toolbox().signature(network, "tiny").digest


@pytest.mark.parametrize(
    ("kind", "changes", "text"),
    [
        ("query", {"protocol": 99}, "protocol 99, this side speaks 1; use one version on both sides"),
        ("query", {"run_id": "../../home"}, "the server calls its run '../../home'; a name without / is needed"),
        ("train", {"run_id": "../../home"}, "the server calls its run '../../home'; a name without / is needed"),
        ("query", {"run": {"more": 1}}, "the server's run is not understood (TypeError: "),
        ("train", {"extras": 3}, "the server's order is not understood (AttributeError: "),
        ("train", {}, "the message has no ArrayRecord 'arrays'; see docs/flower.md"),
    ],
)
def test_a_message_that_cannot_be_followed_is_answered_in_one_line(
    grid: LocalGrid, kind: str, changes: dict[str, Any], text: str
) -> None:
    reply = ask(grid, kind, **changes)
    assert reply.has_error()
    assert str(reply.error.reason).startswith(text)
    assert "\n" not in str(reply.error.reason)


def test_the_default_app_answers_the_two_kinds_of_messages() -> None:
    functions = client_app()._registered_funcs
    assert set(functions) == {"query.default", "train.default"}
