import pytest

from fed_core.errors import StrategyError
from fed_core.strategies.centralised import Centralised
from fed_core.strategies.fedavg import FedAvg
from tests.core.strategies.harness import Fleet, assert_same, initial, robots, train

REFUSED = (
    "centralised pools the recordings and averages nothing, but 2 robots registered; "
    "run it with one robot whose source lists the recordings under 'parts'"
)


def test_the_one_robot_goes_on_with_its_own_model() -> None:
    run = Fleet(Centralised(), robots({"all": 0.0})).begin()
    assert_same(run.start_of("all"), initial())
    alone = initial()
    for number in (1, 2, 3):
        alone = train("all", alone, number)
    run.run(3)
    assert_same(run.start_of("all"), alone)
    assert_same(run.blobs["global"], alone)
    assert run.strategy.choose(None, run.last.models, run.last.serving).keys == ("global",)


def test_it_is_fedavg_of_one_robot() -> None:
    pooled = Fleet(Centralised(), robots({"all": 0.0})).begin().run(2)
    single = Fleet(FedAvg(), robots({"all": 0.0})).begin().run(2)
    assert_same(pooled.blobs["global"], single.blobs["global"])


def test_more_than_one_robot_is_refused() -> None:
    with pytest.raises(StrategyError) as caught:
        Fleet(Centralised(), robots({"ana": 0.0, "bob": 1.0})).begin()
    assert str(caught.value) == REFUSED
    run = Fleet(Centralised(), robots({"all": 0.0})).begin().run(1)
    with pytest.raises(StrategyError, match="but 2 robots registered"):
        run.join(robots({"late": 1.0})["late"])
    with pytest.raises(StrategyError, match="but 2 robots registered"):
        run.run(1, ["all"])


def test_another_robot_may_take_over() -> None:
    run = Fleet(Centralised(), robots({"all": 0.0})).begin().run(1)
    model = run.blobs["global"]
    del run.robots["all"]
    plan = run.join(robots({"new": 1.0})["new"])
    assert plan.load == ("global",)
    assert_same(run.start_of("new"), model)


def test_no_update_is_an_error() -> None:
    run = Fleet(Centralised(), robots({"all": 0.0})).begin()
    with pytest.raises(StrategyError, match="no update arrived in this round"):
        run.strategy.aggregate([], run.state())
