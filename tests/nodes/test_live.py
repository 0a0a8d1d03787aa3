"""What live inference does with a sequence that stops early; the networks and the fleet are recorders here."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from std_msgs.msg import Header

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_nodes import live as module
from fed_nodes.convert.images import to_stamp
from fed_nodes.inference_config import InferenceConfig
from fed_nodes.live import LiveInference
from fed_nodes.serving import Counts
from fed_nodes.streams import Taken


class Recorder:
    """Stands for the role's host, the serving thread and the node's logger."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []
        self.described: list[tuple[int, str]] = []
        self.errors: list[str] = []
        self.problem = ""

    def feed(self, event: ev.Event) -> None:
        self.events.append(event)

    post = feed

    def offer(self, token: Any, rgb: Any) -> None:
        pass

    def ask(self) -> None:
        pass

    def counts(self) -> Counts:
        return Counts(7, 4, 2, 0, (0.0104, 0.0255), 1.26)

    def describe(self, images: Any, kind: str, use: Any) -> None:
        self.described.append((len(images), kind))
        use("the descriptor")

    def error(self, text: str, **options: Any) -> None:
        self.errors.append(text)


class Live(LiveInference):
    """Live inference without ROS, its clock in the test's hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.world, self.now_s = Recorder(), 100.0
        node: Any = SimpleNamespace(get_logger=lambda: self.world)
        super().__init__(node, InferenceConfig(gap_s=5.0, **options))
        self._host = self._serving = self._fleet = self.world  # type: ignore[assignment]
        self.active = True
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now_s)

    def image(self, number: int) -> None:
        header = Header(stamp=to_stamp(number * 10**8), frame_id="camera")
        rgb = np.zeros((2, 2, 3), np.uint8)
        self._on_taken(Taken(header, rgb, (rgb,)))

    def ready(self) -> list[str]:
        return [event.name for event in self.world.events if isinstance(event, ev.FramesReady)]


def test_a_sequence_that_stops_early_is_described_by_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    for number in range(3):
        live.image(number)
    live.now_s += 5.0
    live._on_tick()
    assert live.ready() == []  # it may still go on
    live.now_s += 0.1
    live._on_tick()
    live._on_tick()
    assert live.ready() == ["sequence_1"] and live.world.errors == []
    live._describe(ev.DescribeSequence("sequence_1", "subspace"))
    assert live.world.described == [(3, "subspace")]
    assert live.world.events[-1] == ev.SequenceDescribed("sequence_1", "the descriptor")  # type: ignore[arg-type]


def test_one_image_is_too_few_and_a_person_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    live.image(0)
    for _ in range(3):
        live.now_s += 6.0
        live._on_tick()
    assert live.ready() == []
    assert live.world.errors == ["sequence_1 stopped after 1 image; at least 2 are needed to choose its models"]
    live.image(1)  # it goes on after all
    live.now_s += 6.0
    live._on_tick()
    assert live.ready() == ["sequence_1"]


def test_no_image_at_all_is_no_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    live.now_s += 60.0
    live._on_tick()
    assert live.ready() == [] and live.world.errors == []


def plan_of(task: str) -> FleetPlan:
    config = RunConfig("fedbevt", {}, task, "net", {}, {}, total_rounds=4, seed=0)
    return FleetPlan("run_7", config, 2, False, {}, (), {}, ("global",))


def test_a_fleet_of_another_task_is_told_in_one_line_and_its_plans_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = Live(monkeypatch)
    live._on_plan(plan_of("bev"))
    text = "run run_7 learns bev, but this node takes one camera for depth"
    assert live.world.errors == [f"{text}; see its parameters rig and lidar"] and live.world.events == []
    assert live.health()[:2] == ("warn", text)
    live._on_plan(plan_of("depth"))
    assert live.world.events == [plan_of("depth")] and live.health()[0] == "ok"


@pytest.mark.parametrize(
    ("options", "kept", "text"),
    [
        ({}, {}, "serve each robot's model on that robot: set robot_id and robot_dir"),
        (
            {"robot_id": "car_a", "robot_dir": "nowhere"},
            {"own": "", "memory": ""},
            "nowhere holds none of robot car_a in run run_7; its first training brings them",
        ),
    ],
)
def test_own_tensors_are_looked_for_in_the_robots_folder(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], kept: dict[str, str], text: str
) -> None:
    assert Live(monkeypatch, **options)._own(plan_of("bev")) == (kept, text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"robot_dir": "robots/car_a"}, "robot_dir is set, but not robot_id; name the robot whose folder it is"),
        ({"rig": {"a": {"position": [0, 0, 1]}}}, r"rig.a: key 'rotation' is missing"),
        ({"known_cells": "none"}, "known_cells is 'none'; choose one of sector, fov, off"),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(InferenceConfig, options)


def test_a_problem_of_the_stream_is_told_once_and_stays_in_the_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    problems = ["a camera is off", "a camera is off", "", "a camera is off", "dropped a set", "dropped a set"]
    monkeypatch.setattr(live._stream, "problem", lambda: problems.pop(0))
    levels = []
    for number in range(6):
        if number == 4:
            live._on_error("dropped a set")
        live._on_tick()
        levels.append(live.health()[0])
    assert live.world.errors == ["a camera is off", "a camera is off", "dropped a set"]
    assert levels == ["warn", "warn", "ok", "warn", "warn", "warn"]
