from dataclasses import replace

import numpy as np
import pytest
import torch

from fed_core.config import from_tree
from fed_core.errors import ConfigError, StrategyError
from fed_core.strategies.base import LocalState, Strategy
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.feddyn import FedDyn
from fed_core.strategies.fedprox import FedProx
from fed_core.types import Memory
from tests.core.strategies.first_steps import differ, first_round
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, robots
from tests.core.strategies.quadratics import SGD, Quadratic, Walkers, infos, start, walkers
from tests.core.training.tiny import signature, tiny

#: One step per round: every number below can be followed by hand.
ONE_STEP = replace(SGD, local_epochs=1)


def pair(**options: float) -> Walkers:
    """Two robots, 1 and 3 samples, curvature 1, targets 4 and 8 in the first coordinate; rate 0.5."""
    tasks = {"ana": Quadratic(1.0, (4.0, 0.0)), "bob": Quadratic(1.0, (8.0, 0.0))}
    strategy = FedDyn(alpha=0.5, grad_clip=0.0)
    return Walkers(strategy, infos({"ana": 1, "bob": 3}), tasks=tasks, config=ONE_STEP, lr=0.5, **options).begin()  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_first_local_step_is_fedavgs_bit_by_bit(optimizer: str) -> None:
    strong = FedDyn(alpha=1.0)
    plain, dynamic = (first_round(s, steps=1, optimizer=optimizer) for s in (FedAvg(), strong))
    assert_same(dynamic, plain)
    later = (first_round(s, steps=2, optimizer=optimizer) for s in (FedAvg(), strong))
    assert "head.weight" in differ(*later)


def test_two_rounds_by_hand() -> None:
    run = pair()
    # a_c = 0.5 * mean samples 2 / own samples.
    assert [run.plans[r].values["alpha"] for r in ("ana", "bob")] == [1.0, 1.0 / 3.0]
    run.run(1)
    # From 0: ana walks 0.5 * 4 = 2, bob 0.5 * 8 = 4; d = 2 and 4; mean 3, start 3 + (2 + 4) / 2 = 6.
    assert run.blobs["global"]["w"][0] == 3.0
    assert run.blobs["start"]["w"][0] == 6.0 and run.blobs["drift"]["w"][0] == 6.0
    assert run.log["drift_norm"] == 3.0
    run.run(1)
    # From 6: ana's gradient is (6 - 4) + 1 * 2 = 4, bob's (6 - 8) + 4 / 3 = -2 / 3. They walk -2 and 1 / 3.
    np.testing.assert_allclose(run.blobs["global"]["w"][0], (4.0 + 19.0 / 3.0) / 2.0, rtol=1e-15)
    drift = (2.0 - 2.0) + (4.0 + 1.0 / 3.0)
    np.testing.assert_allclose(run.blobs["drift"]["w"][0], drift, rtol=1e-15)
    np.testing.assert_allclose(run.blobs["start"]["w"][0], (4.0 + 19.0 / 3.0) / 2.0 + drift / 2.0, rtol=1e-15)


def test_absent_robots_stay_in_the_sum() -> None:
    run = pair().run(1).run(1, ["bob"])
    # The mean is bob's alone, 6 + 1 / 3; the drift keeps ana's 2, and is divided by both robots.
    np.testing.assert_allclose(run.blobs["global"]["w"][0], 19.0 / 3.0, rtol=1e-15)
    np.testing.assert_allclose(run.blobs["drift"]["w"][0], 6.0 + 1.0 / 3.0, rtol=1e-15)
    np.testing.assert_allclose(run.blobs["start"]["w"][0], 19.0 / 3.0 + 19.0 / 6.0, rtol=1e-15)


def test_a_lost_update_leaves_robot_and_aggregator_in_step() -> None:
    lucky = pair().run(1)
    unlucky = pair().run(1)
    unlucky.round += 1
    unlucky.update("ana")  # trains, remembers, and its update never arrives
    unlucky.round -= 1
    for run in (lucky, unlucky):
        run.run(1, ["bob"]).run(2)
    assert_same(unlucky.blobs["start"], lucky.blobs["start"])
    assert_same(unlucky.blobs["drift"], lucky.blobs["drift"])


def test_it_reaches_the_optimum_that_fedavg_misses() -> None:
    config = replace(SGD, local_epochs=5)
    dynamic = walkers(FedDyn(alpha=1.0, grad_clip=0.0), config=config, lr=0.2).run(30)
    plain = walkers(FedAvg(), config=config, lr=0.2).run(30)
    assert np.linalg.norm(plain.w - plain.optimum()) > 1.0
    np.testing.assert_allclose(dynamic.w, dynamic.optimum(), atol=1e-5)
    assert float(dynamic.log["drift_norm"]) < 1e-5  # type: ignore[arg-type]


def test_the_optimum_is_reached_with_one_absent_in_every_round() -> None:
    run = walkers(FedDyn(alpha=1.0, grad_clip=0.0), config=replace(SGD, local_epochs=5), lr=0.2)
    for absent in ("ana", "bob", "cho") * 15:
        run.run(1, sorted(set(run.robots) - {absent}))
    np.testing.assert_allclose(run.blobs["start"]["w"], run.optimum(), atol=1e-3)


def test_robots_start_from_the_shifted_model_and_the_plain_mean_is_served() -> None:
    run = Fleet(FedDyn(), robots({"ana": 0.0, "bob": 1.0})).begin().run(2)
    assert run.last.models == ("global",)
    assert {plan.load for plan in run.plans.values()} == {("start",)}
    assert sorted(run.blobs) == ["drift", "global", "start"]
    assert list(run.blobs["drift"]) == [s.name for s in SIGNATURE.tensors if s.trainable]
    assert run.blobs["drift"]["conv.bias"].dtype == np.float32  # a sum of halves needs more than half precision
    for name in ("bn.running_mean", "bn.num_batches_tracked", "dct.basis"):
        np.testing.assert_array_equal(run.blobs["start"][name], run.blobs["global"][name])
    assert not np.array_equal(run.blobs["start"]["conv.weight"], run.blobs["global"]["conv.weight"])


def test_buffers_do_not_drift() -> None:
    run = walkers(FedDyn(), config=ONE_STEP).run(2)
    assert set(run.memories["ana"].tensors) == {"before/w", "after/w"}
    np.testing.assert_array_equal(run.blobs["start"]["seen"], run.blobs["global"]["seen"])


def test_the_drift_starts_anew_when_a_robot_leaves() -> None:
    run = walkers(FedDyn(alpha=1.0)).run(3)
    del run.robots["cho"]
    run.run(1)
    np.testing.assert_array_equal(run.blobs["drift"]["w"], [0.0, 0.0])
    assert_same(run.blobs["start"], run.blobs["global"])
    before = {r: run.start_of(r)["w"] for r in run.robots}
    run.run(1)
    walks = sum(run.memories[r].tensors["after/w"] for r in run.robots)
    np.testing.assert_array_equal(run.blobs["drift"]["w"], walks)
    assert all((run.memories[r].tensors["before/w"] == 0).all() for r in before)


def test_a_newcomer_has_no_drift_and_starts_with_the_others() -> None:
    run = walkers(FedDyn(alpha=1.0)).run(2)
    drift = run.blobs["drift"]["w"].copy()
    run.tasks["dag"] = Quadratic(1.0, (1.0, 1.0))  # type: ignore[index]
    plan = run.join(infos({"dag": 20})["dag"])
    assert plan.load == ("start",) and plan.values["counted"] == 0
    assert plan.values["alpha"] == 1.0  # 80 samples / 4 robots / 20
    run.run(1, ["dag"])
    np.testing.assert_allclose(run.blobs["drift"]["w"], drift + run.memories["dag"].tensors["after/w"])


def test_the_gradient_is_clipped_with_the_regulariser() -> None:
    far = {"ana": Quadratic(1.0, (300.0, 400.0))}
    clipped, free = (
        Walkers(FedDyn(grad_clip=clip), infos({"ana": 1}), tasks=far, config=ONE_STEP, lr=1.0, start_weights=start())
        .begin()
        .run(1)
        for clip in (10.0, 0.0)
    )
    np.testing.assert_allclose(clipped.blobs["global"]["w"], [6.0, 8.0], rtol=1e-6)
    np.testing.assert_allclose(free.blobs["global"]["w"], [300.0, 400.0])


def two_of_different_curvature(strategy: Strategy) -> Walkers:
    """Many steps a round, so that each robot all but reaches its own optimum."""
    tasks = {"ana": Quadratic(5.0, (0.0, 1.0)), "bob": Quadratic(0.5, (6.0, -2.0))}
    many = replace(SGD, local_epochs=60)
    return Walkers(strategy, infos({"ana": 10, "bob": 30}), tasks=tasks, config=many, lr=0.1).begin()  # type: ignore[return-value]


@pytest.mark.parametrize("drift_from", [1, 4])
def test_two_robots_of_different_curvature_reach_the_joint_optimum_that_fedavg_misses(drift_from: int) -> None:
    dynamic = two_of_different_curvature(
        FedDyn(alpha=1.0, grad_clip=0.0, weights="samples", drift_from=drift_from)
    ).run(60)
    plain = two_of_different_curvature(FedAvg()).run(60)
    assert np.linalg.norm(plain.w - plain.optimum()) > 1.0
    np.testing.assert_allclose(dynamic.w, dynamic.optimum(), atol=1e-6)
    np.testing.assert_allclose(dynamic.blobs["start"]["w"], dynamic.optimum(), atol=1e-6)


def test_a_round_by_hand_with_means_over_samples() -> None:
    run = pair()
    run.strategy = FedDyn(alpha=0.5, grad_clip=0.0, weights="samples")
    run.begin()
    assert [run.plans[r].values["alpha"] for r in ("ana", "bob")] == [0.5, 0.5]
    run.run(1)
    # ana walks 2, bob 4: the mean is (2 + 3 * 4) / 4, and so is the mean drift.
    assert run.blobs["global"]["w"][0] == 3.5
    assert run.blobs["drift"]["w"][0] == 14.0 and run.blobs["start"]["w"][0] == 7.0


def test_before_its_first_round_there_is_no_drift_but_the_pull_to_the_start() -> None:
    config = replace(SGD, local_epochs=5)
    late = walkers(FedDyn(alpha=1.0, grad_clip=0.0, drift_from=3), config=config).run(2)
    assert_same(late.blobs["start"], late.blobs["global"])
    assert late.log["drift_norm"] == 0.0
    prox = walkers(FedProx(mu=1.0), config=config).run(2)
    assert not np.array_equal(prox.w, walkers(FedAvg(), config=config).run(2).w)
    early = Walkers(
        FedDyn(alpha=1.0, grad_clip=0.0, weights="samples", drift_from=3), prox.robots, tasks=prox.tasks, config=config
    ).begin()
    np.testing.assert_allclose(early.run(2).blobs["global"]["w"], prox.w, rtol=1e-12)  # FedProx with mu = alpha
    late.run(1)
    walks = sum(late.memories[r].tensors["after/w"] for r in late.robots)
    np.testing.assert_allclose(late.blobs["drift"]["w"], walks)
    assert all((late.memories[r].tensors["before/w"] == 0).all() for r in late.robots)


def test_parts_have_their_own_alpha_and_norm_layers_none() -> None:
    strategy = FedDyn(part_alpha={"attention": 0.1, "camera": 0.0}, norm_penalty=False)
    factors = strategy.factors(SIGNATURE)
    assert factors == {
        "conv.weight": 0.1, "attention.bias": 0.1, "conv.bias": 0.0, "bn.weight": 0.0, "bn.running_mean": 0.0,
        "bn.running_var": 0.0, "bn.num_batches_tracked": 0.0,
    }  # fmt: skip
    run = Fleet(strategy, robots({"ana": 0.0, "bob": 1.0})).begin().run(2)
    assert list(run.blobs["drift"]) == ["conv.weight", "attention.bias"]
    for name in ("conv.bias", "bn.weight"):
        np.testing.assert_array_equal(run.blobs["start"][name], run.blobs["global"][name])


def test_the_pull_is_scaled_by_part_and_leaves_out_norm_layers() -> None:
    """The parts of the tiny network: encoder.0.weight is "attention", its head "head"."""
    network = tiny()
    start = {name: tensor.detach() - 1.0 for name, tensor in network.state_dict().items()}
    strategy = FedDyn(alpha=0.5, grad_clip=0.0, part_alpha={"attention": 0.1, "head": 0.0}, norm_penalty=False)
    state = LocalState(
        network, start, Memory(), {}, {"alpha": 2.0, "round": 1, "counted": 0}, 8, signature(network, "tiny")
    )
    rule = strategy.local_rule()
    rule.begin(state)
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    rule.correct_gradient(state)
    found = {name: round(float(p.grad.mean()), 5) for name, p in network.named_parameters()}
    assert found == {
        "encoder.0.weight": 0.2, "encoder.0.bias": 2.0, "encoder.1.weight": 0.0, "encoder.1.bias": 0.0,
        "head.weight": 0.0, "head.bias": 0.0,
    }  # fmt: skip
    assert set(rule.finish(state).memory.tensors) == {
        f"{when}/encoder.0.{kind}" for when in ("before", "after") for kind in ("weight", "bias")
    }


def test_the_loop_clips_the_pull_too() -> None:
    config = replace(ONE_STEP, local_epochs=2, grad_clip=1.0)
    strategy = FedDyn(alpha=1e3, grad_clip=0.0)
    run = Walkers(strategy, infos({"ana": 1}), tasks={"ana": Quadratic(1.0, (9.0, 0.0))}, config=config, lr=1.0)
    run.begin().run(1)
    # A step of 1 towards 9, then one back: the pull of 1000 counts as 1.
    np.testing.assert_allclose(run.blobs["global"]["w"], [0.0, 0.0], atol=1e-5)


def test_a_part_that_the_network_does_not_name_is_refused() -> None:
    run = Fleet(FedDyn(part_alpha={"image_neck": 0.1}), robots({"ana": 0.0}))
    with pytest.raises(
        StrategyError, match="feddyn needs to know the image_neck layers, but the network 'toy' names n"
    ):
        run.begin()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"part_alpha": {"head": -1.0}}, "FedDyn.part_alpha.head is -1.0; it must be at least 0"),
        ({"weights": "scenes"}, "FedDyn.weights is 'scenes'; choose one of robots, samples"),
        ({"drift_from": 0}, "FedDyn.drift_from is 0; it must be at least 1"),
        ({"alpha": 0.0}, "FedDyn.alpha is 0.0; it must be at least 1e-08"),
        ({"grad_clip": -1}, "FedDyn.grad_clip is -1.0; it must be at least 0.0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(FedDyn, options)
