"""What every registered strategy must keep to, whatever it does."""

import dataclasses
import json

import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError, StrategyError, UnknownNameError
from fed_core.strategies import strategies
from fed_core.strategies.base import GLOBAL, Strategy
from tests.core.strategies.harness import (
    SIGNATURE,
    Fleet,
    assert_same,
    initial,
    robots,
    through_disk,
    train,
)

POSITIONS = {"ana": 0.0, "bob": 1.0, "cho": 2.0, "dag": 5.0, "eva": 6.0}
SAMPLES = {"ana": 3, "bob": 5, "cho": 7, "dag": 11, "eva": 13}
#: Options that make a strategy's clusters overlap, so that the tests see all of its paths.
OPTIONS: dict[str, list[dict[str, object]]] = {
    "fedepth": [
        {"tau": 9.0},
        {"tau": 9.0, "averaging": "server", "bn": "moments"},
        {"tau": 0.1, "newcomer": "singleton"},
        {"tau": 9.0, "variance_prior": 50.0},
    ],
    "hard": [{"tau": 9.0}, {"tau": 0.1, "newcomer": "singleton"}],
    "fedclust": [{"tau": 1e9}, {"tau": 1e-9, "newcomer": "singleton"}],
    "pacfl": [{"tau": 3.0}, {"tau": 0.1, "newcomer": "singleton"}],
    "feddwa": [
        {},
        {"local_init": "persistent"},
        {"cg_form": "incremental", "agg_weight": "w", "dwa_direction": "inverse", "kld_step_norm": True},
        {"dwa_direction": "size", "eta_g": 0.5},
    ],
    "fedbevt": [{}, {"cap_include_bev": True}],
    "feddyn": [
        {},
        {"weights": "samples", "part_alpha": {"head": 0.1}, "norm_penalty": False, "drift_from": 2},
    ],
    "fedrep": [{}, {"mode": "joint"}],
    "pcgrad": [{}, {"released": True}],
    "fedselect": [{}, {"warmup": 0, "entries": "params"}],
    "daloss": [{}, {"inner": "feddwa"}, {"inner": "hard", "inner_options": {"tau": 9.0}}],
}
#: Centralised training refuses more than one robot and has tests of its own.
NAMES = [name for name in strategies.names() if name != "centralised"]
CASES = [(name, options) for name in NAMES for options in OPTIONS.get(name, [{}])]
every_strategy = pytest.mark.parametrize(("name", "options"), CASES, ids=lambda v: str(v))


def make(name: str, options: dict[str, object]) -> Strategy:
    return from_tree(strategies.get(name), options)


def fleet(name: str, options: dict[str, object], **how: bool) -> Fleet:
    strategy = make(name, options)
    return Fleet(strategy, robots(POSITIONS, SAMPLES, strategy.descriptor), **how).begin()


def assert_equal_fleets(left: Fleet, right: Fleet) -> None:
    assert left.plans == right.plans
    assert left.last.models == right.last.models
    assert sorted(left.blobs) == sorted(right.blobs)
    for key, weights in left.blobs.items():
        assert_same(weights, right.blobs[key])
    assert left.log == right.log


@every_strategy
def test_names_a_paper_or_is_a_baseline(name: str, options: dict[str, object]) -> None:
    cls = strategies.get(name)
    assert dataclasses.is_dataclass(cls)
    assert cls.paper or name == "local"


@every_strategy
def test_inputs_stay_untouched(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options)
    run.round = 1
    updates = [run.update(r) for r in sorted(run.robots)]
    before = [{n: a.copy() for n, a in u.weights.items()} for u in updates]
    memory = through_disk(run.memory)

    outcome = run.strategy.aggregate(updates, run.state())
    list(outcome.rows)

    for update, copy in zip(updates, before, strict=True):
        assert_same(update.weights, copy)
    assert_same(run.memory.tensors, {n: memory.tensors[n] for n in run.memory.tensors})
    assert run.memory.values == memory.values


@every_strategy
def test_models_hold_the_travelling_tensors_in_order_and_dtype(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options).run(2)
    travels = run.strategy.travels(SIGNATURE)
    specs = [spec for spec in SIGNATURE.tensors if spec.name in travels]
    for key in run.last.models:
        assert list(run.blobs[key]) == [spec.name for spec in specs]
        for spec in specs:
            array = run.blobs[key][spec.name]
            assert (array.shape, array.dtype.name) == (spec.shape, spec.dtype)


@every_strategy
def test_order_of_arrival_changes_no_bit(name: str, options: dict[str, object]) -> None:
    assert_equal_fleets(fleet(name, options).run(3), fleet(name, options, reverse=True).run(3))


@every_strategy
def test_goes_on_bit_equal_after_a_restart(name: str, options: dict[str, object]) -> None:
    assert_equal_fleets(fleet(name, options).run(3), fleet(name, options, restart=True).run(3))


@every_strategy
def test_every_robot_has_a_plan_of_existing_keys(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options)
    for participants in (None, ["bob", "eva"], ["cho"], None):
        named = {key for plan in run.plans.values() for key in (*plan.load, *plan.extras)} | set(run.last.models)
        assert sorted(run.plans) == sorted(run.robots)
        assert named <= set(run.blobs)
        for plan in run.plans.values():
            assert len(set(plan.load)) == len(plan.load) > 0
        run.run(1, participants)
    json.dumps([dataclasses.asdict(plan) for plan in run.plans.values()])


@every_strategy
def test_clusters_are_indices_into_the_models(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options).run(1)
    for robot_id, clusters in run.last.clusters.items():
        assert robot_id in run.robots
        assert clusters and all(0 <= k < len(run.last.models) for k in clusters)


@every_strategy
def test_one_robot_is_enough(name: str, options: dict[str, object]) -> None:
    strategy = make(name, options)
    run = Fleet(strategy, robots({"ana": 0.0}, kind=strategy.descriptor)).begin()
    if name == "fedclust":
        run.run(1)  # its warm-up is thrown away
    alone = run.start_of("ana")
    for _ in range(2):
        alone = train("ana", alone, run.round + 1)
        run.run(1)
    if name in ("feddyn", "fedtp") or options.get("eta_g", 1.0) != 1.0:
        return  # robots do not start at the mean of their models
    assert_same(run.start_of("ana"), alone)


@every_strategy
def test_works_with_partial_participation(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options).run(1, ["bob"]).run(1, ["ana", "eva"]).run(1, ["dag"])
    for robot_id in run.robots:
        start = run.start_of(robot_id)
        assert list(start) == list(SIGNATURE.names)
        assert all(np.isfinite(array).all() for array in start.values())


@every_strategy
@pytest.mark.parametrize("position", [1.5, 40.0])
def test_a_newcomer_starts_and_takes_part(name: str, options: dict[str, object], position: float) -> None:
    run = fleet(name, options).run(1)
    newcomer = robots({"fay": position}, kind=run.strategy.descriptor)["fay"]

    plan = run.join(newcomer)
    assert plan.load and set(plan.load) <= set(run.blobs)
    run.run(1, ["bob", "fay"])

    assert sorted(run.plans) == sorted(run.robots)
    run.run(1)
    assert all(np.isfinite(array).all() for array in run.start_of("fay").values())


@every_strategy
def test_a_robot_that_leaves_does_not_stop_the_rest(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options).run(1)
    del run.robots["cho"]
    run.run(2)
    assert "cho" not in run.plans
    assert sorted(run.plans) == sorted(run.robots)


@every_strategy
def test_choice_names_models(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options)
    for _ in range(2):
        for position in (0.1, 5.5, 100.0):
            like = robots({"": position}, kind=run.strategy.descriptor)[""].descriptor
            like = like if run.strategy.descriptor else None
            choice = run.strategy.choose(like, run.last.models, through_disk(run.last.serving), "bob")
            assert choice.keys and set(choice.keys) <= set(run.last.models)
            assert len(set(choice.keys)) == len(choice.keys)
        run.run(1)


@every_strategy
def test_no_update_is_an_error(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options)
    with pytest.raises(StrategyError, match="no update arrived in this round"):
        run.strategy.aggregate([], run.state())


@every_strategy
def test_robots_that_differ_in_a_constant_are_named(name: str, options: dict[str, object]) -> None:
    run = fleet(name, options).run(1 if name == "fedclust" else 0)
    updates = [run.update(r) for r in ("ana", "bob")]
    broken = {**updates[1].weights, "attention.index": np.arange(4)[::-1].copy()}
    updates[1] = dataclasses.replace(updates[1], weights=broken)
    if name == "local" or "tau" in options and len(run.last.models) == len(run.robots):
        return  # nothing is averaged
    if "attention.index" not in run.strategy.uploads(SIGNATURE):
        return  # integers stay on the robots
    with pytest.raises(StrategyError, match=r"'attention.index' is a constant .*'ana' and 'bob'"):
        list(run.strategy.aggregate(updates, run.state()).rows)


@pytest.mark.parametrize("name", strategies.names())
def test_unknown_options_are_errors(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown key 'no_such_option'"):
        make(name, {"no_such_option": 1})


def test_unknown_strategy_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="no strategy is called 'fedsgd'; known: .*fedavg"):
        strategies.get("fedsgd")


def test_global_is_the_initial_model_of_the_first_round() -> None:
    for name, options in CASES:
        run = fleet(name, options)
        assert_same(run.blobs[GLOBAL], initial())
        for robot_id in run.robots:
            assert_same(run.start_of(robot_id), initial())
