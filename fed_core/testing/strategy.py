"""What every strategy must keep to, as tests that a new one inherits.

::

    from fed_core.testing.strategy import StrategyContract

    class TestMine(StrategyContract):
        plugin = Path(__file__).with_name("mine.py")
        name = "mine"

pytest then runs the tests below on it. They play fleets in memory, so that a whole class takes about a second.
"""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from fed_core import plugins
from fed_core.config import from_tree, to_tree
from fed_core.errors import ConfigError, FedError, StrategyError
from fed_core.strategies import strategies
from fed_core.strategies.base import GLOBAL, LocalResult, RobotPlan, Strategy
from fed_core.testing.fleet import (
    SIGNATURE,
    Fleet,
    Weights,
    assert_same,
    expect,
    initial,
    robots,
    through_disk,
    train,
)

E = TypeVar("E", bound=FedError)

POSITIONS: Mapping[str, float] = {"ana": 0.0, "bob": 1.0, "cho": 2.0, "dag": 5.0, "eva": 6.0}
SAMPLES: Mapping[str, int] = {"ana": 3, "bob": 5, "cho": 7, "dag": 11, "eva": 13}


class StrategyContract:
    """Tests of one strategy; subclass it under a name that begins with ``Test``.

    Attributes:
        plugin: file or module that registers the strategy; "" = it is part of the package.
        name: registered name.
        options: its options.
        train: options of local training that it needs.
        mixes: its models mix what several robots sent; False where every robot keeps a model of its own.
        lands_on_mean: robots that agree stay where they are, and a single robot goes on from its own weights; False
            for methods that do more than to average.
        warm_up: first rounds whose training is thrown away.
    """

    plugin: ClassVar[str | Path] = ""
    name: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}
    train: ClassVar[Mapping[str, Any]] = {}
    mixes: ClassVar[bool] = True
    lands_on_mean: ClassVar[bool] = True
    warm_up: ClassVar[int] = 0

    def adds(self, robot_id: str, weights: Weights, plan: RobotPlan) -> LocalResult:
        """Return what the robot half sends beside its weights, made up; the loss of training is always there."""
        return LocalResult()

    def make(self) -> Strategy:
        """Return the strategy."""
        if self.plugin:
            plugins.add(str(self.plugin))
        return from_tree(strategies.get(self.name), dict(self.options), f"strategy {self.name}")

    def fleet(self, **how: Any) -> Fleet:
        """Return five robots that wait for round 1."""
        strategy = self.make()
        return Fleet(strategy, robots(POSITIONS, SAMPLES, strategy.descriptor), adds=self.adds, **how).begin()

    def test_is_told_in_the_list_of_strategies(self) -> None:
        """A frozen dataclass that names where it comes from, every option with a help text."""
        cls = type(self.make())
        params = getattr(cls, "__dataclass_params__", None)
        expect(
            params is not None and params.frozen, f"{cls.__name__} is no frozen dataclass; add @dataclass(frozen=True)"
        )
        baseline = self.name in ("local", "centralised")
        expect(baseline or bool(cls.paper), f"{cls.__name__}.paper is empty; name authors, year and link")
        options = [field for field in dataclasses.fields(cast(Any, cls)) if field.init]
        bare = [field.name for field in options if not field.metadata.get("help")]
        expect(not bare, f"options without a help text: {bare}; make them with option(default, help=...)")

    def test_options_survive_a_file(self) -> None:
        """Options go to YAML and JSON and come back equal."""
        strategy = self.make()
        names = [field.name for field in dataclasses.fields(cast(Any, strategy)) if field.init]
        tree = json.loads(json.dumps({name: to_tree(getattr(strategy, name)) for name in names}, allow_nan=False))
        expect(from_tree(type(strategy), tree) == strategy, f"options that come back from a file differ: {tree}")

    def test_unknown_options_are_errors(self) -> None:
        """A misspelt option is told."""
        cls = type(self.make())
        error = refused(ConfigError, lambda: from_tree(cls, {**self.options, "no_such_option": 1}))
        expect("unknown key 'no_such_option'" in error, f"the error should name the unknown option, it says: {error}")

    def test_every_robot_starts_from_the_initial_model(self) -> None:
        """Before round 1 there is one model."""
        run = self.fleet()
        assert_same(run.blobs[GLOBAL], initial())
        for robot_id in run.robots:
            assert_same(run.start_of(robot_id), initial())

    def test_inputs_stay_untouched(self) -> None:
        """``aggregate`` writes into no update and no memory."""
        run = self.fleet().run(1)
        run.round = 2
        updates = [run.update(robot_id) for robot_id in sorted(run.robots)]
        before = [{name: array.copy() for name, array in update.weights.items()} for update in updates]
        memory = through_disk(run.memory)
        list(run.strategy.aggregate(updates, run.state()).rows)
        for update, copy in zip(updates, before, strict=True):
            assert_same(update.weights, copy)
        assert_same(run.memory.tensors, {name: memory.tensors[name] for name in run.memory.tensors})
        expect(run.memory.values == memory.values, "aggregate changed state.memory; return a new Memory")

    def test_models_hold_the_travelling_tensors(self) -> None:
        """In the order, the shapes and the dtypes of the signature."""
        run = self.fleet().run(2)
        travels = run.strategy.travels(SIGNATURE)
        specs = [spec for spec in SIGNATURE.tensors if spec.name in travels]
        for key in run.last.models:
            names = [spec.name for spec in specs]
            expect(list(run.blobs[key]) == names, f"model {key!r} holds {list(run.blobs[key])}, expected {names}")
            for spec in specs:
                array = run.blobs[key][spec.name]
                got, wanted = (array.shape, array.dtype.name), (spec.shape, spec.dtype)
                expect(got == wanted, f"tensor {spec.name!r} of model {key!r} is {got}, expected {wanted}")

    def test_robots_that_agree_change_nothing(self) -> None:
        """Weights sum to one: robots that all send what they got start from the same bits again."""
        run = self.fleet(trainer=lambda robot_id, weights, num_round: weights).run(2)
        for robot_id in run.robots if self.lands_on_mean else ():
            start = run.start_of(robot_id)
            for name, array in initial().items():
                np.testing.assert_allclose(start[name], array, rtol=1e-6, atol=1e-7, err_msg=f"{robot_id}: {name}")

    def test_equal_runs_end_in_equal_bits(self) -> None:
        """Nothing is drawn from a global generator."""
        assert_equal_fleets(self.fleet().run(3), self.fleet().run(3))

    def test_order_of_arrival_changes_no_bit(self) -> None:
        """Robots are permuted; sums follow the robot ids (``in_order``)."""
        assert_equal_fleets(self.fleet().run(3), self.fleet(reverse=True).run(3))

    def test_goes_on_bit_equal_after_a_restart(self) -> None:
        """All that the server half remembers is in ``Memory`` and keys: plain tensors and JSON, no pickle."""
        assert_equal_fleets(self.fleet().run(3), self.fleet(restart=True).run(3))

    def test_every_robot_has_a_plan_of_existing_keys(self) -> None:
        """Also those that did not report."""
        run = self.fleet()
        for participants in (None, ["bob", "eva"], ["cho"], None):
            named = {key for plan in run.plans.values() for key in (*plan.load, *plan.extras)} | set(run.last.models)
            check_plans(run)
            expect(named <= set(run.blobs), f"keys that do not exist are named: {sorted(named - set(run.blobs))}")
            run.run(1, participants)
        json.dumps([dataclasses.asdict(plan) for plan in run.plans.values()])

    def test_clusters_are_indices_into_the_models(self) -> None:
        """Where there are clusters."""
        run = self.fleet().run(1)
        count = len(run.last.models)
        for robot_id, clusters in run.last.clusters.items():
            expect(robot_id in run.robots, f"clusters name the unknown robot {robot_id!r}")
            fits = bool(clusters) and all(0 <= k < count for k in clusters)
            expect(fits, f"clusters of {robot_id} are {clusters}; expected indices into {count} models")

    def test_one_robot_is_enough(self) -> None:
        """It goes on from its own weights."""
        strategy = self.make()
        run = Fleet(strategy, robots({"ana": 0.0}, kind=strategy.descriptor), adds=self.adds).begin().run(self.warm_up)
        alone = run.start_of("ana")
        for _ in range(2):
            alone = train("ana", alone, run.round + 1)
            run.run(1)
        if self.lands_on_mean:
            assert_same(run.start_of("ana"), alone)

    def test_missing_robots_are_tolerated(self) -> None:
        """Rounds close with whoever reported."""
        run = self.fleet().run(1, ["bob"]).run(1, ["ana", "eva"]).run(1, ["dag"])
        for robot_id in run.robots:
            check_start(run, robot_id)

    def test_a_newcomer_starts_and_takes_part(self) -> None:
        """Near the others, and far from all of them."""
        for position in (1.5, 40.0):
            run = self.fleet().run(1)
            plan = run.join(robots({"fay": position}, kind=run.strategy.descriptor)["fay"])
            fits = bool(plan.load) and set(plan.load) <= set(run.blobs)
            expect(fits, f"a newcomer loads {plan.load}; known keys: {sorted(run.blobs)}")
            run.run(1, ["bob", "fay"])
            check_plans(run)
            run.run(1)
            check_start(run, "fay")

    def test_a_robot_that_leaves_does_not_stop_the_rest(self) -> None:
        """Its plan goes with it."""
        run = self.fleet().run(1)
        del run.robots["cho"]
        run.run(2)
        check_plans(run)

    def test_choice_names_models(self) -> None:
        """For sequences near and far, before and after training."""
        run = self.fleet()
        for _ in range(2):
            for position in (0.1, 5.5, 100.0):
                like = robots({"": position}, kind=run.strategy.descriptor)[""].descriptor
                like = like if run.strategy.descriptor else None
                keys = run.strategy.choose(like, run.last.models, through_disk(run.last.serving), "bob").keys
                fits = bool(keys) and set(keys) <= set(run.last.models) and len(set(keys)) == len(keys)
                expect(fits, f"choose names {keys}, expected some of {run.last.models}, each once")
            run.run(1)

    def test_masks_switch_whole_units(self) -> None:
        """Each tensor belongs to one unit at most, and a mask of another length is refused."""
        strategy = self.make()
        units, travels = strategy.units(SIGNATURE), strategy.travels(SIGNATURE)
        named = [name for unit in units for name in unit]
        expect(
            travels <= set(SIGNATURE.names), f"travels names unknown tensors: {sorted(travels - set(SIGNATURE.names))}"
        )
        expect(len(set(named)) == len(named), f"a tensor is in two units: {units}")
        expect(set(named) <= set(SIGNATURE.names), f"units name unknown tensors: {units}")
        all_on, all_off = np.ones(len(units), np.bool_), np.zeros(len(units), np.bool_)
        on, off = strategy.uploads(SIGNATURE, all_on), strategy.uploads(SIGNATURE, all_off)
        expect(off <= on <= travels, f"a mask of ones sends {sorted(on)}, one of zeros {sorted(off)}")
        refused(StrategyError, lambda: strategy.uploads(SIGNATURE, np.ones(len(units) + 1, np.bool_)))

    def test_no_update_is_an_error(self) -> None:
        """``in_order`` raises it."""
        run = self.fleet()
        error = refused(StrategyError, lambda: list(run.strategy.aggregate([], run.state()).rows))
        expect(
            "no update arrived in this round" in error, f"the error should say that no update came, it says: {error}"
        )

    def test_robots_that_differ_in_a_constant_are_named(self) -> None:
        """An index table that one robot changed cannot be averaged."""
        run = self.fleet().run(self.warm_up)
        updates = [run.update(robot_id) for robot_id in ("ana", "bob")]
        if not self.mixes or any("attention.index" not in update.weights for update in updates):
            return
        broken = {**updates[1].weights, "attention.index": np.arange(4)[::-1].copy()}
        updates[1] = dataclasses.replace(updates[1], weights=broken)
        error = refused(StrategyError, lambda: list(run.strategy.aggregate(updates, run.state()).rows))
        told = "'attention.index' is a constant" in error and "'ana' and 'bob'" in error
        expect(told, f"the error should name the tensor and both robots, it says: {error}")

    def test_a_fleet_trains_and_resumes_in_the_same_bits(self) -> None:
        """Both halves on a tiny network with real jobs and files; a run that is cut off ends like one that was not."""
        from fed_core.testing.run import cut_off, whole

        self.make()
        with tempfile.TemporaryDirectory() as folder:
            first = whole(self.name, self.options, self.train, Path(folder))
            again = cut_off(self.name, self.options, self.train, Path(folder))
        expect(first == again, f"a run that was cut off ended differently: {again}, expected {first}")


def refused(error: type[E], call: Callable[[], object]) -> str:
    """Return the text of the error that ``call`` raises; fail where it raises none."""
    try:
        call()
    except error as err:
        return str(err)
    raise AssertionError(f"expected a {error.__name__}, but nothing was raised")


def check_plans(run: Fleet) -> None:
    """Fail where a registered robot has no plan, or a plan loads nothing, or a key twice."""
    expect(
        sorted(run.plans) == sorted(run.robots), f"plans are for {sorted(run.plans)}, robots are {sorted(run.robots)}"
    )
    for robot_id, plan in run.plans.items():
        expect(
            len(set(plan.load)) == len(plan.load) > 0, f"plan of {robot_id} loads {plan.load}; expected keys, each once"
        )


def check_start(run: Fleet, robot_id: str) -> None:
    """Fail where a robot's next weights are not complete and finite."""
    start = run.start_of(robot_id)
    expect(list(start) == list(SIGNATURE.names), f"{robot_id} starts from {list(start)}")
    bad = [name for name, array in start.items() if not np.isfinite(array).all()]
    expect(not bad, f"{robot_id} starts from numbers that are not finite: {bad}")


def assert_equal_fleets(left: Fleet, right: Fleet) -> None:
    """Fail where two runs differ in a bit."""
    expect(left.plans == right.plans, f"plans differ: {left.plans} and {right.plans}")
    expect(left.last.models == right.last.models, f"models differ: {left.last.models} and {right.last.models}")
    expect(sorted(left.blobs) == sorted(right.blobs), f"keys differ: {sorted(left.blobs)} and {sorted(right.blobs)}")
    for key, weights in left.blobs.items():
        assert_same(weights, right.blobs[key])
    expect(left.log == right.log, f"logs differ: {left.log} and {right.log}")
