"""FedDWA on quadratics (feddwa spec 2 and 14: A2, A3, A4, A7) and with updates at their limits."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError, TrainingError
from fed_core.strategies.base import GLOBAL, LocalRule, LocalState, RobotInfo, RobotPlan, ServerState, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.feddwa import DynamicallyWeighted, FedDWA
from fed_core.strategies.scaffold import Scaffold
from fed_core.training.options import TrainConfig
from fed_core.types import Array, Memory
from tests.core.strategies.first_steps import first_round
from tests.core.strategies.harness import SIGNATURE, assert_same, initial
from tests.core.strategies.quadratics import SGD, Quadratic, Walkers, infos, walkers

FIVE_STEPS = replace(SGD, local_epochs=5)
ADAM = TrainConfig(
    optimizer="adam", weight_decay=0.0, grad_clip=0.0, batch_size=1, local_epochs=10, augment=False, device="cpu"
)
#: Divergences of the three walkers, by their samples.
TOLD = {10: 0.2, 30: 0.5, 20: 0.3}


class Told(DynamicallyWeighted):
    """Tells a given divergence: quadratics have no classes."""

    def __init__(self, options: FedDWA, told: Mapping[int, float]) -> None:
        super().__init__(options)
        self._told = told

    def _measured(self, state: LocalState) -> float:
        return self._told.get(state.num_samples, 1.0)


def feddwa(told: Mapping[int, float] = TOLD, **options: Any) -> FedDWA:
    class Telling(FedDWA):
        def local_rule(self) -> LocalRule:
            return Told(self, told)

    return Telling(**options)


def optimum(run: Walkers, weights: Mapping[str, float]) -> Array:
    """Return the minimum of the losses weighted by ``weights``."""
    pulls = {r: weights[r] * task.curvature for r, task in run.tasks.items()}
    return np.asarray(sum(pulls[r] * np.array(t.target) for r, t in run.tasks.items()) / sum(pulls.values()))


def own(run: Walkers, robot_id: str) -> float:
    return float(run.memories[robot_id].tensors["after/w"][0])


@pytest.mark.parametrize("cg_form", ["absolute", "incremental"])
@pytest.mark.parametrize(("cv_update", "control"), [("I", "gradient"), ("II", "path")])
def test_with_uniform_weights_it_is_scaffold(cg_form: str, cv_update: str, control: str) -> None:
    options = {"cg_form": cg_form, "cv_update": cv_update, "dwa_direction": "uniform", "agg_weight": "size"}
    ours = walkers(feddwa(**options), config=FIVE_STEPS, lr=0.1)
    theirs = walkers(Scaffold(control=control), config=FIVE_STEPS, lr=0.1)
    for participants in (None, None, ["bob"], ["ana", "cho"], None):
        for run in (ours, theirs):
            run.run(1, participants)
        np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-12)
        np.testing.assert_allclose(ours.blobs["control"]["w"], theirs.blobs["control"]["w"], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(ours.blobs["global"]["seen"], theirs.blobs["global"]["seen"])


def test_it_equals_scaffold_written_down_anew() -> None:
    """Option II of the paper with a = 1 / M, in five lines of NumPy."""
    run = walkers(feddwa(dwa_direction="uniform", cv_update="II"), config=FIVE_STEPS, lr=0.1)
    w, fleet, controls = np.zeros(2), np.zeros(2), {r: np.zeros(2) for r in run.robots}
    for _ in range(6):
        run.run(1)
        ends, fresh = [], {}
        for robot_id, task in sorted(run.tasks.items()):
            y = w.copy()
            for _ in range(5):
                y -= 0.1 * (task.curvature * (y - np.array(task.target)) - controls[robot_id] + fleet)
            fresh[robot_id] = controls[robot_id] - fleet + (w - y) / (5 * 0.1)
            ends.append(y)
        w, controls, fleet = np.mean(ends, axis=0), fresh, np.mean(list(fresh.values()), axis=0)
        np.testing.assert_allclose(run.w, w, rtol=1e-12)
        np.testing.assert_allclose(run.blobs["control"]["w"], fleet, rtol=1e-9, atol=1e-12)
        spread = sum(run.blobs["control"]["w"] - run.blobs[f"control/{r}"]["w"] for r in run.robots)
        np.testing.assert_allclose(spread, 0.0, atol=1e-12)


@pytest.mark.parametrize(("options", "optimizer"), [({}, "adamw"), ({}, "sgd"), ({"cv_update": "II"}, "sgd"),
                                                    ({"cv_space": "update", "cv_update": "II"}, "adamw")])  # fmt: skip
def test_with_zero_controls_the_first_round_is_fedavgs_bit_by_bit(options: dict[str, str], optimizer: str) -> None:
    assert_same(first_round(feddwa(**options), optimizer=optimizer), first_round(FedAvg(), optimizer=optimizer))


def test_the_first_model_is_the_plain_mean() -> None:
    run = walkers(feddwa(), config=FIVE_STEPS, lr=0.1).run(1)
    plain = walkers(FedAvg(), config=FIVE_STEPS, lr=0.1)
    plain.round = 1
    ends = {r: plain.update(r).weights for r in plain.robots}
    np.testing.assert_allclose(run.w, np.mean([end["w"] for end in ends.values()], axis=0), rtol=1e-14)
    samples = {r: run.robots[r].num_samples / 60 for r in run.robots}
    assert run.blobs["global"]["seen"][0] == pytest.approx(sum(samples[r] * ends[r]["seen"][0] for r in samples))
    assert run.blobs["global"]["steps"] == 5 and run.blobs["global"]["steps"].dtype == np.int64


@pytest.mark.parametrize("agg_weight", ["uniform", "size", "w"])
@pytest.mark.parametrize("cg_form", ["absolute", "incremental"])
def test_it_descends_on_the_loss_weighted_by_w_whatever_a_is(agg_weight: str, cg_form: str) -> None:
    run = walkers(feddwa(agg_weight=agg_weight, cg_form=cg_form), config=FIVE_STEPS, lr=0.1).run(200)
    weights = {"ana": 0.2, "bob": 0.5, "cho": 0.3}
    assert run.log["weights"] == pytest.approx(weights)
    np.testing.assert_allclose(run.w, optimum(run, weights), atol=1e-8)
    np.testing.assert_allclose(run.blobs["control"]["w"], 0.0, atol=1e-8)
    others = {"uniform": dict.fromkeys(weights, 1 / 3), "size": {"ana": 1 / 6, "bob": 1 / 2, "cho": 1 / 3}}
    for name in set(others) & {agg_weight}:
        assert np.linalg.norm(run.w - optimum(run, others[name])) > 0.1


@pytest.mark.parametrize(
    "options", [{"cv_update": "II"}, {"cv_space": "update"}, {"cv_space": "update", "cv_update": "II"}]
)
def test_with_plain_descent_the_options_agree(options: dict[str, str]) -> None:
    default, other = (walkers(feddwa(**o), config=FIVE_STEPS, lr=0.1).run(12) for o in ({}, options))
    np.testing.assert_allclose(other.w, default.w, rtol=1e-6)
    np.testing.assert_allclose(other.blobs["control"]["w"], default.blobs["control"]["w"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("opt_state", ["persist", "reset"])
def test_with_adam_it_reaches_the_w_optimum_whatever_the_scale_of_gradients(scale: float, opt_state: str) -> None:
    run = walkers(feddwa(opt_state=opt_state), config=ADAM, lr=0.3, decay=0.93)
    run.tasks = {
        r: replace(t, scale=scale, noise=0.1, rng=np.random.default_rng(i))
        for i, (r, t) in enumerate(run.tasks.items())
    }
    run.run(60)
    best = optimum(run, {"ana": 0.2, "bob": 0.5, "cho": 0.3})
    assert np.linalg.norm(run.w - best) < 0.01 * np.linalg.norm(best)


@pytest.mark.parametrize(
    ("train", "found"),
    [
        ({}, "train.optimizer is adamw, encoder_lr_scale 1.0"),
        ({"optimizer": "adam"}, "train.optimizer is adam, encoder_lr_scale 1.0"),
        ({"optimizer": "sgd", "encoder_lr_scale": 0.1}, "train.optimizer is sgd, encoder_lr_scale 0.1"),
    ],
)
def test_a_path_in_other_units_than_gradients_is_refused(train: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        FedDWA(cv_update="II").check_training(train)
    text = "feddwa: cv_update II with cv_space grad needs plain SGD of one learning rate"
    assert str(caught.value) == f"{text}, but {found}; set cv_update to I or cv_space to update"
    for fine in ({}, {"cv_update": "II", "cv_space": "update"}):
        FedDWA(**fine).check_training(train)
    FedDWA(cv_update="II").check_training({"optimizer": "sgd"})


def test_the_path_needs_a_learning_rate() -> None:
    with pytest.raises(
        TrainingError, match="cv_update II divides by the learning rate, which is 0; set cv_update to I"
    ):
        walkers(feddwa(cv_update="II"), lr=0.0).run(1)


def test_the_optimisers_moments_go_on_or_start_anew() -> None:
    kept, fresh = (walkers(feddwa(opt_state=how), config=ADAM).run(2) for how in ("persist", "reset"))
    memory = kept.memories["ana"].tensors
    assert {"optimizer/exp_avg/w", "optimizer/exp_avg_sq/w", "optimizer/step/w"} < set(memory)
    assert memory["optimizer/step/w"] == 20 and memory["optimizer/exp_avg/w"].dtype == np.float64
    assert not [name for name in fresh.memories["ana"].tensors if name.startswith("optimizer")]
    assert not np.allclose(kept.w, fresh.w)
    # Two rounds with kept moments and no correction are one round of twice the steps.
    alone = {"ana": Quadratic(1.0, (8.0, 2.0))}
    twice = Walkers(feddwa(), infos({"ana": 1}), tasks=alone, config=ADAM).begin().run(2)
    once = Walkers(FedAvg(), infos({"ana": 1}), tasks=alone, config=replace(ADAM, local_epochs=20)).begin().run(1)
    np.testing.assert_allclose(twice.w, once.w, rtol=1e-12)  # type: ignore[attr-defined]


def test_who_is_absent_stays_in_the_sum() -> None:
    run = walkers(feddwa(), config=FIVE_STEPS, lr=0.1).run(1)
    before = {r: own(run, r) for r in run.robots}
    run.run(1, ["bob"])
    assert run.log["weights"] == pytest.approx({"ana": 0.2, "bob": 0.5, "cho": 0.3})
    fleet = 0.2 * before["ana"] + 0.5 * own(run, "bob") + 0.3 * before["cho"]
    assert run.blobs["control"]["w"][0] == pytest.approx(fleet, rel=1e-14)
    assert sorted(run.blobs) == ["control", "control/ana", "control/bob", "control/cho", "global"]


def test_a_lost_update_leaves_robot_and_aggregator_in_step() -> None:
    lucky, unlucky = (walkers(feddwa(), config=FIVE_STEPS, lr=0.1).run(1) for _ in range(2))
    unlucky.round += 1
    unlucky.update("ana")  # trains, remembers, and its update never arrives
    unlucky.round -= 1
    for run in (lucky, unlucky):
        run.run(1, ["bob"]).run(2)
        assert run.blobs["control/ana"]["w"][0] == own(run, "ana")
    assert_same(unlucky.blobs["global"], lucky.blobs["global"])


def test_a_newcomer_has_a_zero_control() -> None:
    run = walkers(feddwa(), config=FIVE_STEPS, lr=0.1).run(1)
    run.tasks = {**run.tasks, "dag": Quadratic(1.0, (1.0, 0.0))}
    plan = run.join(infos({"dag": 5})["dag"])
    assert plan == RobotPlan(("global",), ("control",), {"round": 2, "counted": 0})
    run.run(1)
    np.testing.assert_array_equal(run.memories["dag"].tensors["before/w"], [0.0, 0.0])
    assert run.log["weights"] == pytest.approx({"ana": 0.1, "bob": 0.25, "cho": 0.15, "dag": 0.5})


def test_controls_start_anew_when_a_robot_leaves() -> None:
    run = walkers(feddwa(), config=FIVE_STEPS, lr=0.1).run(2)
    del run.robots["bob"]
    run.run(1)
    assert run.log["without_control"] == ["ana", "cho"] and run.log["weights"] == {}
    np.testing.assert_array_equal(run.blobs["control"]["w"], [0.0, 0.0])
    run.run(1)
    assert run.log["weights"] == pytest.approx({"ana": 0.4, "cho": 0.6})
    np.testing.assert_array_equal(run.memories["ana"].tensors["before/w"], [0.0, 0.0])


def test_local_models_that_persist_are_never_overwritten() -> None:
    run = walkers(feddwa(local_init="persistent"), config=FIVE_STEPS, lr=0.1)
    own_weights = np.ones(2)
    assert run.strategy.merge("w", own_weights, np.zeros(2), Memory()) is own_weights
    np.testing.assert_array_equal(run.strategy.merge("w", None, np.zeros(2), Memory()), np.zeros(2))
    run.run(1)
    assert run.plans["ana"].extras == ("control", "global")  # the divergence still counts from the global model


def test_the_step_of_the_model() -> None:
    half, whole = (walkers(feddwa(eta_g=eta), config=FIVE_STEPS, lr=0.1).run(1) for eta in (0.5, 1.0))
    np.testing.assert_allclose(half.w, 0.5 * whole.w, rtol=1e-14)
    np.testing.assert_array_equal(half.blobs["global"]["seen"], whole.blobs["global"]["seen"])


# ---- Updates at their limits, without training. ----


def controls(value: float) -> dict[str, Array]:
    return {s.name: np.full(s.shape, value, np.float32) for s in SIGNATURE.tensors if s.trainable}


def update(robot_id: str, told: float, extras: Mapping[str, Any] | None = None, **scalars: float) -> Update:
    seed, value = {"ana": (1, 1.0), "bob": (2, 3.0), "cho": (3, 5.0)}[robot_id]
    sent = controls(value) if extras is None else extras
    return Update(robot_id, 10, initial(seed), sent, {"divergence": told, **scalars})


def state(**blobs: Any) -> ServerState:
    plans = {r: RobotPlan((GLOBAL,), values={"counted": 0}) for r in ("ana", "bob", "cho")}
    robots = {r: RobotInfo(r, 10) for r in plans}
    return ServerState(1, robots, Memory(), {GLOBAL: initial(), **blobs}, SIGNATURE, plans)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_a_robot_whose_divergence_is_not_finite_is_left_out(bad: float) -> None:
    updates = [update("ana", 0.25), update("bob", bad), update("cho", 0.75)]
    outcome = FedDWA().aggregate(updates, state())
    rows = dict(outcome.rows)
    assert outcome.log["dropped"] == {"bob": "its KL divergence is not finite"}
    assert outcome.log["warnings"] == ["robot 'bob' is left out of the round: its KL divergence is not finite"]
    assert outcome.log["weights"] == {"ana": 0.25, "cho": 0.75}
    good = FedAvg().aggregate([updates[0], updates[2]], state())
    assert_same({n: row[GLOBAL] for n, row in rows.items()}, {n: row[GLOBAL] for n, row in good.rows})
    np.testing.assert_array_equal(rows["bn.weight"]["control"], np.full(3, 0.25 * 1 + 0.75 * 5, np.float32))


def test_an_update_without_a_divergence_counts_as_not_finite() -> None:
    outcome = FedDWA().aggregate([update("ana", 0.5), Update("bob", 10, initial(2), controls(3.0))], state())
    assert list(outcome.log["dropped"]) == ["bob"]  # type: ignore[arg-type]


def test_a_round_of_dropped_robots_only_changes_nothing() -> None:
    outcome = FedDWA().aggregate([update("ana", float("nan"))], state())
    assert list(outcome.rows) == [] and outcome.kept == (GLOBAL,) and set(outcome.plans) == {"ana", "bob", "cho"}


def test_divergences_that_are_all_zero_weigh_the_same() -> None:
    outcome = FedDWA().aggregate([update("ana", 0.0), update("bob", 0.0)], state())
    assert outcome.log["weights"] == {"ana": 0.5, "bob": 0.5}
    assert dict(outcome.rows)["bn.weight"]["control"][0] == 2.0


def test_a_control_of_another_shape_moves_the_model_only() -> None:
    wrong = {**controls(1.0), "bn.weight": np.ones((3, 3), np.float32)}
    updates = [update("ana", 0.5, wrong), update("bob", 0.5)]
    outcome = FedDWA().aggregate(updates, state())
    rows = dict(outcome.rows)
    assert outcome.log["without_control"] == ["ana"] and outcome.log["weights"] == {"bob": 1.0}
    text = "its control variate does not have the parameters and shapes of the model, so it moves the model only"
    assert outcome.log["warnings"] == [f"robot 'ana': {text}"]
    assert set(rows["bn.weight"]) == {GLOBAL, "control", "control/bob"}
    plain = {name: row[GLOBAL] for name, row in FedAvg().aggregate(updates, state()).rows}
    assert_same({name: row[GLOBAL] for name, row in rows.items()}, plain)


def test_divergences_by_the_way_walked() -> None:
    updates = [update("ana", 0.6, rate_sum=3.0), update("bob", 0.3, rate_sum=0.5)]
    assert FedDWA(kld_step_norm=True).aggregate(updates, state()).log["weights"] == pytest.approx(
        {"ana": 0.25, "bob": 0.75}
    )
    without = FedDWA(kld_step_norm=True).aggregate([update("ana", 0.6), updates[1]], state())
    assert list(without.log["dropped"]) == ["ana"]  # type: ignore[arg-type]


def test_the_order_of_robots_follows_their_names_alone() -> None:
    updates = [update("ana", 0.2), update("bob", 0.3), update("cho", 0.5)]
    left, right = (FedDWA().aggregate(given, state()) for given in (updates, updates[::-1]))
    for (_, a), (_, b) in zip(left.rows, right.rows, strict=True):
        assert_same(a, b)
    assert left.memory == right.memory


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dwa_direction": "up"}, "FedDWA.dwa_direction is 'up'; choose one of increasing, inverse, softmax_neg"),
        ({"w_max": 1.5}, "FedDWA.w_max is 1.5; it must lie between 0.0 and 1.0"),
        ({"cv_update": "III"}, "FedDWA.cv_update is 'III'; choose one of I, II"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(FedDWA, options)


@pytest.mark.parametrize("options", [{"cv_update": "II"}, {"cv_space": "update"}])
def test_steps_that_are_divided_by_the_rate_need_one_rate_in_a_round(options: dict[str, Any]) -> None:
    cyclic = {"optimizer": "sgd", "schedule": "cyclic"}
    with pytest.raises(ConfigError, match="feddwa: cv_update II and cv_space update need one learning rate in a round"):
        FedDWA(**options).check_training(cyclic)
    FedDWA().check_training(cyclic)
