"""Whom the aggregator takes into the fleet, whom it refuses, and in what words."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fed_core.errors import Refusal
from fed_core.roles import events as ev
from fed_core.roles.membership import is_run_id
from fed_core.roles.messages import (
    RobotPhase,
    RobotStatus,
    SequenceDescriptor,
)
from tests.core.roles.bench import Bench, registration
from tests.core.roles.fake_fleet import described, report_of

# ---- registration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"robot_id": "2fast"}, Refusal.BAD_NAME, "letters, digits and _, starts with a letter"),
        ({"robot_id": "a/b"}, Refusal.BAD_NAME, "letters, digits"),
        ({"robot_id": "a" * 64}, Refusal.BAD_NAME, "at most 63"),
        ({"robot_id": "ana\n"}, Refusal.BAD_NAME, "letters, digits"),
        ({"robot_id": ""}, Refusal.BAD_NAME, "letters, digits"),
        ({"protocol": 2}, Refusal.WRONG_VERSION, "protocol 2, this aggregator speaks 1"),
        ({"task": "bev"}, Refusal.WRONG_TASK, "task 'bev', this run trains 'depth'"),
        ({"model_digest": "f" * 64}, Refusal.WRONG_MODEL, "model 'toy' (ffffffffffff), this run trains 'toy'"),
        ({"num_samples": 0}, Refusal.NO_SAMPLES, "no training sample"),
    ],
)
def test_refuses_registrations_in_words(changes: dict[str, Any], code: Refusal, words: str) -> None:
    bench = Bench().ready()
    reply = bench.register(**changes)
    assert reply.code is code
    assert words in reply.text
    assert "SaveRobot" not in bench.kinds()
    assert bench.status.robots == ()


def test_asks_for_patience_while_the_initial_model_is_built() -> None:
    bench = Bench()
    reply = bench.register()
    assert (reply.code, reply.text) == (
        Refusal.NOT_READY,
        "the aggregator is still building its initial model; ask again",
    )
    assert bench.status.phase == "starting"
    assert bench.ready().register().code is Refusal.ACCEPTED


def test_accepts_the_same_installation_again_and_tells_run_and_descriptor() -> None:
    bench = Bench(kind="gaussian").ready()
    for _ in range(2):
        reply = bench.register()
        assert (reply.code, reply.run_id, reply.descriptor) == (Refusal.ACCEPTED, "run", "gaussian")
    assert len(bench.status.robots) == 1


def test_refuses_a_second_live_robot_of_the_same_name_and_keeps_the_first() -> None:
    bench = Bench(liveness_s=10.0).ready()
    bench.register()
    bench.now_s = 9.9
    reply = bench.register(instance="thief")
    assert reply.code is Refusal.DUPLICATE_ROBOT
    assert reply.text == "a live robot is already called 'ana'; choose another id"
    assert "SaveRobot" not in bench.kinds()


def test_heartbeats_keep_a_name_and_silence_gives_it_up() -> None:
    bench = Bench(liveness_s=10.0).ready()
    bench.register()
    alive = RobotStatus("ana", "ana-disk", RobotPhase.WAITING)
    bench.feed(replace(alive, instance="thief"), after_s=8.0)  # of somebody else: does not count
    bench.feed(alive)
    assert bench.register(instance="new").code is Refusal.DUPLICATE_ROBOT
    bench.now_s = 8.0 + 10.0
    assert bench.register(instance="new").code is Refusal.ACCEPTED
    assert "silent robot ana" in " ".join(e.text for e in bench.effects if isinstance(e, ev.Log))
    assert bench.one(ev.SaveRobot).registration.instance == "new"


def test_who_takes_a_name_over_does_not_inherit_the_update_that_is_being_read() -> None:
    bench = Bench(liveness_s=10.0)
    plan = bench.training()
    report = report_of(plan, "ana")
    bench.feed(report)
    bench.now_s = 20.0
    bench.register("ana", instance="new")
    assert bench.one(ev.CancelFetch).digest == report.blobs["weights"].digest
    bench.feed(ev.BlobReady(report.blobs["weights"].digest))
    assert "CheckUpdate" not in bench.kinds()
    bench.feed(report)
    bench.assert_refused(Refusal.UNKNOWN_ROBOT, "not registered")


def test_observers_are_welcome_and_nobody_waits_for_them() -> None:
    bench = Bench(min_robots=1)
    watcher = registration("rviz", observer=True, task="", model_digest="", num_samples=0)
    bench.feed(watcher)
    assert bench.one(ev.ReplyRegistration).reply.code is Refusal.ACCEPTED
    bench.ready()
    assert "StartAggregation" not in bench.kinds()
    assert bench.status.robots == ()


# ---- descriptors -----------------------------------------------------------------------------------------------------


def test_the_first_round_waits_for_descriptors_of_one_encoder() -> None:
    bench = Bench(kind="gaussian").ready()
    bench.register("ana")
    bench.register("ben")
    assert bench.status.phase == "describing"
    bench.feed(SequenceDescriptor("ben", "run", described(1.0)))
    assert "StartAggregation" not in bench.kinds()
    bench.feed(SequenceDescriptor("ana", "run", described(1.0, encoder="f" * 64)))
    bench.assert_refused(Refusal.WRONG_ENCODER, "is of encoder 'ffffffffffff', the fleet uses 'enc", robot_id="ana")
    assert bench.status.waiting_for == "descriptors of ana"
    bench.feed(SequenceDescriptor("ana", "run", described(2.0)))
    asked = bench.one(ev.StartAggregation)
    assert (asked.round, asked.alive, asked.joined, asked.reports) == (0, ("ana", "ben"), (), ())
    assert bench.one(ev.SaveRobot).descriptor.tensors["mean"].tolist() == [2.0]


def test_refuses_descriptors_of_another_kind_and_of_strangers() -> None:
    bench = Bench(kind="gaussian").ready()
    bench.register()
    bench.feed(SequenceDescriptor("ana", "run", replace(described(), kind="pacfl")))
    bench.assert_refused(Refusal.WRONG_ENCODER, "is of kind 'pacfl', this run needs 'gaussian'")
    bench.feed(SequenceDescriptor("zoe", "run", described()))
    assert "UNKNOWN_ROBOT" in bench.one(ev.Log).text
    assert bench.feed(SequenceDescriptor("ana", "yesterday", described())) == []  # latched rest of another run


def test_refuses_descriptors_that_cannot_be_compared_and_says_whose() -> None:
    bench = Bench(kind="gaussian").ready()
    bench.register("ana")
    bench.register("ben")
    bench.feed(SequenceDescriptor("ana", "run", replace(described(), num_frames=1)))
    bench.assert_refused(Refusal.WRONG_TENSORS, "descriptor of robot 'ana' comes from 1 frame")
    bench.feed(SequenceDescriptor("ana", "run", described()))
    wider = {"mean": np.zeros(2, np.float32), "variance": np.ones(2, np.float32)}
    bench.feed(SequenceDescriptor("ben", "run", replace(described(), tensors=wider)))
    bench.assert_refused(Refusal.WRONG_TENSORS, "descriptor of robot 'ben': mean is float32", robot_id="ben")
    assert "StartAggregation" not in bench.kinds()


def test_a_descriptor_that_comes_again_changes_nothing() -> None:
    bench = Bench(kind="gaussian").ready()
    bench.register()
    bench.feed(SequenceDescriptor("ana", "run", described(1.0)))
    assert bench.feed(SequenceDescriptor("ana", "run", described(5.0))) == []


@pytest.mark.parametrize(
    ("name", "fits"),
    [("run", True), ("yard 3.2_b", True), ("../up", False), ("..", False), ("a/b", False), ("", False), ("\0", False)],
)
def test_a_run_is_named_as_a_folder_and_nothing_above_it(name: str, fits: bool) -> None:
    assert is_run_id(name) is fits
