"""The lines of a robot's log: one for each thing that it does, however often its status says so."""

from types import SimpleNamespace
from typing import Any

from fed_core.roles.messages import RobotPhase, RobotStatus
from fed_nodes.progress_log import ProgressLog


def test_each_step_is_told_once() -> None:
    lines: list[str] = []
    node: Any = SimpleNamespace(get_logger=lambda: SimpleNamespace(info=lines.append))
    log = ProgressLog(node)
    for phase, number, run in (
        (RobotPhase.REGISTERING, 0, ""),
        (RobotPhase.WAITING, 0, "yard"),
        (RobotPhase.FETCHING, 1, "yard"),
        (RobotPhase.TRAINING, 1, "yard"),
        (RobotPhase.TRAINING, 1, "yard"),
        (RobotPhase.REPORTED, 1, "yard"),
        (RobotPhase.WAITING, 1, "yard"),
        (RobotPhase.REPORTED, 1, "yard"),
        (RobotPhase.TRAINING, 2, "yard"),
        (RobotPhase.FINISHED, 2, "yard"),
    ):
        log.add(RobotStatus("spot1", "i", phase, number), run)
    assert lines == [
        "joined run yard",
        "round 1: training begins",
        "round 1: update reported",
        "round 2: training begins",
    ]
