"""``fedperc top`` beside a fleet: its picture, its lines, no fleet, and a clean end."""

import json
import sys
from collections.abc import Callable

from tests.ros.conftest import RosProcess
from tests.ros.fleets import Watcher

TOP = [sys.executable, "-m", "fed_cli", "top"]


def test_one_picture_of_a_running_fleet(told: Watcher, ros_process: Callable[..., RosProcess]) -> None:
    process = ros_process([*TOP, "--once", "--wait", "30"], environment={"COLUMNS": "80", "PYTHONUTF8": "1"})
    assert process.wait(60.0) == 0
    text = "\n".join(process.output)
    for words in ("run yard", "fedepth", "depth, adabins_s", "round 2/5", "1/2 reported", "min left"):
        assert words in text, text
    rows = {line.split()[0]: line for line in process.output if line.strip()}
    assert "reported" in rows["spot1"] and "0.750" in rows["spot1"] and "●·" in rows["spot1"]
    assert "away" in rows["spot2"] and "●●" in rows["spot2"]
    assert "! spot2: refused 3: too large" in text and "! /spot1/inference: disk is nearly full" in text
    assert "/spot1 serves sequence_1 with cluster 1 of round 1, distance 0.25" in text
    assert max(map(len, process.output)) <= 80


def test_lines_go_through_and_an_interrupt_ends_both(told: Watcher, ros_process: Callable[..., RosProcess]) -> None:
    process = ros_process([*TOP, "--json", "--wait", "30"])
    plan = json.loads(process.wait_line(r'\{"kind": "plan"', 40.0).string)
    assert plan["run"] == "yard" and plan["deadline_s"] == 300.0 and plan["sent_s"] <= plan["time_s"]
    assert json.loads(process.wait_line(r'\{"kind": "diagnostics"').string)["level"] == "warn"
    assert process.stop(timeout_s=40.0) == 130  # a busy machine takes its time to end the monitor
    assert process.output[-1] == "stopped"
    told.until(lambda: "monitor" not in told.node.get_node_names())


def test_no_fleet_is_one_line_with_the_fleets_that_are_there(
    told: Watcher, ros_process: Callable[..., RosProcess]
) -> None:
    process = ros_process([*TOP, "--fleet-ns", "/other", "--wait", "5"])
    assert process.wait(60.0) == 2
    assert process.output[-1].startswith("error: no fleet answers on /other in ROS domain ")
    assert process.output[-1].endswith("within 5 s; fleets there: /fleet (--fleet-ns)")
