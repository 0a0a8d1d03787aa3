"""When rounds close, what the aggregator tells meanwhile, and how it goes on after a restart."""

from dataclasses import replace

import pytest

from fed_core.errors import ConfigError, Refusal
from fed_core.roles import events as ev
from fed_core.roles.membership import AggregatorConfig, Snapshot
from fed_core.roles.messages import (
    FleetPlan,
    RobotPhase,
    RobotStatus,
    SequenceDescriptor,
    UpdateReport,
)
from tests.core.roles.bench import Bench, registration
from tests.core.roles.fake_fleet import RUN, SIGNATURE, blob, described, plan_after, report_of

# ---- rounds ----------------------------------------------------------------------------------------------------------


def test_a_round_closes_when_everybody_reported_and_commits_before_it_tells() -> None:
    bench = Bench()
    plan = bench.training()
    assert plan.participants == ("ana", "ben")
    bench.count(report_of(plan, "ben"))
    assert "StartAggregation" not in bench.kinds()
    assert bench.status.waiting_for == "updates of ana"
    bench.count(report_of(plan, "ana"))
    asked = bench.one(ev.StartAggregation)
    assert (asked.round, [r.robot_id for r in asked.reports]) == (1, ["ana", "ben"])
    assert bench.status.phase == "aggregating"
    second = plan_after(RUN, asked, ["ana", "ben"])
    bench.feed(ev.RoundOutcome(second, blob("m"), {"ana": (0,)}, {}))
    names = [type(effect).__name__ for effect in bench.effects]
    assert names.index("CommitRound") < names.index("PublishPlan")
    assert bench.one(ev.PublishPlan).plan.deadline_s == 60.0
    assert bench.robot("ana").clusters == (0,)
    assert bench.status.round == 2


def test_reports_that_come_while_a_round_is_being_closed_are_refused() -> None:
    bench = Bench(min_updates=1)
    plan = bench.training()
    bench.count(report_of(plan, "ben"))
    bench.feed(ev.Tick(), after_s=60.0)
    assert "StartAggregation" in bench.kinds()
    bench.feed(report_of(plan, "ana"))
    bench.assert_refused(Refusal.WRONG_ROUND, "round 1 is already closed")


def test_a_round_keeps_whose_messages_were_refused_in_it() -> None:
    bench = Bench()
    plan = bench.training()
    for number in (7, 8):
        bench.feed(replace(report_of(plan, "ana"), round=number))
    for robot in ("ana", "ben"):
        bench.count(report_of(plan, robot))
    second = plan_after(RUN, bench.one(ev.StartAggregation), ["ana", "ben"])
    bench.feed(ev.RoundOutcome(second, blob("m"), {}, {"tau": 1.0}))
    told = {"count": 2, "code": "WRONG_ROUND", "text": "update of round 8, the current round is 1"}
    assert bench.one(ev.CommitRound).outcome.log == {"tau": 1.0, "refused": {"ana": told}}

    for robot in ("ana", "ben"):
        bench.count(report_of(second, robot))
    third = plan_after(RUN, bench.one(ev.StartAggregation), ["ana", "ben"])
    bench.feed(ev.RoundOutcome(third, blob("n"), {}, {}))
    assert bench.one(ev.CommitRound).outcome.log == {}  # told once


def test_the_deadline_closes_a_round_only_with_enough_updates_and_cancels_the_rest() -> None:
    bench = Bench(min_updates=1, liveness_s=1000.0)
    plan = bench.training()
    bench.feed(ev.Tick(), after_s=61.0)
    assert "StartAggregation" not in bench.kinds()  # late, but nothing to aggregate
    late = report_of(plan, "ben")
    bench.feed(late)
    bench.count(report_of(plan, "ana"))
    assert [r.robot_id for r in bench.one(ev.StartAggregation).reports] == ["ana"]
    assert bench.one(ev.CancelFetch).digest == late.blobs["weights"].digest
    assert bench.feed(ev.BlobReady(late.blobs["weights"].digest)) == []
    assert bench.feed(ev.UpdateChecked(late, Refusal.ACCEPTED)) == []  # too late for round 1


def test_an_operator_shortens_a_round_while_it_runs() -> None:
    bench = Bench(min_updates=2, liveness_s=1000.0)
    plan = bench.training()
    bench.count(report_of(plan, "ana"))
    bench.feed(ev.LimitsChanged(2, 40.0, 1000.0), after_s=10.0)
    assert bench.one(ev.PublishPlan).plan.deadline_s == 30.0
    assert bench.one(ev.PublishPlan).plan.round == plan.round
    bench.feed(ev.Tick(), after_s=30.0)
    assert "StartAggregation" not in bench.kinds()  # late, but one update is too few
    bench.feed(ev.LimitsChanged(1, 40.0, 1000.0))
    assert [r.robot_id for r in bench.one(ev.StartAggregation).reports] == ["ana"]


def test_limits_changed_before_the_first_round_hold_from_its_start() -> None:
    bench = Bench(min_updates=1)
    bench.feed(ev.LimitsChanged(1, 7.0, 10.0))
    assert "PublishPlan" not in bench.kinds()
    bench.training()
    assert bench.one(ev.PublishPlan).plan.deadline_s == 7.0


def test_no_deadline_waits_for_ever() -> None:
    bench = Bench(round_deadline_s=0.0)
    plan = bench.training()
    assert plan.deadline_s == 0.0
    bench.count(report_of(plan, "ana"))
    bench.feed(ev.Tick(), after_s=1e6)
    assert "StartAggregation" not in bench.kinds()


def test_a_round_can_always_reach_its_least_number_of_updates() -> None:
    words = r"min_updates is 3, more than min_robots \(2\): a round might never close; lower min_updates or raise"
    with pytest.raises(ConfigError, match=words):
        AggregatorConfig(min_robots=2, min_updates=3)


def test_a_late_joiner_takes_part_from_the_next_round() -> None:
    bench = Bench()
    plan = bench.training()
    bench.register("late")
    for robot_id in ("ana", "ben"):
        bench.count(report_of(plan, robot_id))
    asked = bench.one(ev.StartAggregation)
    assert (asked.joined, asked.alive) == (("late",), ("ana", "ben", "late"))
    assert bench.outcome().participants == ("ana", "ben", "late")


def test_warnings_of_the_strategy_reach_a_person() -> None:
    bench = Bench()
    bench.ready()
    bench.register("ana")
    bench.register("ben")
    plan = plan_after(bench.run, bench.one(ev.StartAggregation), ["ana", "ben"])
    bench.feed(ev.RoundOutcome(plan, blob("memory"), {}, {"tau": 0.1, "warnings": ["everyone is alone"]}))
    logs = [(log.level, log.text) for log in bench.effects if isinstance(log, ev.Log)]
    assert logs == [("warning", "everyone is alone"), ("info", "round 1 begins")]


def test_a_late_joiner_without_descriptor_waits_outside() -> None:
    bench = Bench(kind="gaussian").ready()
    for robot_id in ("ana", "ben"):
        bench.register(robot_id)
        bench.feed(SequenceDescriptor(robot_id, "run", described()))
    plan = bench.outcome()
    bench.register("late")
    for robot_id in ("ana", "ben"):
        bench.count(report_of(plan, robot_id))
    asked = bench.one(ev.StartAggregation)
    assert (asked.joined, asked.alive) == ((), ("ana", "ben"))


def test_robots_that_are_away_are_left_out_of_the_next_round_and_named() -> None:
    bench = Bench(liveness_s=10.0)
    plan = bench.training()
    bench.feed(RobotStatus("ana", "ana-disk", RobotPhase.TRAINING), after_s=30.0)
    assert bench.status.waiting_for == "updates of ana, ben (away)"
    bench.count(report_of(plan, "ana"))
    bench.now_s = 62.0
    bench.feed(RobotStatus("ana", "ana-disk", RobotPhase.REPORTED))
    bench.feed(ev.Tick())
    assert bench.one(ev.StartAggregation).alive == ("ana",)


def test_zero_rounds_publish_the_initial_model_as_final() -> None:
    bench = Bench(run=replace(RUN, total_rounds=0))
    plan = bench.training()
    assert plan.finished
    assert bench.role.finished
    assert bench.status.phase == "finished"
    assert bench.status.waiting_for == ""
    bench.feed(report_of(plan, "ana", round=1))
    bench.assert_refused(Refusal.WRONG_ROUND, "update of round 1, the current round is none")


def test_a_finished_run_takes_no_more_updates_but_still_takes_robots() -> None:
    bench = Bench(run=replace(RUN, total_rounds=1))
    plan = bench.training()
    for robot_id in ("ana", "ben"):
        bench.count(report_of(plan, robot_id))
    last = bench.outcome()
    assert last.finished
    assert last.deadline_s == 0.0
    assert bench.register("late").code is Refusal.ACCEPTED
    assert "StartAggregation" not in bench.kinds()


# ---- health ----------------------------------------------------------------------------------------------------------


def waiting_texts(bench: Bench) -> list[str]:
    return [e.text for e in bench.effects if isinstance(e, ev.Log) and e.text.startswith("waiting for")]


def test_tells_what_it_waits_for_and_again_every_ten_seconds() -> None:
    bench = Bench()
    told = [bench.feed(ev.Tick()) and waiting_texts(bench)]
    assert told == [["waiting for the initial model"]]
    bench.ready()
    texts = []
    for _ in range(30):
        bench.feed(ev.Tick(), after_s=1.0)
        texts += waiting_texts(bench)
    assert texts == ["waiting for 2 more robots to register (0 of 2)"] * 3
    bench.register()
    assert bench.status.waiting_for == "1 more robot to register (1 of 2)"


@pytest.mark.parametrize("job", ["initial model", "aggregation"])
def test_a_failed_job_stops_the_run_and_says_why(job: str) -> None:
    bench = Bench()
    plan = bench.training()
    bench.feed(ev.JobFailed(job, "no space left"))
    assert bench.one(ev.Log) == ev.Log("error", f"the run stops: {job}: no space left")
    assert bench.role.failed == f"{job}: no space left"
    assert bench.status.phase == "failed"
    for robot_id in ("ana", "ben"):
        bench.count(report_of(plan, robot_id))
    assert "StartAggregation" not in bench.kinds()


# ---- restart ---------------------------------------------------------------------------------------------------------


def snapshot_of(plan: FleetPlan, *reports: UpdateReport) -> Snapshot:
    members = tuple((registration(robot_id), None) for robot_id in ("ana", "ben"))
    counts = {report.robot_id: (1, report.round) for report in reports}
    return Snapshot(ev.InitialModel(blob("initial"), SIGNATURE), members, plan, {}, reports, counts)


def test_resumes_in_the_round_of_its_journal_and_waits_only_for_the_rest() -> None:
    plan = Bench().training()
    bench = Bench(snapshot=snapshot_of(plan, report_of(plan, "ana")))
    bench.feed(ev.Tick())
    assert bench.one(ev.PublishPlan).plan == replace(plan, deadline_s=60.0)
    assert "run run resumes in round 1" in [e.text for e in bench.effects if isinstance(e, ev.Log)]
    assert bench.status.waiting_for == "updates of ben"
    assert bench.feed(report_of(plan, "ana")) == []  # counted before the restart
    bench.count(report_of(plan, "ben"))
    assert [r.robot_id for r in bench.one(ev.StartAggregation).reports] == ["ana", "ben"]


def test_an_aggregation_that_was_cut_off_is_done_again_at_the_first_tick() -> None:
    plan = Bench().training()
    bench = Bench(snapshot=snapshot_of(plan, report_of(plan, "ana"), report_of(plan, "ben")))
    bench.feed(ev.Tick())
    assert bench.one(ev.StartAggregation).round == 1


def test_a_run_that_was_over_stays_over() -> None:
    plan = replace(Bench().training(), finished=True)
    bench = Bench(snapshot=snapshot_of(plan))
    bench.feed(ev.Tick())
    assert bench.one(ev.PublishPlan).plan.finished
    assert bench.one(ev.Log).text == "run run is over"
    assert bench.status.phase == "finished"
