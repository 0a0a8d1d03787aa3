"""What live inference does with a sequence that stops early; the networks and the fleet are recorders here."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fed_msgs.msg import Selection
from std_msgs.msg import Header

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.types import Array, BlobRef, Choice, Descriptor
from fed_nodes.convert.images import to_stamp
from fed_nodes.live.config import InferenceConfig
from fed_nodes.live.serving import Counts, LiveNetwork
from fed_nodes.live.session import LiveInference
from fed_nodes.live.streams import Taken


class Recorder:
    """Stands for the role's host, the serving thread and the node's logger."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []
        self.described: list[tuple[int, str]] = []
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.problem = ""
        self.descriptor: Any = "the descriptor"
        self.is_behind = False
        self.kept: list[int] = []
        self.said: list[str] = []

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
        use(self.descriptor)

    def load(self, model: Any, use: Any, failed: Any) -> None:
        failed()

    def later(self, work: Any) -> None:
        work()

    def keep(self, plan: Any) -> None:
        self.kept.append(plan.round)

    def error(self, text: str, **options: Any) -> None:
        self.errors.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def info(self, text: str) -> None:
        self.said.append(text)


class Live(LiveInference):
    """Live inference without ROS, its clock in the test's hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.world, self.now_s = Recorder(), 100.0
        node: Any = SimpleNamespace(get_logger=lambda: self.world)
        super().__init__(node, InferenceConfig(gap_s=5.0, **options))
        self._host = self._serving = self._fleet = self.world  # type: ignore[assignment]
        self.active = True
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

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


def test_a_described_sequence_that_falls_silent_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch, descriptor_frames=2)
    live.image(0)
    live.image(1)
    live._describe(ev.DescribeSequence("sequence_1", "subspace"))
    assert live.world.described == [(2, "subspace")] and live._sequences.images == []
    live.now_s += 6.0
    live._on_tick()
    assert live.ready() == ["sequence_1"] and live.world.errors == []


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
        ({"device": "cuda", "runtime": "onnx"}, "runtime onnx runs on the CPU; set device to cpu, or runtime to torch"),
        ({"descriptor_frames": 201}, "descriptor_frames is 201; it must lie between 2 and 200"),
        (
            {"undistort": True, "rectified": True},
            "undistort and rectified are both true; rectified images have no dist",
        ),
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
    assert live.world.warnings == ["a camera is off", "a camera is off"]
    assert live.world.errors == ["dropped a set"]
    assert levels == ["warn", "warn", "ok", "warn", "warn", "warn"]


def test_a_sensor_that_stops_is_told_where_the_task_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    said: set[str] = set()
    health = SimpleNamespace(problem="/car_a/front/image_raw: no message for 2 s")
    topic: Any = SimpleNamespace(health=lambda: health, has_told=said.__contains__)
    monkeypatch.setattr(live._stream, "problem", lambda: "")
    monkeypatch.setattr(live._stream, "topics", (topic,))
    live._on_tick()
    assert live.world.warnings == ["/car_a/front/image_raw: no message for 2 s"]
    health.problem = "/car_a/front/image_raw: stamps went back by 7 s"
    said.add(health.problem)  # the topic itself writes this into the log
    live._on_tick()
    assert len(live.world.warnings) == 1 and live.world.errors == []
    assert live._problem == health.problem  # what the diagnostics tell


def test_the_role_is_told_of_models_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    store: Any = SimpleNamespace(path=Path)
    live._store = store
    plan = replace(plan_of("depth"), blobs={"global": BlobRef("a" * 64, 1)})
    effect = ev.LoadModel("sequence_1", plan, Choice(("global",)), 0)
    live._load(effect)
    assert live.world.events == [ev.LoadFailed(effect)]


def started(live: Live) -> list[str]:
    return [event.name for event in live.world.events if isinstance(event, ev.SequenceStarted)]


def test_a_jump_of_the_clock_starts_a_new_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    live.image(0)
    live._on_clock_jump(None)
    live.image(1)
    live.image(2)
    assert started(live) == ["sequence_1", "sequence_2"]


def described(mean: float) -> Descriptor:
    tensors: dict[str, Array] = {"mean": np.array([mean], np.float32), "variance": np.ones(1, np.float32)}
    return Descriptor("gaussian", tensors, 2, "e" * 64)


def test_pictures_that_drift_away_end_the_sequence_once_in_so_many_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice was made at a mean of 0; a mean of 2 is a divergence of 4 from it, 1 is one of 1."""
    live = Live(monkeypatch, descriptor_frames=2, drift_frames=4, drift_threshold=3.0)
    live.world.descriptor = described(0.0)
    live.image(0)
    live.image(1)
    live._describe(ev.DescribeSequence("sequence_1", "gaussian"))
    live.world.descriptor = described(1.0)
    for number in range(2, 6):
        live.image(number)
    assert live.world.described[-1] == (2, "gaussian") and live.health()[2]["drift"] == "1"
    live.world.descriptor = described(2.0)
    for number in range(6, 10):
        live.image(number)
    assert started(live) == ["sequence_1"] and live.world.said == ["sequence_1 ends: it drifted by 4"]
    for number in range(10, 30):
        live.image(number)  # the new sequence was not described yet, so nothing is compared
    assert started(live) == ["sequence_1", "sequence_2"] and len(live.world.described) == 3


def test_comparisons_do_not_pile_up_behind_a_slow_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch, descriptor_frames=2, drift_frames=4, drift_threshold=3.0)
    live.world.descriptor = described(0.0)
    live.image(0)
    live._describe(ev.DescribeSequence("sequence_1", "gaussian"))
    live.world.is_behind = True
    for number in range(1, 13):
        live.image(number)
    assert len(live.world.described) == 1
    live.world.is_behind = False
    for number in range(13, 17):
        live.image(number)
    assert len(live.world.described) == 2


def test_a_network_that_cannot_be_made_stays_in_the_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch)
    live.world.problem = "fedbevt keeps 1 tensors on each robot"
    assert live.health()[:2] == ("warn", "fedbevt keeps 1 tensors on each robot")


def test_diagnostics_count_images_and_tell_how_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Live(monkeypatch).health()[2]
    assert values == {
        "received": "7", "predicted": "4", "dropped": "2", "failed": "0", "latency_p50_ms": "10.4",
        "latency_p95_ms": "25.5", "output_age_s": "1.3", "models": "", "round": "0",
    }  # fmt: skip


def test_nothing_is_published_while_inactive_and_the_choice_is_kept_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    live, published = Live(monkeypatch), list[Any]()
    monkeypatch.setattr(live._stream, "publish", lambda taken, prediction: published.append(prediction))
    monkeypatch.setattr(live, "_selections", SimpleNamespace(publish=published.append), raising=False)
    effect: Any = SimpleNamespace(choice=SimpleNamespace(keys=("cluster/1",)), plan=SimpleNamespace(round=3))
    taken: Any = None

    live.active = False
    live._on_served(effect, Selection(run_id="a"), LiveNetwork(None, None))
    live._on_result((taken, "depth"))
    assert published == [] and live.text == "inactive" and live.world.kept == [3]
    live.activate()
    assert published.pop().run_id == "a" and live.text == "serving cluster/1 of round 3"
    live.activate()
    assert published == []
    live._on_served(effect, Selection(run_id="b"), LiveNetwork(None, None))
    live._on_result((taken, "depth"))
    assert [getattr(thing, "run_id", thing) for thing in published] == ["b", "depth"]
    assert live.world.said == ["serving cluster/1 of round 3"]  # once, for all sequences that it serves
