"""The inference role: one choice per sequence, whatever comes first."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from fed_core.errors import Refusal
from fed_core.roles import events as ev
from fed_core.roles.inference import Inference
from fed_core.roles.messages import FleetPlan
from fed_core.strategies.fedavg import FedAvg
from fed_core.types import Choice, Memory
from tests.core.roles.fake_fleet import RUN, blob, described

SERVING = Memory(values={"shift": 1})


@dataclass(frozen=True)
class Nearest(FedAvg):
    """Chooses the model whose number is the descriptor's mean plus the serving memory's shift."""

    descriptor: ClassVar[str | None] = "gaussian"

    def choose(self, descriptor: Any, models: Any, serving: Memory, robot_id: str = "") -> Choice:
        index = int(descriptor.tensors["mean"][0]) + int(str(serving.values["shift"]))
        return Choice((models[index],), (index,))


def plan(number: int = 1, *, serving: bool = True) -> FleetPlan:
    keys = ("cluster/0", "cluster/1", "cluster/2")
    blobs = {key: blob(key, number) for key in keys}
    return FleetPlan("run", RUN, number, False, {}, (), blobs, keys, blob("serving") if serving else None)


class Bench:
    """Answers the effects as a node does: blobs come at once, the serving memory is read at once."""

    def __init__(self, strategy: Any = Nearest, robot_id: str = "") -> None:
        self.role = Inference(lambda name, options: strategy(), robot_id)
        self.loads: list[ev.LoadModel] = []
        self.described: list[str] = []
        self.fetched: list[str] = []
        self.logs: list[ev.Log] = []
        self.broken: set[str] = set()
        self.now_s = 0.0

    def feed(self, event: ev.Event, after_s: float = 0.0) -> None:
        self.now_s += after_s
        for effect in self.role.handle(event, self.now_s):
            if isinstance(effect, ev.LoadModel):
                self.loads.append(effect)
            elif isinstance(effect, ev.DescribeSequence):
                self.described.append(effect.name)
            elif isinstance(effect, ev.LoadServing):
                self.feed(ev.ServingLoaded(SERVING))
            elif isinstance(effect, ev.Log):
                self.logs.append(effect)
            elif isinstance(effect, ev.FetchBlob):
                digest = effect.blob.digest
                self.fetched.append(digest)
                failed = ev.BlobFailed(digest, Refusal.BROKEN_BLOB, "cut off")
                self.feed(failed if digest in self.broken else ev.BlobReady(digest))


STEPS = (ev.SequenceStarted("a"), ev.FramesReady("a"), ev.SequenceDescribed("a", described(1.0)))


@pytest.mark.parametrize("place", range(4))
def test_the_plan_may_come_at_any_moment(place: int) -> None:
    bench = Bench()
    for event in (*STEPS[:place], plan(), *STEPS[place:]):
        bench.feed(event)
    (load,) = bench.loads
    assert (load.sequence, load.choice.keys, load.plan.round) == ("a", ("cluster/2",), 1)
    assert load.num_frames == 10


def test_the_serving_memory_may_come_last() -> None:
    role = Inference(lambda name, options: Nearest())
    for event in STEPS[:2]:
        role.handle(event, 0.0)
    assert role.handle(plan(), 0.0) == [ev.FetchBlob(blob("serving"), "")]
    assert role.handle(STEPS[2], 0.0) == []
    assert role.handle(ev.BlobReady(blob("serving").digest), 0.0) == [ev.LoadServing(blob("serving"))]
    assert role.handle(ev.ServingLoaded(SERVING), 0.0) == [ev.FetchBlob(blob("cluster/2", 1), "")]


def test_a_sequence_is_described_once_and_chosen_once() -> None:
    bench = Bench()
    bench.feed(plan())
    for event in (*STEPS, ev.FramesReady("a"), STEPS[2], ev.Tick(), plan()):
        bench.feed(event)
    assert bench.described == ["a"]
    assert len(bench.loads) == 1


def test_a_new_round_renews_the_weights_of_the_running_sequence() -> None:
    bench = Bench()
    bench.feed(plan(1))
    for event in STEPS:
        bench.feed(event)
    bench.feed(plan(2))
    assert [load.plan.round for load in bench.loads] == [1, 2]
    assert bench.described == ["a"]
    same = replace(plan(3), blobs=plan(2).blobs)
    bench.feed(same)
    assert len(bench.loads) == 2  # another round, the same weights: nothing to load


def test_a_new_sequence_is_described_anew_and_answers_of_the_old_one_are_dropped() -> None:
    bench = Bench()
    bench.feed(plan())
    bench.feed(ev.SequenceStarted("a"))
    bench.feed(ev.FramesReady("a"))
    bench.feed(ev.SequenceStarted("b"))
    bench.feed(ev.SequenceDescribed("a", described(0.0)))
    bench.feed(ev.FramesReady("a"))
    assert bench.loads == []
    bench.feed(ev.FramesReady("b"))
    bench.feed(ev.SequenceDescribed("b", described(-1.0)))
    assert [(load.sequence, load.choice.keys) for load in bench.loads] == [("b", ("cluster/0",))]
    assert bench.described == ["a", "b"]


@dataclass(frozen=True)
class Own(FedAvg):
    """Chooses the model that is named after the asking robot."""

    def choose(self, descriptor: Any, models: Any, serving: Memory, robot_id: str = "") -> Choice:
        return Choice((f"cluster/{robot_id or 0}",))


@pytest.mark.parametrize(("robot_id", "key"), [("2", "cluster/2"), ("", "cluster/0")])
def test_the_strategy_is_told_which_robot_asks(robot_id: str, key: str) -> None:
    bench = Bench(Own, robot_id)
    bench.feed(plan())
    bench.feed(ev.SequenceStarted("one"))
    assert [load.choice.keys for load in bench.loads] == [(key,)]


def test_a_strategy_without_descriptor_serves_from_the_first_frame() -> None:
    bench = Bench(FedAvg)
    bench.feed(plan(serving=False))
    assert bench.loads == []
    bench.feed(ev.SequenceStarted("a"))
    (load,) = bench.loads
    assert (load.choice.keys, load.num_frames) == (("cluster/0",), 0)
    assert bench.described == []
    bench.feed(ev.SequenceStarted("b"))
    assert [entry.sequence for entry in bench.loads] == ["a", "b"]


def test_a_model_that_cannot_be_read_is_told_and_fetched_again() -> None:
    bench = Bench()
    bench.broken = {blob("cluster/2", 1).digest}
    bench.feed(plan())
    for event in STEPS:
        bench.feed(event)
    assert bench.loads == []
    assert bench.logs == [ev.Log("error", "cannot read a model of sequence 'a': cut off")]
    bench.broken = set()
    bench.feed(ev.Tick(), after_s=2.9)
    assert bench.loads == []
    bench.feed(ev.Tick(), after_s=0.2)
    assert [load.choice.keys for load in bench.loads] == [("cluster/2",)]
    before = len(bench.fetched)
    bench.feed(ev.Tick(), after_s=10.0)
    assert len(bench.fetched) == before


def test_a_serving_memory_that_cannot_be_read_is_fetched_again() -> None:
    bench = Bench()
    bench.broken = {blob("serving").digest}
    for event in (*STEPS, plan()):
        bench.feed(event)
    assert len(bench.logs) == 1
    bench.broken = set()
    bench.feed(ev.Tick(), after_s=3.0)
    bench.feed(STEPS[2])
    assert len(bench.loads) == 1


def test_a_failure_of_a_blob_that_nobody_wants_any_more_is_no_error() -> None:
    bench = Bench()
    bench.feed(plan())
    bench.feed(ev.BlobFailed(blob("old").digest, Refusal.BROKEN_BLOB, "gone"))
    assert bench.logs == []


def test_a_load_that_failed_is_tried_again_after_a_while() -> None:
    bench = Bench()
    bench.feed(plan())
    for event in STEPS:
        bench.feed(event)
    (first,) = bench.loads
    bench.feed(ev.LoadFailed(first), after_s=5.0)
    bench.feed(ev.Tick(), after_s=2.9)
    assert bench.loads == [first]
    bench.feed(ev.Tick(), after_s=0.2)
    assert bench.loads == [first, first]
    bench.feed(ev.Tick(), after_s=10.0)
    assert bench.loads == [first, first], "the second one did not fail"


def test_models_that_were_deleted_meanwhile_are_fetched_again() -> None:
    bench = Bench()
    bench.feed(plan())
    for event in STEPS:
        bench.feed(event)
    before = len(bench.fetched)
    bench.feed(ev.LoadFailed(bench.loads[0]))
    bench.feed(ev.Tick(), after_s=3.0)
    assert bench.fetched[before:] == [blob("cluster/2", 1).digest]


def test_a_failed_load_of_an_older_choice_changes_nothing() -> None:
    bench = Bench()
    bench.feed(plan(1))
    for event in STEPS:
        bench.feed(event)
    bench.feed(plan(2))
    bench.feed(ev.LoadFailed(bench.loads[0]))
    bench.feed(ev.Tick(), after_s=10.0)
    assert [load.plan.round for load in bench.loads] == [1, 2]


def test_a_load_that_fails_while_the_next_choice_is_made_is_left_to_that() -> None:
    bench = Bench()
    bench.feed(plan())
    for event in STEPS:
        bench.feed(event)
    bench.feed(ev.SequenceStarted("b"))
    bench.feed(ev.LoadFailed(bench.loads[0]))
    bench.feed(ev.Tick(), after_s=10.0)
    assert len(bench.loads) == 1
    bench.feed(ev.FramesReady("b"))
    bench.feed(ev.SequenceDescribed("b", described(0.0)))
    assert [load.sequence for load in bench.loads] == ["a", "b"]
