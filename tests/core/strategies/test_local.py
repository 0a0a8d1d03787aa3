import pytest

from fed_core.errors import StrategyError
from fed_core.strategies.local import Local
from tests.core.strategies.harness import Fleet, assert_same, descriptor, initial, robots, train

POSITIONS = {"ana": 0.0, "bob": 2.0}


def test_models_are_never_mixed() -> None:
    run = Fleet(Local(), robots(POSITIONS)).begin().run(3)
    for robot_id in POSITIONS:
        alone = initial()
        for number in (1, 2, 3):
            alone = train(robot_id, alone, number)
        assert_same(run.start_of(robot_id), alone)


def test_an_absent_robot_keeps_its_model_and_a_newcomer_gets_the_initial_one() -> None:
    run = Fleet(Local(), robots(POSITIONS)).begin().run(1)
    kept = run.start_of("bob")
    run.run(1, ["ana"])
    assert_same(run.start_of("bob"), kept)
    run.join(robots({"cho": 1.0})["cho"])
    assert_same(run.start_of("cho"), initial())


def test_a_sequence_is_served_by_the_most_alike_robot() -> None:
    run = Fleet(Local(), robots(POSITIONS)).begin().run(1)
    choice = run.strategy.choose(descriptor(1.9), run.last.models, run.last.serving, "ana")
    assert (choice.keys, choice.clusters, choice.fallback) == (("robot/bob",), (1,), False)
    assert choice.distances == pytest.approx((3.61, 0.01), abs=1e-5)


def test_or_by_the_asking_robot_itself() -> None:
    run = Fleet(Local(choice="own"), robots(POSITIONS)).begin().run(1)
    assert run.strategy.choose(None, run.last.models, run.last.serving, "ana").keys == ("robot/ana",)
    stranger = run.strategy.choose(descriptor(1.9), run.last.models, run.last.serving, "zoe")
    assert stranger.keys == ("robot/bob",)
    with pytest.raises(StrategyError, match="local needs the descriptor of a sequence"):
        run.strategy.choose(None, run.last.models, run.last.serving, "zoe")
