"""A robot whose updates are refused again and again is set aside, says why, stays so over a restart, and comes back."""

from dataclasses import replace

import pytest

from fed_core.errors import Refusal
from fed_core.roles import events as ev
from fed_core.roles.membership import Snapshot
from fed_core.roles.messages import FleetPlan
from fed_core.roles.quarantine import OFFENCES, Quarantine
from tests.core.roles.bench import Bench, registration
from tests.core.roles.fake_fleet import blob, report_of


def send_bad(bench: Bench, plan: FleetPlan, robot_id: str, turn: int, code: Refusal = Refusal.NOT_FINITE) -> None:
    """An update arrives whole, and its tensors are refused."""
    report = report_of(plan, robot_id)
    report = replace(report, blobs={"weights": blob(f"{robot_id}-{turn}")})
    bench.feed(report)
    bench.feed(ev.BlobReady(report.blobs["weights"].digest))
    bench.feed(ev.UpdateChecked(report, code, f"tensor 'w' is not finite ({turn})"))


WHY = "set aside: 3 updates in a row were refused, the last one because: tensor 'w' is not finite (3)"


def set_aside(**options: int) -> tuple[Bench, FleetPlan]:
    bench = Bench(quarantine_after=3, **options)
    plan = bench.training()
    for turn in (1, 2, 3):
        send_bad(bench, plan, "ana", turn)
    return bench, plan


def test_the_third_refused_update_sets_aside_is_kept_and_told() -> None:
    bench = Bench(quarantine_after=3)
    plan = bench.training()
    for turn in (1, 2):
        send_bad(bench, plan, "ana", turn)
        assert bench.robot("ana").quarantine == ""
    send_bad(bench, plan, "ana", 3)
    assert bench.one(ev.SaveQuarantine) == ev.SaveQuarantine("ana", WHY)
    assert [log.text for log in bench.effects if isinstance(log, ev.Log) and log.level == "error"] == [
        f"robot 'ana' is {WHY}"
    ]
    assert bench.robot("ana").quarantine == WHY
    assert bench.robot("ben").quarantine == ""


def test_the_round_goes_on_without_it_and_the_next_one_does_not_ask_it() -> None:
    bench, plan = set_aside(min_updates=1)
    assert bench.status.waiting_for == "updates of ben"
    bench.count(report_of(plan, "ben"))
    asked = bench.one(ev.StartAggregation)
    assert [report.robot_id for report in asked.reports] == ["ben"]
    assert asked.alive == ("ben",)


def test_a_round_that_waited_only_for_it_closes_at_once() -> None:
    bench = Bench(quarantine_after=1, min_updates=1)
    plan = bench.training()
    bench.count(report_of(plan, "ben"))
    assert "StartAggregation" not in bench.kinds()
    send_bad(bench, plan, "ana", 1)
    assert [report.robot_id for report in bench.one(ev.StartAggregation).reports] == ["ben"]


def test_too_few_good_robots_are_told_and_the_round_stays_open() -> None:
    bench, plan = set_aside(min_updates=2)
    bench.count(report_of(plan, "ben"))
    assert "StartAggregation" not in bench.kinds()
    told = "updates, 1 of at least 2; the others sit out"
    assert bench.status.waiting_for == told
    bench.feed(ev.Readmit("ana"))
    assert bench.status.waiting_for == told
    bench.count(report_of(plan, "ana"))  # it is a participant of this round still
    assert [report.robot_id for report in bench.one(ev.StartAggregation).reports] == ["ana", "ben"]


def test_a_round_does_not_wait_for_a_robot_that_was_taken_back_in_it_and_the_next_one_does() -> None:
    bench, plan = set_aside(min_updates=1)
    bench.feed(ev.Readmit("ana"))
    bench.count(report_of(plan, "ben"))
    assert bench.one(ev.StartAggregation).alive == ("ana", "ben")
    bench.outcome()
    assert bench.status.waiting_for == "updates of ana, ben"


def test_its_updates_and_its_registration_are_refused_by_number() -> None:
    bench, plan = set_aside()
    bench.feed(replace(report_of(plan, "ana"), blobs={"weights": blob("good")}))
    assert (bench.robot("ana").last_code, bench.robot("ana").last_text) == (Refusal.QUARANTINED, WHY)
    reply = bench.register("ana")
    assert (reply.code, reply.text) == (Refusal.QUARANTINED, WHY)
    assert bench.register("ana", instance="another-disk").code is Refusal.QUARANTINED
    assert bench.register("carl").code is Refusal.ACCEPTED


def test_a_good_update_lets_the_count_begin_again() -> None:
    bench = Bench(quarantine_after=2)
    plan = bench.training()
    send_bad(bench, plan, "ana", 1)
    bench.count(report_of(plan, "ana"))
    bench.count(report_of(plan, "ben"))
    plan = bench.outcome()
    send_bad(bench, plan, "ana", 2)
    assert bench.robot("ana").quarantine == ""


@pytest.mark.parametrize("code", sorted(set(Refusal) - OFFENCES - {Refusal.ACCEPTED}))
def test_what_is_the_networks_fault_never_counts(code: Refusal) -> None:
    quarantine = Quarantine(1, {})
    assert quarantine.refused("ana", code, "late") == ""
    assert "ana" not in quarantine


@pytest.mark.parametrize(("lost", "why"), [(True, ""), (False, "set aside: an update was refused, ")])
def test_an_update_that_does_not_come_through_never_counts_and_one_of_wrong_bytes_does(lost: bool, why: str) -> None:
    """So neither a bad link nor a full disk of the aggregator sets a fleet aside."""
    bench = Bench(quarantine_after=1)
    report = report_of(bench.training(), "ana")
    bench.feed(report)
    bench.feed(ev.BlobFailed(report.blobs["weights"].digest, Refusal.BROKEN_BLOB, "no chunk came", lost))
    assert bench.robot("ana").quarantine.startswith(why) and bool(bench.robot("ana").quarantine) is not lost
    assert (bench.robot("ana").refused, bench.robot("ana").last_code) == (1, Refusal.BROKEN_BLOB)


@pytest.mark.parametrize("code", sorted(OFFENCES))
def test_what_is_wrong_in_itself_counts(code: Refusal) -> None:
    quarantine = Quarantine(1, {})
    assert quarantine.refused("ana", code, "bad") == "set aside: an update was refused, the last one because: bad"


def test_never_is_possible() -> None:
    quarantine = Quarantine(0, {})
    assert [quarantine.refused("ana", Refusal.NOT_FINITE, "bad") for _ in range(50)] == [""] * 50


def test_readmitted_it_registers_and_trains_again() -> None:
    bench, plan = set_aside(min_updates=1)
    bench.feed(ev.Readmit("ana"))
    assert bench.one(ev.SaveQuarantine) == ev.SaveQuarantine("ana", "")
    assert (bench.robot("ana").quarantine, bench.robot("ana").last_code) == ("", Refusal.ACCEPTED)
    assert bench.register("ana").code is Refusal.ACCEPTED
    bench.count(report_of(plan, "ana"))
    bench.count(report_of(plan, "ben"))
    assert bench.one(ev.StartAggregation).alive == ("ana", "ben")
    assert bench.feed(ev.Readmit("ana")) == []  # nothing to do


def test_it_stays_set_aside_over_a_restart() -> None:
    bench, plan = set_aside()
    members = tuple((registration(name), None) for name in ("ana", "ben"))
    saved = Snapshot(initial=ev.InitialModel(blob("initial"), bench.role._model), members=members, plan=plan)  # type: ignore[arg-type]
    again = Bench(snapshot=replace(saved, quarantine={"ana": WHY}), min_updates=1)
    assert again.robot("ana").quarantine == WHY
    assert again.register("ana").code is Refusal.QUARANTINED
    again.count(report_of(plan, "ben"))
    assert [report.robot_id for report in again.one(ev.StartAggregation).reports] == ["ben"]
