"""Projected updates, by hand and by their defining inequality (fedcka spec 11.6)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.strategies import pcgrad
from fed_core.strategies.base import GLOBAL, RobotInfo, ServerState, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.pcgrad import PCGrad, inner_products, project
from fed_core.types import Array, Memory, ModelSignature, TensorSpec
from tests.core.strategies.harness import Fleet, assert_same, robots

SIGNATURE = ModelSignature(
    "flat",
    (
        TensorSpec("w", (2,), "float64"),
        TensorSpec("bn.running_mean", (1,), "float64", False, "bn", "BatchNorm1d"),
        TensorSpec("v", (1,), "float64"),
    ),
)


def tensors(*values: float) -> dict[str, Array]:
    a, b, stat, c = (float(value) for value in values)
    return {"w": np.array([a, b]), "bn.running_mean": np.array([stat]), "v": np.array([c])}


def after(strategy: FedAvg, updates: list[Update], model: dict[str, Array], number: int = 2) -> dict[str, Array]:
    known = {u.robot_id: RobotInfo(u.robot_id, u.num_samples) for u in updates}
    outcome = strategy.aggregate(updates, ServerState(number, known, Memory(), {GLOBAL: model}, SIGNATURE))
    return {name: row[GLOBAL] for name, row in outcome.rows}


def test_two_opposing_updates_by_hand() -> None:
    """g = (1, 0) and (-1, 1): products 1, 2 and -1.

    g_1' = (1, 0) + 1/2 (-1, 1) = (1/2, 1/2); g_2' = (-1, 1) + (1, 0) = (0, 1). With 3 and 1 samples the model moves
    from 0 by -(3/8, 3/8 + 1/4); statistics are the plain mean 3/4 * 4 + 1/4 * 8.
    """
    updates = [Update("ana", 3, tensors(-1, 0, 4, 0)), Update("bob", 1, tensors(1, -1, 8, 0))]
    new = after(PCGrad(), updates, tensors(0, 0, 0, 0))
    np.testing.assert_allclose(new["w"], [-3 / 8, -5 / 8], atol=1e-7)
    np.testing.assert_array_equal(new["bn.running_mean"], [5.0])
    np.testing.assert_array_equal(new["v"], [0.0])


def test_as_released_the_second_meets_what_is_left_of_the_first_and_statistics_count() -> None:
    """Without statistics g_2 = (-1, 1) meets g_1' = (1/2, 1/2): their product is 0, nothing happens."""
    updates = [Update("ana", 3, tensors(-1, 0, 0, 0)), Update("bob", 1, tensors(1, -1, 0, 0))]
    new = after(PCGrad(released=True), updates, tensors(0, 0, 0, 0))
    np.testing.assert_allclose(new["w"], [-3 / 8 + 1 / 4, -3 / 8 - 1 / 4], atol=1e-7)
    # Statistics alone oppose each other: the updates are projected, not averaged.
    opposed = [Update("ana", 1, tensors(0, 0, -1, 0)), Update("bob", 1, tensors(0, 0, 2, 0))]
    plain, released = (after(PCGrad(released=how), opposed, tensors(0, 0, 0, 0)) for how in (False, True))
    assert plain["bn.running_mean"] == 0.5
    np.testing.assert_allclose(released["bn.running_mean"], 1.0, atol=1e-7)  # half of 2, ana's share is gone


def test_without_conflict_it_is_fedavg_bit_by_bit() -> None:
    rng = np.random.default_rng(3)
    updates = [Update(r, n, tensors(*rng.uniform(0.1, 1.0, 4))) for r, n in (("ana", 3), ("bob", 5), ("cho", 7))]
    model = tensors(0, 0, 0, 0)
    assert_same(after(PCGrad(), updates, model), after(FedAvg(), updates, model))


def test_round_one_is_fedavg_even_with_conflicts() -> None:
    updates = [Update("ana", 3, tensors(-1, 0, 4, 0)), Update("bob", 1, tensors(1, -1, 8, 0))]
    model = tensors(0, 0, 0, 0)
    assert_same(after(PCGrad(), updates, model, number=1), after(FedAvg(), updates, model, number=1))


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_after_one_projection_no_update_opposes_the_other(seed: int, size: int) -> None:
    g = np.random.default_rng(seed).normal(size=(2, size))
    mixed = project(g @ g.T, np.random.default_rng(0))
    kept = mixed @ g
    slack = 1e-6 * (1.0 + np.abs(g @ g.T).max())
    assert kept[0] @ g[1] >= -slack and kept[1] @ g[0] >= -slack
    if g[0] @ g[1] >= 0:
        np.testing.assert_array_equal(mixed, np.eye(2))


def test_the_order_is_drawn_anew_each_round_and_by_the_seed() -> None:
    """Three updates in a plane that all oppose each other: what is left depends on who came first."""
    angles = np.radians([0.0, 115.0, 230.0])
    g = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    model = tensors(0, 0, 0, 0)
    updates = [Update(r, 1, tensors(-x, -y, 0, 0)) for r, (x, y) in zip(("ana", "bob", "cho"), g, strict=True)]
    seen = [after(PCGrad(seed=seed), updates, model, number)["w"] for seed in range(2) for number in range(2, 8)]
    again = [after(PCGrad(seed=seed), updates[::-1], model, number)["w"] for seed in range(2) for number in range(2, 8)]
    np.testing.assert_array_equal(seen, again)
    assert len({row.tobytes() for row in seen}) > 1


def test_inner_products_are_added_up_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcgrad, "_BLOCK", 1)  # the smallest block is 1024 values
    rng = np.random.default_rng(0)
    model = {"w": rng.normal(size=5000).astype(np.float32), "s": rng.normal(size=3)}
    updates = [
        Update(r, 1, {n: (a + rng.normal(size=a.shape)).astype(a.dtype) for n, a in model.items()}) for r in "abc"
    ]
    g = np.stack([model["w"].astype(float) - u.weights["w"] for u in updates])
    np.testing.assert_allclose(inner_products(updates, model, frozenset({"w"})), g @ g.T, atol=1e-9)


def test_conflicts_are_counted() -> None:
    run = Fleet(PCGrad(), robots({"ana": 0.0, "bob": 1.0, "cho": 2.0})).begin().run(1)
    assert "conflicts" not in run.log
    assert 0 <= int(run.run(1).log["conflicts"]) <= 3  # type: ignore[call-overload]
    assert replace(PCGrad(), seed=3).seed == 3


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="PCGrad.seed is -1; it must be at least 0"):
        from_tree(PCGrad, {"seed": -1})
