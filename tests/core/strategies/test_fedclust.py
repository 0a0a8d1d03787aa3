"""FedClust: clusters by last layers, warm-up thrown away, newcomers (fedepth spec 9)."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fed_core.errors import StrategyError, TrainingError
from fed_core.strategies.base import LocalState, RobotInfo, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedclust import FedClust
from fed_core.strategies.grouping import Grouping
from fed_core.types import Memory
from tests.core.strategies.harness import Fleet, Weights, assert_same, descriptor, initial, robots, train

#: Where training pulls the last layer of a robot; the images (positions) tell another story.
TARGETS = {"ana": 0.0, "bob": 1.0, "cho": 10.0, "dag": 11.0, "eva": 10.5, "fay": 9.0}
POSITIONS = {"ana": 0.0, "bob": 5.0, "cho": 1.0, "dag": 6.0}
SAMPLES = {"ana": 3, "bob": 5, "cho": 7, "dag": 11}


def towards(robot_id: str, weights: Weights, number: int) -> Weights:
    """Train as ever, but put the last layer at the robot's target in the first two rounds."""
    trained = train(robot_id, weights, number)
    return {**trained, "attention.bias": np.full(4, TARGETS[robot_id])} if number < 3 else trained


def fleet(**options: object) -> Fleet:
    return Fleet(FedClust(**options), robots(POSITIONS, SAMPLES), trainer=towards).begin()  # type: ignore[arg-type]


def members(run: Fleet) -> list[set[str]]:
    grouping = Grouping.from_memory(run.memory)
    return [{r for r, inside in zip(grouping.robots, row, strict=True) if inside} for row in grouping.members]


def test_the_first_round_is_a_warm_up_and_clusters_start_from_the_initial_model() -> None:
    run = fleet(tau_rule="gap")
    assert all(plan.values == {"final_layer": True} for plan in run.plans.values())
    run.run(1)
    assert members(run) == [{"ana", "bob"}, {"cho", "dag"}]
    assert run.log["tau"] == pytest.approx((2.0 + 18.0) / 2)  # |difference| x sqrt(4): 2, 2 | 18, 20, 20, 22
    assert run.last.models == ("global", "global")
    for robot_id in POSITIONS:
        assert_same(run.start_of(robot_id), initial())
        assert run.plans[robot_id].values == {}


def test_later_rounds_are_a_fedavg_in_each_cluster() -> None:
    run = fleet(tau_rule="gap").run(3)
    for group in ("ana", "bob"), ("cho", "dag"):
        alone = Fleet(FedAvg(), robots({r: 0.0 for r in group}, SAMPLES), trainer=towards).begin()
        alone.round = 1
        alone.run(2)
        for robot_id in group:
            assert_same(run.start_of(robot_id), alone.start_of(robot_id))
    assert run.last.models == ("cluster/0", "cluster/1")


def test_lambda_is_a_value_or_a_quantile_too() -> None:
    assert members(fleet(tau=2.0).run(1)) == [{"ana", "bob"}, {"cho", "dag"}]
    assert len(members(fleet(tau=1.0).run(1))) == 4
    assert fleet(tau_quantile=0.5).run(1).log["tau"] == pytest.approx(19.0)


def test_one_model_serves_before_the_clustering_then_the_nearest_by_descriptor() -> None:
    run = fleet(tau_rule="gap")
    assert run.strategy.choose(descriptor(4.0), run.last.models, run.last.serving).keys == ("global",)
    run.run(2)
    choice = run.strategy.choose(descriptor(4.0), run.last.models, run.last.serving)
    assert choice.distances == pytest.approx(((16 + 1) / 2, (9 + 4) / 2), rel=1e-5)
    assert (choice.keys, choice.clusters, choice.fallback) == (("cluster/1",), (1,), False)
    assert not any(name.startswith("upload/") for name in run.last.serving.tensors)  # weights of robots stay here


def test_a_newcomer_warms_up_from_the_initial_model_and_joins_by_weights() -> None:
    run = fleet(tau_rule="gap", rebuild_share=9.0).run(1)
    before = fleet(tau_rule="gap", rebuild_share=9.0).run(2)
    plan = run.join(RobotInfo("eva", 4, descriptor(0.0)))
    assert (plan.load, plan.values) == (("global",), {"final_layer": True})
    assert members(run)[0] == {"ana", "bob", "cho", "dag"} & {"ana", "bob"} | {"eva"}  # by images: with ana
    run.run(1)
    assert members(run) == [{"ana", "bob"}, {"cho", "dag", "eva"}]
    for key in ("cluster/0", "cluster/1"):
        assert_same(run.blobs[key], before.blobs[key])  # its warm-up is in no model
    assert run.plans["eva"].load == ("cluster/1",) and run.plans["eva"].values == {}


def test_a_far_newcomer_may_open_its_own_cluster() -> None:
    run = fleet(tau=2.0, newcomer="singleton", rebuild_share=9.0).run(1)
    run.join(RobotInfo("fay", 4, descriptor(0.0)))  # |9 - 10| and |9 - 11|, doubled: mean 3
    run.run(1)
    assert members(run) == [{"ana", "bob"}, {"cho", "dag"}, {"fay"}]
    assert run.plans["fay"].load == ("cluster/2",)


def test_a_newcomer_in_the_warm_up_is_asked_like_the_others() -> None:
    run = fleet(tau_rule="gap")
    assert run.join(RobotInfo("eva", 4, descriptor(0.0))).values == {"final_layer": True}
    run.run(1)
    assert members(run) == [{"cho", "dag", "eva"}, {"ana", "bob"}]


def test_who_missed_the_warm_up_is_asked_again() -> None:
    run = fleet(tau_rule="gap", rebuild_share=9.0).run(1, ["ana", "bob", "cho"])
    assert members(run) == [{"ana", "bob", "dag"}, {"cho"}]  # dag is nearer to 0 and 5 than to 1, by images
    assert run.plans["dag"].values == {"final_layer": True}
    run.run(1, ["dag"])  # nobody else came: all models stay
    assert members(run) == [{"ana", "bob"}, {"cho", "dag"}]
    assert run.last.models == ("global", "global")
    run.run(1)
    assert run.last.models == ("cluster/0", "cluster/1")


def test_many_changes_cluster_anew_by_the_last_layers() -> None:
    run = fleet(tau_rule="gap").run(1)
    run.join(RobotInfo("eva", 4, descriptor(0.0)))
    run.run(1)
    assert run.log["rebuilt"] is True
    assert members(run) == [{"cho", "dag", "eva"}, {"ana", "bob"}]
    assert run.last.models == ("cluster/2", "cluster/3")


def test_a_robot_that_leaves_is_forgotten() -> None:
    run = fleet(tau_rule="gap", rebuild_share=9.0).run(2)
    del run.robots["cho"], run.robots["dag"]
    run.run(1)
    assert members(run) == [{"ana", "bob"}]
    assert sorted(Grouping.from_memory(run.memory).uploads) == ["ana", "bob"]


def without(update: Update, extras: Mapping[str, Any]) -> Update:
    return replace(update, extras=extras)


def test_robots_without_the_usual_last_layer_are_told_and_asked_again() -> None:
    run = fleet(tau_rule="gap")
    run.round = 1
    updates = [run.update(r) for r in sorted(run.robots)]
    odd: list[Mapping[str, Any]] = [{}, {"conv.weight": np.zeros((3, 2), np.float32)}]
    for extras in odd:
        broken = [*updates[:3], without(updates[3], extras)]
        outcome = run.strategy.aggregate(broken, run.state())
        assert outcome.plans["dag"].values == {"final_layer": True}
        assert outcome.log["warnings"][0].startswith("robot 'dag' sent another last layer than the others")  # type: ignore[index]
    with pytest.raises(StrategyError, match="no robot sent its last layer"):
        run.strategy.aggregate([without(update, {}) for update in updates], run.state())


def test_the_robot_half_sends_the_last_layer_only_when_asked() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    rule = FedClust().local_rule()
    state = LocalState(model, {}, Memory(), {}, {"final_layer": True}, 5)
    with pytest.raises(TrainingError, match=r"network Sequential has no final_layer\(\) to name it"):
        rule.finish(state)
    model.final_layer = lambda: ("1.weight", "1.bias")
    sent = rule.finish(state).extras
    assert {name: array.shape for name, array in sent.items()} == {"1.weight": (1, 3), "1.bias": (1,)}
    assert rule.finish(replace(state, values={})).extras == {}


def test_networks_without_names_say_so() -> None:
    rule = FedClust().local_rule()
    state = LocalState(SimpleNamespace(), {}, Memory(), {}, {"final_layer": True}, 5)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="fedclust compares last layers"):
        rule.finish(state)
