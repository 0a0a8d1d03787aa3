"""The live view, and the statuses of a simulation on it."""

import io
import math

import pytest
from rich.console import Console

from fed_cli.fleetrun.simulation import fleet_line, robot_line
from fed_cli.fleetrun.state import FleetState
from fed_cli.fleetrun.view import FleetView
from fed_core.errors import Refusal
from fed_core.roles.messages import FleetStatus, RobotPhase, RobotState, RobotStatus


def status(reported: int, phase: str = "training") -> FleetStatus:
    robots = tuple(
        RobotState(name, True, True, number < reported, (number,), reported, 0, Refusal.ACCEPTED, "")
        for number, name in enumerate(("a", "b"))
    )
    return FleetStatus("run", phase, 1, 4, "fedepth", 2, robots, "robot b")


def test_without_terminal_one_line_per_change() -> None:
    text = io.StringIO()
    state = FleetState()
    view = FleetView(Console(file=text, width=40, force_terminal=False), state)
    view.stage = "learning"
    with view:
        view.refresh()
        for reported in (0, 0, 1, 1, 2):
            state.add(fleet_line(status(reported)))
            view.refresh()
            view.refresh()
    lines = [line.split("] ", 1)[1] for line in text.getvalue().splitlines()]
    assert lines == [
        "learning",
        *(f"learning: fedepth training, round 1/4, {done}/2 robots reported" for done in range(3)),
    ]


def test_names_in_square_brackets_are_no_markup() -> None:
    text = io.StringIO()
    state = FleetState()
    state.add({**fleet_line(status(1)), "strategy": "[/fedavg]"})
    view = FleetView(Console(file=text, width=80, force_terminal=False), state)
    with view:
        view.refresh()
    assert "[/fedavg] training, round 1/4" in text.getvalue()


def test_terminal_shows_robots_and_what_is_waited_for() -> None:
    text = io.StringIO()
    state = FleetState()
    state.add(fleet_line(status(1)))
    state.add(robot_line(RobotStatus("a", "i", RobotPhase.TRAINING, 1, 0.5, 3.25, 40.0)))
    view = FleetView(Console(file=text, width=100, force_terminal=True), state)
    with view:
        view.refresh()
        drawn = io.StringIO()
        Console(file=drawn, width=100).print(view.draw())
    assert "waiting for robot b" in drawn.getvalue()
    (row,) = [line for line in drawn.getvalue().splitlines() if line.startswith("a ")]
    assert "training" in row and "3.25" in row and "40" in row


def test_how_many_layers_a_robot_shares_is_shown_in_its_own_run_only() -> None:
    state = FleetState()
    state.add(fleet_line(status(1)))
    for name in ("a", "b"):
        state.add(robot_line(RobotStatus(name, "i", RobotPhase.REPORTED, 1, 1.0)))
    state.add({"kind": "mask", "id": "a", "run": "run", "round": 1, "units": 99, "shared": 61})
    state.add({"kind": "mask", "id": "b", "run": "another", "round": 1, "units": 99, "shared": 12})
    drawn = io.StringIO()
    Console(file=drawn, width=100).print(FleetView(Console(file=io.StringIO(), width=100), state).draw())
    rows = {line[:1]: line for line in drawn.getvalue().splitlines()}
    assert "61/99" in rows["a"] and "12/99" not in rows["b"]


def test_statuses_of_a_simulation_have_no_nan() -> None:
    line = robot_line(RobotStatus("a", "i", RobotPhase.WAITING, loss=math.nan))
    assert (line["loss"], line["phase"], line["sent_bytes"]) == (None, "waiting", 0)


def test_names_that_somebody_makes_up_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fed_cli.fleetrun.state.MOST_NAMES", 3)
    state = FleetState()

    def heard(name: str) -> None:
        for kind in ("robot", "mask", "plan", "selection", "diagnostics"):
            line = robot_line(RobotStatus(name, "i", RobotPhase.TRAINING, 1, 0.5, 3.25, 40.0))
            state.add(
                {**line, "kind": kind, "run": name, "source": name, "name": name, "level": "error", "text": "bad"}
            )

    for name in ("real", "made0", "made1", "real", "made2", "made3"):
        heard(name)
    for table in (state.robots, state.masks, state.plans, state.selections):
        assert list(table) == ["real", "made2", "made3"], "who spoke last longest ago goes first"
    assert [state.losses(name) for name in ("real", "made1")] == [[3.25], []]
    assert sorted(fault.where for fault in state.faults()) == ["made2", "made3", "real"]


def test_state_moves_when_a_robot_does() -> None:
    state = FleetState()
    state.add(fleet_line(status(0)))
    state.add(robot_line(RobotStatus("a", "i", RobotPhase.TRAINING, 1, 0.1)))
    before = state.position()
    state.add(robot_line(RobotStatus("a", "i", RobotPhase.TRAINING, 1, 0.2)))
    assert state.position() != before
    assert state.finished("run") is False
    state.add({"kind": "plan", "run": "run", "finished": True})
    assert state.finished("run") is True
