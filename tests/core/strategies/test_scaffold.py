from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.config import from_tree
from fed_core.errors import ConfigError, TrainingError
from fed_core.strategies.base import GLOBAL, LocalState, RobotInfo, RobotPlan, ServerState, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.scaffold import Corrected, Scaffold
from fed_core.training.options import TrainConfig
from fed_core.types import Memory
from tests.core.strategies.first_steps import differ, first_round
from tests.core.strategies.harness import SIGNATURE, assert_same, initial
from tests.core.strategies.quadratics import SGD, Quadratic, Walkers, infos, walkers

#: Two steps per round: every number below can be followed by hand.
TWO_STEPS = replace(SGD, local_epochs=2)
ADAM = TrainConfig(
    optimizer="adam", weight_decay=0.0, grad_clip=0.0, batch_size=1, local_epochs=10, augment=False, device="cpu"
)
both = pytest.mark.parametrize("control", ["gradient", "path"])


def pair(control: str = "gradient", **options: Any) -> Walkers:
    """Two robots with 1 and 3 samples, curvature 1, targets 4 and 8 in the first coordinate; rate 0.5."""
    tasks = {"ana": Quadratic(1.0, (4.0, 0.0)), "bob": Quadratic(1.0, (8.0, 0.0))}
    strategy = Scaffold(control=control, **options)
    return Walkers(strategy, infos({"ana": 1, "bob": 3}), tasks=tasks, config=TWO_STEPS, lr=0.5).begin()  # type: ignore[return-value]


def own(run: Walkers, robot_id: str) -> float:
    return float(run.memories[robot_id].tensors["after/w"][0])


@pytest.mark.parametrize(("control", "optimizer"), [("gradient", "adamw"), ("gradient", "sgd"), ("path", "sgd")])
def test_with_zero_controls_the_first_round_is_fedavgs_bit_by_bit(control: str, optimizer: str) -> None:
    plain, corrected = (first_round(s, optimizer=optimizer) for s in (FedAvg(), Scaffold(control=control)))
    assert_same(corrected, plain)


def test_other_controls_change_the_first_step() -> None:
    class Shifted(Scaffold):
        def local_rule(self) -> Any:
            rule = Corrected(by_path=False)
            begin = rule.begin

            def shifted(state: Any) -> None:
                begin(state)
                rule._shift["head.weight"] += 1.0

            rule.begin = shifted  # type: ignore[method-assign]
            return rule

    assert "head.weight" in differ(first_round(Shifted(), steps=1), first_round(FedAvg(), steps=1))


@both
def test_two_rounds_by_hand(control: str) -> None:
    run = pair(control).run(1)
    # ana: gradients -4, -2, walks to 3; bob: -8, -4, walks to 6. p = 1/4, 3/4. Controls: means -3, -6; c = -4.5.
    assert run.w[0] == 0.25 * 3.0 + 0.75 * 6.0 == 5.25
    assert (own(run, "ana"), own(run, "bob")) == (-3.0, -6.0)
    assert run.blobs["control"]["w"][0] == -4.5 and run.log["control_norm"] == 4.5
    run.run(1)
    # ana: g 1.25 + 3 - 4.5 = -0.25 to 5.375, g 1.375 - 1.5 = -0.125 to 5.4375; control (1.25 + 1.375) / 2.
    # bob: g -2.75 + 6 - 4.5 = -1.25 to 5.875, g -2.125 + 1.5 = -0.625 to 6.1875; control (-2.75 - 2.125) / 2.
    assert run.w[0] == pytest.approx(0.25 * 5.4375 + 0.75 * 6.1875, rel=1e-15)
    assert (own(run, "ana"), own(run, "bob")) == (pytest.approx(1.3125), pytest.approx(-2.4375))
    assert run.blobs["control"]["w"][0] == pytest.approx((1.3125 - 2.4375) / 2)


def test_who_is_absent_stays_in_the_mean_of_the_controls() -> None:
    run = pair().run(1).run(1, ["bob"])
    # From 5.25 bob walks as above, to 6.1875, which is all of the model; c = -4.5 + (-2.4375 + 6) / 2.
    assert run.w[0] == 6.1875
    assert run.blobs["control"]["w"][0] == pytest.approx(-4.5 + 3.5625 / 2)


def test_the_step_of_the_model() -> None:
    run = pair(eta_g=0.5).run(1)
    assert run.w[0] == 0.5 * 5.25
    assert run.blobs["global"]["seen"][0] == 0.25 * 8.0 + 0.75 * 16.0  # buffers: the plain mean
    assert run.blobs["control"]["w"][0] == -4.5


@both
def test_it_reaches_the_optimum_that_fedavg_misses(control: str) -> None:
    config = replace(SGD, local_epochs=5)
    run = walkers(Scaffold(control=control), config=config, lr=0.1).run(60)
    pulls = {r: task.curvature for r, task in run.tasks.items()}
    robots_equal = sum(pulls[r] * np.array(t.target) for r, t in run.tasks.items()) / sum(pulls.values())
    np.testing.assert_allclose(run.w, robots_equal, atol=1e-6)
    np.testing.assert_allclose(run.blobs["control"]["w"], 0.0, atol=1e-6)
    plain = walkers(FedAvg(), config=config, lr=0.1).run(60)
    assert np.linalg.norm(plain.w - plain.optimum()) > 1.0


def test_weighted_by_samples_it_is_the_optimum_of_fedavgs_objective() -> None:
    run = walkers(Scaffold(weights="samples"), config=replace(SGD, local_epochs=5), lr=0.1).run(60)
    np.testing.assert_allclose(run.w, run.optimum(), atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_with_adam_it_reaches_the_optimum_whatever_the_scale_of_gradients(scale: float) -> None:
    def run(strategy: Any) -> Walkers:
        fleet = walkers(strategy, config=ADAM, lr=0.3, decay=0.93)
        fleet.tasks = {
            r: replace(t, scale=scale, noise=0.1, rng=np.random.default_rng(i))
            for i, (r, t) in enumerate(fleet.tasks.items())
        }
        return fleet.run(60)  # type: ignore[return-value]

    corrected, plain = run(Scaffold(weights="samples")), run(FedAvg())
    size = np.linalg.norm(plain.optimum())
    assert np.linalg.norm(corrected.w - corrected.optimum()) < 0.01 * size
    assert np.linalg.norm(plain.w - plain.optimum()) > 0.1 * size


PATH = (
    "scaffold: 'control: path' holds for plain SGD with one learning rate, but the optimiser did another step; "
    "set train.optimizer to sgd and encoder_lr_scale to 1, or control to gradient"
)


@pytest.mark.parametrize("changes", [{"optimizer": "adam"}, {"optimizer": "adamw"}, {"encoder_lr_scale": 0.1}])
def test_the_path_of_another_optimiser_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TrainingError) as caught:
        first_round(Scaffold(control="path"), **{"optimizer": "sgd", **changes})
    assert str(caught.value) == PATH


@pytest.mark.parametrize("changes", [{"weight_decay": 0.1}, {"grad_clip": 0.0}, {"lr": 1e-8}, {"lr": 1.0}])
def test_plain_sgd_is_known_for_what_it_is(changes: dict[str, Any]) -> None:
    assert differ(first_round(Scaffold(control="path"), optimizer="sgd", **changes), first_round(FedAvg(), steps=1))


def test_the_path_needs_a_learning_rate() -> None:
    with pytest.raises(TrainingError, match="'control: path' divides by the learning rate, which is 0"):
        first_round(Scaffold(control="path"), optimizer="sgd", lr=0.0)


def test_controls_are_those_of_parameters() -> None:
    run = pair().run(2)
    assert sorted(run.blobs) == ["control", "global"] and list(run.blobs["control"]) == ["w"]
    assert set(run.memories["ana"].tensors) == {"before/w", "after/w"}
    assert run.plans["ana"] == RobotPlan(("global",), ("control",), {"round": 3, "counted": 2})


def test_a_lost_update_leaves_robot_and_aggregator_in_step() -> None:
    lucky, unlucky = pair().run(1), pair().run(1)
    unlucky.round += 1
    unlucky.update("ana")  # trains, remembers, and its update never arrives
    unlucky.round -= 1
    for run in (lucky, unlucky):
        run.run(1, ["bob"]).run(2)
        mean = (own(run, "ana") + own(run, "bob")) / 2
        assert run.blobs["control"]["w"][0] == pytest.approx(mean, rel=1e-14)
    assert_same(unlucky.blobs["global"], lucky.blobs["global"])


def test_a_newcomer_has_a_zero_control() -> None:
    run = pair().run(1)
    run.tasks["cho"] = Quadratic(1.0, (1.0, 0.0))  # type: ignore[index]
    plan = run.join(infos({"cho": 2})["cho"])
    assert plan == RobotPlan(("global",), ("control",), {"round": 2, "counted": 0})
    run.run(1, ["cho"])
    np.testing.assert_array_equal(run.memories["cho"].tensors["before/w"], [0.0, 0.0])
    # The mean is now over three: (-3 - 6 + c_cho) / 3.
    assert run.blobs["control"]["w"][0] == pytest.approx((-9.0 + own(run, "cho")) / 3)


def test_controls_start_anew_when_a_robot_leaves() -> None:
    run = pair().run(2)
    del run.robots["bob"]
    run.run(1)
    np.testing.assert_array_equal(run.blobs["control"]["w"], [0.0, 0.0])
    assert run.log["without_control"] == ["ana"]
    run.run(1)
    np.testing.assert_array_equal(run.memories["ana"].tensors["before/w"], [0.0, 0.0])
    assert run.blobs["control"]["w"][0] == own(run, "ana")


@pytest.mark.parametrize("broken", ["none", "missing", "foreign", "shape", "type"])
def test_an_update_without_a_fitting_control_moves_the_model_only(broken: str) -> None:
    good = {s.name: np.ones(s.shape, np.float32) for s in SIGNATURE.tensors if s.trainable}
    extras: dict[str, Any] = {
        "none": {},
        "missing": {name: array for name, array in good.items() if name != "bn.weight"},
        "foreign": {**good, "bn.running_mean": np.ones(3, np.float32)},
        "shape": {**good, "bn.weight": np.ones((3, 3), np.float32)},
        "type": {**good, "bn.weight": np.ones(3, np.int64)},
    }[broken]
    plans = {r: RobotPlan((GLOBAL,), values={"counted": 0}) for r in ("ana", "bob")}
    robots = {r: RobotInfo(r, 10) for r in plans}
    state = ServerState(1, robots, Memory(), {GLOBAL: initial()}, SIGNATURE, plans)
    updates = [Update("ana", 10, initial(1), extras), Update("bob", 10, initial(2), good)]

    outcome = Scaffold().aggregate(updates, state)
    rows = dict(outcome.rows)

    assert outcome.log["without_control"] == ["ana"]
    text = "its control variate does not have the parameters and shapes of the model, so it moves the model only"
    assert outcome.log["warnings"] == [f"robot 'ana': {text}"]
    assert outcome.memory.values["counted"] == {"bob": 1}
    np.testing.assert_array_equal(rows["bn.weight"]["control"], np.full(3, 0.5, np.float32))
    plain = {name: row[GLOBAL] for name, row in FedAvg().aggregate(updates, state).rows}
    assert_same({name: row[GLOBAL] for name, row in rows.items()}, plain)
    assert set(rows["bn.running_mean"]) == {GLOBAL}


def test_a_parameter_that_no_gradient_reaches_keeps_its_share_of_zero() -> None:
    rule = Corrected(by_path=False)
    network = torch.nn.ModuleDict(
        {"used": torch.nn.Linear(1, 1, bias=False), "idle": torch.nn.Linear(1, 1, bias=False)}
    )
    begin = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    state = LocalState(network, begin, Memory(), {}, {"round": 1, "counted": 0}, 1, lr=0.1)
    rule.begin(state)
    network["used"](torch.ones(1, 1)).sum().backward()
    rule.correct_gradient(state)
    state.step = 1
    result = rule.finish(state)
    assert {name: array.tolist() for name, array in result.extras.items()} == {
        "used.weight": [[1.0]],
        "idle.weight": [[0.0]],
    }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"control": "magic"}, "Scaffold.control is 'magic'; choose one of gradient, path"),
        ({"weights": "frames"}, "Scaffold.weights is 'frames'; choose one of robots, samples"),
        ({"eta_g": 0.0}, "Scaffold.eta_g is 0.0; it must lie between 0.001 and 10.0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(Scaffold, options)


def test_a_path_needs_one_learning_rate_in_a_round() -> None:
    cyclic = {"optimizer": "sgd", "schedule": "cyclic"}
    with pytest.raises(ConfigError, match="scaffold: control path needs one learning rate in a round, but train.sched"):
        Scaffold(control="path").check_training(cyclic)
    Scaffold().check_training(cyclic)
    Scaffold(control="path").check_training({"optimizer": "sgd"})
