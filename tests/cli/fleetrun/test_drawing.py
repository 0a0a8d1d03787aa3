"""The picture of a fleet: from the monitor's lines to text of a fixed size."""

import io
from typing import Any

import pytest
from rich.console import Console

from fed_cli.fleetrun.drawing import Canvas, draw_fleet
from fed_cli.fleetrun.marks import ASCII, UNICODE, marks_for
from fed_cli.fleetrun.state import FAULT_S, FleetState

NOW_S = 1000.0


def member(name: str, clusters: list[int], **more: Any) -> dict[str, Any]:
    return {"id": name, "alive": True, "reported": False, "clusters": clusters, "updates": 1, "refused": 0, **more}


def fleet(*robots: dict[str, Any], run: str = "yard", number: int = 3) -> dict[str, Any]:
    return {
        "kind": "fleet",
        "run": run,
        "phase": "training",
        "round": number,
        "rounds": 10,
        "strategy": "fedepth",
        "robots": [*robots],
        "sent_bytes": 30_000_000,
        "received_bytes": 11_200_000,
        "waiting_for": "",
    }


def robot(name: str, loss: float | None = None, number: int = 3, **more: Any) -> dict[str, Any]:
    plain = {"phase": "training", "progress": 0.5, "samples_per_s": 41.2, "samples": 64, "text": ""}
    moved = {"sent_bytes": 2_000_000, "received_bytes": 1_100_000}
    return {"kind": "robot", "id": name, "round": number, "loss": loss, **plain, **moved, **more}


def plan(sent_s: float) -> dict[str, Any]:
    told = {"strategy": "fedepth", "task": "depth", "network": "adabins_s", "deadline_s": 300.0, "sent_s": sent_s}
    return {"kind": "plan", "run": "yard", "round": 3, "finished": False, **told}


def state_of(*lines: dict[str, Any]) -> FleetState:
    state = FleetState(clock=lambda: NOW_S)
    for line in lines:
        state.add(line)
    return state


def text(state: FleetState, canvas: Canvas | None = None) -> list[str]:
    file, canvas = io.StringIO(), canvas or Canvas()
    Console(file=file, width=canvas.width).print(draw_fleet(state, canvas))
    return file.getvalue().splitlines()


def test_head_tells_run_round_deadline_and_bytes() -> None:
    state = state_of(fleet(member("a", [0], reported=True), member("b", [0])), plan(NOW_S - 86.5))
    first, second, *_ = text(state)
    assert first.split("   ") == ["run yard", "fedepth", "depth, adabins_s"]
    assert second.split("   ") == [
        "round 3/10",
        "training",
        "█████░░░░░ 1/2 reported",
        "3:34 min left",
        "41.2 MB",
    ]


def test_a_deadline_of_another_round_is_not_shown() -> None:
    state = state_of(fleet(member("a", [0]), number=4), plan(NOW_S))
    assert "left" not in " ".join(text(state))


def test_robots_have_a_sparkline_of_losses_and_dots_for_clusters() -> None:
    lines = [robot("a", loss, number) for number, loss in ((1, 3.0), (2, 2.0), (3, 1.0))]
    state = state_of(fleet(member("a", [0, 2]), member("b", [1])), *lines)
    head, row, other = text(state)[2:5]
    assert head.rstrip().endswith(" in 012")
    assert row.split() == ["a", "training", "████░░░░", "1.000", "█▅▁", "41", "3.1", "●·●"]
    assert other.split()[:2] == ["b", "registered"] and other.rstrip().endswith("·●·")


def test_many_clusters_are_listed_by_number_and_none_take_no_room() -> None:
    many = text(state_of(fleet(*(member(f"r{n:02d}", [n, n + 1]) for n in range(20)))))
    assert many[2].rstrip().endswith("clusters") and many[5].rstrip().endswith(" 2 3")
    none = text(state_of(fleet(member("a", []))))
    assert none[2].split() == ["robot", "doing", "loss", "samp/s", "MB"]


def test_a_new_run_begins_new_sparklines() -> None:
    state = state_of(fleet(member("a", [0])), robot("a", 3.0, 1), robot("a", 2.0, 2))
    assert state.losses("a") == [3.0, 2.0]
    state.add(fleet(member("a", [0]), run="next"))
    assert state.losses("a") == []


def test_everything_fits_a_small_terminal() -> None:
    members = [member(f"robot_with_a_long_name_{n:02d}", [n % 5], alive=n != 37) for n in range(40)]
    lines = [robot(m["id"], 0.5, text="a" * 100) for m in members]
    ill = [{"kind": "diagnostics", "name": f"/n{k}: state", "level": "warn", "text": "x" * 90} for k in range(9)]
    drawn = text(state_of(fleet(*members), *lines, *ill), Canvas(80, 24))
    assert len(drawn) <= 24 and max(map(len, drawn)) <= 80
    (hidden,) = [line for line in drawn if line.startswith("and ")]
    shown = [line for line in drawn if line.startswith("robot_")]
    assert hidden.startswith(f"and {40 - len(shown)} robots more")
    assert "away" in shown[0]  # the one in trouble comes first
    assert drawn[-1] == "! and 5 faults more"


def test_faults_are_told_the_worst_first_and_vanish_with_their_node() -> None:
    ill = {"kind": "diagnostics", "name": "/a/inference: state", "level": "warn", "text": "no image for 3 s"}
    state = state_of(
        fleet(member("a", [0], alive=False), member("b", [0], refused=2, last_text="norm 9 > 5")),
        robot("c", phase="failed", text="no samples"),
        ill,
        {**ill, "name": "/old: state", "time_s": NOW_S - FAULT_S},
        {**ill, "name": "/well: state"},
        {**ill, "name": "/well: state", "level": "ok"},
    )
    assert [(fault.level, fault.where, fault.text) for fault in state.faults()] == [
        ("error", "c", "no samples"),
        ("warn", "/a/inference", "no image for 3 s"),
        ("warn", "a", "away: no heartbeat"),
        ("warn", "b", "refused 2: norm 9 > 5"),
    ]


@pytest.mark.parametrize(
    ("fallback", "told"),
    [
        (False, "/car serves sequence_2 with cluster 0+2 of round 3, distance 0.1"),
        (True, "/car serves sequence_2 with cluster 0+2 of round 3, distance 0.1 > 0.05"),
    ],
)
def test_selections_of_this_run_are_told(fallback: bool, told: str) -> None:
    chosen = {"kind": "selection", "source": "/car", "sequence": "sequence_2", "run": "yard", "round": 3}
    more = {"models": ["m0", "m2"], "clusters": [0, 2], "distances": [0.1, 0.9, 0.2], "threshold": 0.05}
    line = {**chosen, **more, "fallback": fallback}
    state = state_of(fleet(), line, {**line, "source": "/old", "run": "before"})
    assert text(state)[2:] == [told]


def test_what_robots_say_cannot_command_the_terminal() -> None:
    bad = "\x1b]0;title\x07\x1b[2J\x9b2J\r\nnext"
    state = state_of(
        fleet(member(bad, [0], refused=1, last_text=bad), run=bad),
        robot(bad, 0.5, text=bad),
        {"kind": "diagnostics", "name": bad, "level": "warn", "text": bad, "hardware": ""},
    )
    lines = text(state, Canvas(200))
    assert sum("]0;title" in line for line in lines) >= 4
    assert all(line.isprintable() for line in lines)


def test_terminals_without_unicode_get_plain_characters() -> None:
    assert marks_for("utf-8") is UNICODE and marks_for("ANSI_X3.4-1968") is ASCII
    drawn = text(state_of(fleet(member("a", [0])), robot("a", 1.0, 1), robot("a", 2.0, 2)), Canvas(marks=ASCII))
    assert all(line.isascii() for line in drawn) and "####...." in drawn[3] and "_@" in drawn[3]


def test_bars_and_sparklines_take_odd_numbers() -> None:
    assert [UNICODE.bar(share, 4) for share in (None, -1.0, 0.5, 7.0)] == ["░░░░", "░░░░", "██░░", "████"]
    assert UNICODE.sparkline([], 5) == "" and UNICODE.sparkline([2.0, 2.0], 5) == "▁▁"
    assert UNICODE.sparkline([9.0, float("nan"), 0.0, 7.0], 2) == "▁█"
