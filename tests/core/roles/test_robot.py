"""The robot's phases, and what it does when the aggregator, the network or it itself was away."""

from dataclasses import replace
from typing import Any

import pytest

from fed_core.errors import Refusal
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, FleetStatus, RegistrationReply, RobotPhase, RobotState, UpdateReport
from fed_core.roles.robot import Robot, RobotConfig
from tests.core.roles.fake_fleet import RUN, SIGNATURE, blob, described, plan_after, report_of

WELCOME = RegistrationReply(Refusal.ACCEPTED, "welcome", "run", "")


def plan(number: int = 1, *, run_id: str = "run", participants: tuple[str, ...] = ("ana",)) -> FleetPlan:
    asked = ev.StartAggregation(number - 1, (), (), participants)
    return plan_after(RUN, asked, ["ana", "ben"], run_id)


def status(run_id: str = "run", robots: tuple[str, ...] = ("ana",), **changes: Any) -> FleetStatus:
    known = RobotState("ana", True, True, False, (), 0, 0, Refusal.ACCEPTED, "")
    states = tuple(replace(known, robot_id=robot_id, **changes) for robot_id in robots)
    return FleetStatus(run_id, "training", 1, 3, "fedavg", 1, states, "")


class Bench:
    def __init__(self, last_report: UpdateReport | None = None) -> None:
        config = RobotConfig(robot_id="ana", retry_s=3.0)
        self.role = Robot(config, "ana-disk", architecture="toy", blob_service="/ana/b", last_report=last_report)
        self.now_s = 0.0
        self.effects: list[Any] = []

    def feed(self, event: ev.Event, after_s: float = 0.0) -> list[str]:
        """Return the names of the effects, heartbeats left out."""
        self.now_s += after_s
        self.effects = self.role.handle(event, self.now_s)
        return [type(e).__name__ for e in self.effects if not isinstance(e, ev.PublishStatus)]

    def one(self, kind: type[Any]) -> Any:
        (found,) = [effect for effect in self.effects if isinstance(effect, kind)]
        return found

    @property
    def text(self) -> str:
        self.feed(ev.Tick())
        return self.one(ev.PublishStatus).status.text

    def registered(self) -> "Bench":
        self.feed(ev.Tick())
        self.feed(ev.SamplesReady(10, SIGNATURE.digest))
        self.feed(WELCOME)
        return self

    def training(self, number: int = 1) -> "Bench":
        self.registered()
        self.feed(plan(number))
        self.feed(ev.BlobReady(blob("global", number - 1).digest))
        assert self.role.phase is RobotPhase.TRAINING
        return self


def test_goes_through_its_phases_in_order() -> None:
    bench, phases = Bench(), [RobotPhase.STARTING]
    trained = ev.Trained(report_of(plan(), "ana"))
    for event, expected in (
        (ev.Tick(), ["CountSamples"]),
        (ev.Tick(), []),  # counting goes on
        (ev.SamplesReady(10, SIGNATURE.digest), ["Register"]),
        (replace(WELCOME, descriptor="gaussian"), ["Describe"]),
        (ev.Described(described()), ["PublishDescriptor"]),
        (plan(), ["FetchBlob"]),
        (ev.BlobReady(blob("global", 0).digest), ["StartTraining"]),
        (ev.Progress(0.5, 0.1, 7.0), []),
        (trained, ["SaveReport", "PublishReport"]),
        (replace(plan(), finished=True), ["Log"]),
    ):
        assert bench.feed(event) == expected, event
        phases.append(bench.role.phase)
    assert [phase.name for phase in dict.fromkeys(phases)] == [
        "STARTING", "REGISTERING", "DESCRIBING", "WAITING", "FETCHING", "TRAINING", "REPORTED", "FINISHED"
    ]  # fmt: skip


def test_tells_who_it_is_and_how_far_it_is() -> None:
    bench = Bench()
    bench.feed(ev.Tick())
    bench.feed(ev.SamplesReady(10, SIGNATURE.digest))
    sent = bench.one(ev.Register).registration
    assert (sent.robot_id, sent.instance, sent.num_samples) == ("ana", "ana-disk", 10)
    assert (sent.model_digest, sent.blob_service, sent.observer) == (SIGNATURE.digest, "/ana/b", False)
    bench = Bench().training()
    bench.feed(ev.Progress(0.5, 0.25, 7.0))
    told = bench.one(ev.PublishStatus).status
    assert (told.phase, told.round, told.progress, told.loss, told.samples_per_s) == (
        RobotPhase.TRAINING, 1, 0.5, 0.25, 7.0
    )  # fmt: skip


def test_a_plan_that_came_before_the_registration_is_followed_after_it() -> None:
    bench = Bench()
    assert bench.feed(plan()) == []
    bench.registered()
    assert bench.role.phase is RobotPhase.FETCHING


def test_asks_again_until_it_is_answered() -> None:
    bench = Bench()
    bench.feed(ev.Tick())
    bench.feed(ev.SamplesReady(10, SIGNATURE.digest))
    asked = [bench.feed(ev.Tick(), after_s=1.0) for _ in range(7)]
    assert asked == [[], [], ["Register"], [], [], ["Register"], []]


@pytest.mark.parametrize("code", [Refusal.NOT_READY, Refusal.DUPLICATE_ROBOT])
def test_keeps_asking_after_a_refusal_that_may_pass(code: Refusal) -> None:
    bench = Bench()
    bench.feed(ev.Tick())
    bench.feed(ev.SamplesReady(10, SIGNATURE.digest))
    bench.feed(RegistrationReply(code, "later"))
    assert bench.role.phase is RobotPhase.REGISTERING
    assert bench.text == f"refused ({code.name}): later"
    assert bench.feed(ev.Tick(), after_s=3.0) == ["Register"]
    bench.feed(WELCOME)
    assert (bench.role.phase, bench.text) == (RobotPhase.WAITING, "")


NOPE = RegistrationReply(Refusal.WRONG_TASK, "task 'depth', this run trains 'nope'", "stray")


def refused() -> Bench:
    bench = Bench()
    bench.feed(ev.Tick())
    bench.feed(ev.SamplesReady(10, SIGNATURE.digest))
    assert bench.feed(NOPE) == ["Log"]
    assert bench.one(ev.Log) == ev.Log("error", "refused (WRONG_TASK): task 'depth', this run trains 'nope'")
    assert bench.role.phase is RobotPhase.FAILED
    return bench


def test_a_refused_robot_shows_why_and_asks_again_slowly() -> None:
    bench = refused()
    assert [bench.feed(ev.Tick(), after_s=2.5) for _ in range(5)] == [[], [], [], ["Register"], []]
    assert bench.feed(NOPE) == []  # told already
    assert (bench.role.phase, bench.text) == (
        RobotPhase.FAILED,
        "refused (WRONG_TASK): task 'depth', this run trains 'nope'",
    )
    assert bench.feed(plan()) == []
    bench.feed(WELCOME)  # the stray aggregator is gone, the right one answers
    assert (bench.role.phase, bench.text) == (RobotPhase.FETCHING, "")
    assert bench.feed(ev.Tick(), after_s=10.0) == []


def test_a_refused_robot_asks_at_once_when_another_run_shows_up() -> None:
    bench = refused()
    assert bench.feed(status("stray", robots=()), after_s=4.0) == []
    assert bench.feed(status(), after_s=1.0) == ["Register"]
    assert bench.feed(status(), after_s=1.0) == []
    assert bench.feed(WELCOME) == []
    assert bench.role.phase is RobotPhase.WAITING


def test_what_a_stray_aggregator_says_changes_nothing_while_the_own_run_is_heard() -> None:
    bench = Bench().training()
    for _ in range(20):
        assert bench.feed(status(), after_s=1.0) == []
        assert bench.feed(status("stray", robots=())) == []
        assert bench.feed(plan(9, run_id="stray")) == []
        assert bench.feed(NOPE) == bench.feed(replace(WELCOME, run_id="stray")) == []
    bench.feed(ev.Trained(report_of(plan(), "ana")))
    assert bench.role.phase is RobotPhase.REPORTED
    assert bench.feed(plan(2)) == ["FetchBlob"]


@pytest.mark.parametrize("finished", [False, True])
def test_a_robot_of_a_silent_run_asks_another_one_and_ignores_its_refusal(finished: bool) -> None:
    bench = Bench().registered()
    bench.feed(replace(plan(), finished=finished))
    phase = bench.role.phase
    assert bench.feed(status("stray", robots=()), after_s=6.0) == ["Register"]
    assert bench.feed(NOPE) == []
    assert (bench.role.phase, bench.text) == (phase, "")
    asked = [bench.feed(status("stray", robots=()), after_s=1.0) for _ in range(11)]
    assert asked == [*([[]] * 9), ["Register"], []]


def test_a_run_that_is_over_does_not_draw_back_a_robot_that_finished_another() -> None:
    bench = Bench().registered()
    bench.feed(replace(plan(), finished=True))
    assert bench.feed(replace(status("old", robots=()), phase="finished"), after_s=4.0) == []
    assert bench.feed(status("new", robots=()), after_s=0.5) == ["Register"]


def test_a_refused_robot_that_fails_otherwise_asks_no_more() -> None:
    bench = refused()
    bench.feed(ev.JobFailed("describe", "no encoder"))
    assert bench.feed(ev.Tick(), after_s=100.0) == []


def test_fails_without_samples_and_with_a_failed_job() -> None:
    bench = Bench()
    bench.feed(ev.Tick())
    bench.feed(ev.SamplesReady(0, SIGNATURE.digest))
    assert (bench.role.phase, bench.text) == (RobotPhase.FAILED, "no usable training sample")
    bench = Bench().training()
    bench.feed(ev.JobFailed("round 1", "the loss is not finite"))
    assert (bench.role.phase, bench.text) == (RobotPhase.FAILED, "round 1: the loss is not finite")


def test_the_same_plan_twice_is_harmless_in_every_phase() -> None:
    bench = Bench().registered()
    bench.feed(plan())
    assert bench.feed(plan()) == []  # while fetching
    bench.feed(ev.BlobReady(blob("global", 0).digest))
    assert bench.feed(plan()) == []  # while training
    assert bench.role.phase is RobotPhase.TRAINING
    bench.feed(ev.Trained(report_of(plan(), "ana")))
    assert bench.feed(plan()) == ["PublishReport"]  # once reported, it only tells it again
    assert bench.role.phase is RobotPhase.REPORTED


def test_a_newer_plan_stops_training_and_cancels_fetches_it_does_not_need() -> None:
    bench = Bench().training()
    assert bench.feed(plan(2)) == ["StopTraining", "FetchBlob"]
    assert bench.feed(plan(3)) == ["CancelFetch", "FetchBlob"]
    assert bench.one(ev.CancelFetch).digest == blob("global", 1).digest
    assert bench.feed(ev.Trained(report_of(plan(1), "ana"))) == []  # the stopped round ended all the same
    assert bench.feed(ev.BlobReady(blob("global", 1).digest)) == []
    same_model = replace(plan(3), round=4, blobs={"global": blob("global", 2)})
    assert bench.feed(same_model) == ["FetchBlob"]  # what both plans need goes on
    assert bench.feed(replace(same_model, finished=True)) == ["CancelFetch", "Log"]


def test_an_old_plan_that_was_long_on_its_way_is_ignored() -> None:
    bench = Bench().training(2)
    assert bench.feed(plan(1)) == []
    assert bench.role.phase is RobotPhase.TRAINING


def test_waits_when_it_is_no_participant() -> None:
    bench = Bench().training()
    assert bench.feed(plan(2, participants=("ben",))) == ["StopTraining"]
    assert bench.role.phase is RobotPhase.WAITING
    assert bench.feed(plan(3)) == ["FetchBlob"]


def test_a_report_of_the_same_round_is_sent_again_after_a_restart_instead_of_training() -> None:
    report = report_of(plan(), "ana")
    bench = Bench(last_report=report).registered()
    assert bench.feed(plan()) == ["PublishReport"]
    assert bench.one(ev.PublishReport).report is report
    assert bench.feed(plan(2)) == ["FetchBlob"]


@pytest.mark.parametrize(
    "changes", [{"round": 2}, {"run_id": "other"}, {"config_digest": "0" * 64}, {"instance": "old"}]
)
def test_a_report_of_anything_else_is_not_sent(changes: dict[str, Any]) -> None:
    bench = Bench(last_report=report_of(plan(), "ana", **changes)).registered()
    assert bench.feed(plan()) == ["FetchBlob"]


@pytest.mark.parametrize("told", [status(robots=("ben",)), status(robots=())])
def test_registers_again_when_the_aggregator_does_not_know_it(told: FleetStatus) -> None:
    bench = Bench().training()
    assert bench.feed(status()) == []
    assert bench.feed(told) == ["StopTraining", "Register"]
    assert bench.role.phase is RobotPhase.REGISTERING
    assert bench.feed(told) == []  # asked already
    assert bench.feed(NOPE) == []  # of another run
    assert bench.role.phase is RobotPhase.REGISTERING
    bench.feed(WELCOME)
    assert bench.role.phase is RobotPhase.FETCHING


def test_joins_the_run_that_takes_the_place_of_its_own() -> None:
    bench = Bench().training()
    assert bench.feed(status("new", robots=()), after_s=6.0) == ["Register"]
    assert bench.role.phase is RobotPhase.TRAINING  # until it is taken
    assert bench.feed(plan(1, run_id="new")) == []
    assert bench.feed(replace(WELCOME, run_id="new")) == ["StopTraining", "FetchBlob"]
    assert bench.one(ev.FetchBlob).blob == plan(1, run_id="new").blobs["global"]
    assert bench.feed(status(), after_s=1.0) == []  # the old one is back: another run


def test_a_descriptor_is_computed_once_and_told_to_every_run() -> None:
    bench = Bench()
    bench.feed(ev.Tick())
    bench.feed(ev.SamplesReady(10, SIGNATURE.digest))
    bench.feed(replace(WELCOME, descriptor="gaussian"))
    bench.feed(ev.Described(described(4.0)))
    bench.feed(status(run_id="new"), after_s=6.0)
    assert bench.feed(replace(WELCOME, run_id="new", descriptor="gaussian")) == ["PublishDescriptor"]
    assert bench.one(ev.PublishDescriptor).message.run_id == "new"


def test_a_model_that_cannot_be_read_is_fetched_again_after_a_while() -> None:
    bench = Bench().registered()
    two = replace(plan(), blobs={"global": blob(1), "control": blob(2)})
    two = replace(two, robots={"ana": replace(two.robots["ana"], extras=("control",))})
    bench.feed(two)
    assert bench.feed(ev.BlobFailed(blob(1).digest, Refusal.BROKEN_BLOB, "no space")) == ["CancelFetch", "Log"]
    assert bench.role.phase is RobotPhase.WAITING
    words = "cannot read the model of round 1: no space; trying again in 3 s"
    assert bench.role.handle(ev.BlobFailed(blob(1).digest, Refusal.BROKEN_BLOB, "again"), 0.0) == []
    assert bench.text == words.partition(";")[0]
    assert [bench.feed(ev.Tick(), after_s=1.0) for _ in range(3)] == [[], [], ["FetchBlob", "FetchBlob"]]
    assert bench.feed(ev.Tick(), after_s=10.0) == []
    bench.feed(ev.BlobReady(blob(2).digest))
    assert bench.feed(ev.BlobReady(blob(1).digest)) == ["StartTraining"]
    assert bench.text == ""


def test_an_update_that_did_not_come_through_is_offered_again_three_times() -> None:
    bench = Bench().training()
    bench.feed(ev.Trained(report_of(plan(), "ana")))
    broken = {"last_code": Refusal.BROKEN_BLOB, "last_text": "cut off"}
    told = [bench.feed(status(refused=count, **broken)) for count in (1, 1, 2, 3, 4)]
    assert told == [["Log", "PublishReport"], [], ["Log", "PublishReport"], ["Log", "PublishReport"], ["Log"]]


def test_a_refused_update_is_told_but_not_offered_again() -> None:
    bench = Bench().training()
    bench.feed(ev.Trained(report_of(plan(), "ana")))
    refused = status(refused=2, last_code=Refusal.NOT_FINITE, last_text="tensor 'w' holds nan")
    assert bench.feed(refused) == ["Log"]
    assert bench.text == "refused (NOT_FINITE): tensor 'w' holds nan"
    assert bench.feed(status(refused=0)) == []  # the aggregator restarted and counts from 0
    assert bench.feed(status(refused=1, last_code=Refusal.NOT_FINITE)) == ["Log"]


def test_tells_how_many_samples_the_last_round_had() -> None:
    bench = Bench().training()
    bench.feed(ev.Trained(replace(report_of(plan(), "ana"), num_samples=17)))
    assert bench.one(ev.PublishStatus).status.num_samples == 17
