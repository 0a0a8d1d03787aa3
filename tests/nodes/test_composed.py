"""Which nodes a process of several holds."""

import pytest

from fed_core.errors import ConfigError
from fed_nodes import composed
from fed_nodes.inference import InferenceNode
from fed_nodes.robot_client import RobotClientNode

KNOWN = "aggregator, robot_client, inference, replay, monitor"


def test_nodes_in_the_order_of_their_names() -> None:
    assert composed.chosen(["robot_client", "inference"]) == [RobotClientNode, InferenceNode]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], f"composed needs the names of nodes, for example robot_client inference; known: {KNOWN}"),
        (["inference", "score"], f"composed: unknown node 'score'; known: {KNOWN}"),
        (["replay", "replay"], "composed: replay is named twice; start a second one as a process of its own"),
    ],
)
def test_wrong_names_end_in_one_line_and_code_2(
    names: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        composed.chosen(names)
    assert str(caught.value) == text
    monkeypatch.setattr("sys.argv", ["composed", *names, "--ros-args", "-r", "__ns:=/spot1"])
    assert composed.main() == 2
    assert capsys.readouterr().err == f"error: {text}\n"
