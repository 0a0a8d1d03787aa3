"""The protocol of aggregator and robots on a bad network, with processes that die: no round and no update too many."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fed_core.roles.membership import AggregatorConfig
from fed_core.roles.messages import RobotPhase
from tests.core.roles.fake_fleet import AGGREGATOR, FakeFleet, Weather

ROBOTS = ["ana", "ben", "cleo", "dan"]


def assert_over(fleet: FakeFleet, rounds: int) -> None:
    """Exactly ``rounds`` rounds were closed; the journal itself refuses double and foreign updates."""
    plans = [outcome.plan for outcome in fleet.journal.outcomes]
    assert [plan.finished for plan in plans] == [False] * rounds + [True]
    assert {number for number, _ in fleet.journal.updates} == set(range(1, rounds + 1))


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 4),
    rounds=st.integers(0, 4),
    kind=st.sampled_from([None, "gaussian"]),
    loss=st.floats(0.0, 0.6),
    doubling=st.floats(0.0, 0.5),
    blob_failure=st.floats(0.0, 0.3),
    deaths=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), max_size=12),
)
@example(507, 4, 1, None, 0.0, 0.0, 0.0, [(1, 0), (4, 1), (6, 0), (1, 4), (2, 1), (3, 2), (1, 1), (6, 1), (5, 1)])
@settings(max_examples=80, deadline=None)
def test_every_run_ends_with_each_update_counted_at_most_once(
    seed: int,
    count: int,
    rounds: int,
    kind: str | None,
    loss: float,
    doubling: float,
    blob_failure: float,
    deaths: list[tuple[int, int]],
) -> None:
    robots = ROBOTS[:count]
    config = AggregatorConfig(min_robots=count, round_deadline_s=20.0, liveness_s=5.0)
    fleet = FakeFleet(robots, rounds=rounds, kind=kind, seed=seed, config=config)
    fleet.weather = Weather(loss, doubling, blob_failure, delay_s=6.0)
    for wait_s, victim in deaths:
        fleet.run_for(wait_s)
        fleet.start((AGGREGATOR, *robots)[victim % (count + 1)])
    fleet.weather = Weather()  # the network gets well; nobody dies any more
    fleet.run_for(600.0, until=lambda: fleet.finished)
    assert_over(fleet, rounds)
    fleet.run_for(30.0)
    assert_over(fleet, rounds)
    assert {fleet.role(robot).phase for robot in robots} == {RobotPhase.FINISHED}


def test_a_calm_fleet_trains_each_robot_once_per_round() -> None:
    fleet = FakeFleet(["ana", "ben"], rounds=3, kind="gaussian")
    fleet.run_for(100.0, until=lambda: fleet.finished)
    assert_over(fleet, 3)
    assert sorted(fleet.trainings) == [(robot, number) for robot in ("ana", "ben") for number in (1, 2, 3)]
    assert len(fleet.journal.updates) == 6
    assert not [text for _, text in fleet.logs if text.startswith(("warning", "error"))]


def test_an_aggregator_that_dies_after_counting_does_not_wait_for_that_robot_again() -> None:
    fleet = FakeFleet(["ana", "ben"], rounds=2)
    fleet.run_for(100.0, until=lambda: (1, "ana") in fleet.journal.updates or (1, "ben") in fleet.journal.updates)
    before = list(fleet.trainings)
    fleet.start(AGGREGATOR)
    fleet.run_for(100.0, until=lambda: fleet.finished)
    assert_over(fleet, 2)
    assert len(fleet.journal.updates) == 4
    assert sorted(fleet.trainings) == [("ana", 1), ("ana", 2), ("ben", 1), ("ben", 2)], before


def test_a_robot_that_dies_after_training_sends_its_report_again_instead_of_training() -> None:
    fleet = FakeFleet(["ana", "ben"], rounds=1)
    fleet.weather.blob_failure = 1.0  # nothing is read: the update is not counted
    fleet.run_for(3.0)
    fleet.weather.blob_failure = 0.0
    fleet.run_for(60.0, until=lambda: "ana" in fleet.reports)
    assert (1, "ana") not in fleet.journal.updates
    fleet.start("ana")
    fleet.run_for(60.0, until=lambda: fleet.finished)
    assert_over(fleet, 1)
    assert fleet.trainings.count(("ana", 1)) == 1


def test_an_aggregator_that_lost_its_disk_begins_anew_with_the_same_robots() -> None:
    fleet = FakeFleet(["ana", "ben"], rounds=3)
    fleet.run_for(100.0, until=lambda: len(fleet.journal.outcomes) == 3)
    fleet.journal = type(fleet.journal)()
    fleet.start(AGGREGATOR)
    fleet.run_for(200.0, until=lambda: fleet.finished)
    assert_over(fleet, 3)
    assert all(fleet.journal.updates[1, robot].round == 1 for robot in ("ana", "ben"))


def test_a_dead_robot_does_not_hold_up_the_others_for_ever() -> None:
    config = AggregatorConfig(min_robots=2, round_deadline_s=20.0, liveness_s=5.0)
    fleet = FakeFleet(["ana", "ben"], rounds=3, config=config)
    fleet.run_for(100.0, until=lambda: len(fleet.journal.outcomes) == 1)
    fleet._roles.pop("ben")
    fleet._queue = [entry for entry in fleet._queue if entry[2] != "ben"]
    fleet.run_for(200.0, until=lambda: fleet.finished)
    assert_over(fleet, 3)
    assert {robot for number, robot in fleet.journal.updates if number > 1} == {"ana"}
