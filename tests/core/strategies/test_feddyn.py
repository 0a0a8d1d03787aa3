from dataclasses import replace

import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.feddyn import FedDyn
from tests.core.strategies.first_steps import differ, first_round
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, robots
from tests.core.strategies.quadratics import SGD, Quadratic, Walkers, infos, start, walkers

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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"alpha": 0.0}, "FedDyn.alpha is 0.0; it must be at least 1e-08"),
        ({"grad_clip": -1}, "FedDyn.grad_clip is -1.0; it must be at least 0.0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(FedDyn, options)
