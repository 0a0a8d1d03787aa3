"""DALoss around other strategies (feddwa spec 3 and 14: A6)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.config import from_tree
from fed_core.errors import ConfigError, TrainingError, UnknownNameError
from fed_core.strategies.base import LocalRule, LocalState, make_strategy
from fed_core.strategies.daloss import DALoss, DivergencePull
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.feddwa import DynamicallyWeighted, FedDWA
from fed_core.strategies.fedprox import FedProx
from fed_core.strategies.scaffold import Scaffold
from fed_core.training.divergence import Divergence
from fed_core.types import Memory
from tests.core.strategies.first_steps import differ, first_round
from tests.core.strategies.harness import SIGNATURE, assert_same
from tests.core.strategies.quadratics import SGD, Quadratic, Walkers, infos, start, walkers

FIVE_STEPS = replace(SGD, local_epochs=5)


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> float:
    """Quadratics have no classes: let every divergence be 0.5."""
    monkeypatch.setattr(Divergence, "of_step", lambda self, state, batch, outputs: torch.tensor(0.5))
    monkeypatch.setattr(Divergence, "after_training", lambda self, state: 0.5)
    return 0.5


@pytest.mark.parametrize("options", [{}, {"inner": "scaffold"}, {"inner": "feddwa"}, {"inner": "fedprox"}])
def test_without_weight_a_round_is_the_inner_strategys_bit_by_bit(options: dict[str, Any]) -> None:
    inner = make_strategy(options.get("inner", "fedavg"), {})
    assert_same(first_round(DALoss(**options, C=0.0)), first_round(inner))


@pytest.mark.parametrize("norm_power", [1, 2])
def test_the_first_step_feels_no_pull_and_later_ones_do(norm_power: int) -> None:
    """At the start of a round the distance is 0, and so is the gradient of its norm, never NaN."""
    strong = DALoss(C=100.0, norm_power=norm_power)
    assert_same(first_round(strong, steps=1), first_round(FedAvg(), steps=1))
    later = first_round(strong, steps=3)
    assert "head.weight" in differ(later, first_round(FedAvg(), steps=3))
    assert all(np.isfinite(array).all() for array in later.values())


def test_in_the_first_round_there_is_no_divergence_of_the_last() -> None:
    assert_same(first_round(DALoss(C=100.0, kld_refresh="per_round")), first_round(FedAvg()))


@pytest.mark.parametrize("refresh", ["per_step", "per_round"])
def test_a_fixed_divergence_is_fedprox(refresh: str, fixed: float) -> None:
    pulled = walkers(DALoss(C=3.0, kld_refresh=refresh), config=FIVE_STEPS, lr=0.1)
    prox = walkers(FedProx(mu=2 * 3.0 * fixed), config=FIVE_STEPS, lr=0.1)
    if refresh == "per_round":
        pulled.memories = {r: Memory(values={"daloss/divergence": fixed}) for r in pulled.robots}
    for run in (pulled, prox):
        run.run(3)
    np.testing.assert_allclose(pulled.w, prox.w, rtol=1e-6)  # the coefficient is float32


def test_the_pull_by_hand(fixed: float) -> None:
    """Descent on ``(w - 8)^2 / 2 + C D |w - 2|`` from 2, rate 0.5, C D = 1: 2 -> 5 -> 6 -> 6.5."""
    run = Walkers(DALoss(C=2.0, norm_power=1), infos({"ana": 1}), tasks={"ana": Quadratic(1.0, (8.0, 2.0))}, lr=0.5,
                  config=replace(SGD, local_epochs=3), start_weights=start((2.0, 2.0))).begin().run(1)  # fmt: skip
    np.testing.assert_allclose(run.blobs["global"]["w"], [6.5, 2.0], rtol=1e-6)
    scalars = run.outcomes["ana"].result.scalars  # type: ignore[attr-defined]
    assert scalars["q"] == pytest.approx((0 + 3 + 4) / 3)
    assert scalars["q_over_s"] == pytest.approx((0 + 3 + 4) / (18 + 4.5 + 2))
    assert scalars["q_gradient_share"] == pytest.approx((0 + 1 + 1) / (6 + 3 + 2))
    assert scalars["step_divergence"] == 0.5 and scalars["divergence_floor"] == 0.5


@pytest.mark.parametrize("includes", [True, False])
def test_control_variates_hold_the_gradient_of_q_or_not(includes: bool, fixed: float) -> None:
    """From 2 with rate 0.5 towards 4, C D = 0.25, power 2: g = -2, then w = 3: g = -1 and Q's gradient 0.5."""
    options = {"inner": "scaffold", "C": 0.5, "cv_includes_q": includes}
    run = Walkers(DALoss(**options), infos({"ana": 1}), tasks={"ana": Quadratic(1.0, (4.0, 2.0))}, lr=0.5,
                  config=replace(SGD, local_epochs=2), start_weights=start((2.0, 2.0))).begin().run(1)  # fmt: skip
    assert run.blobs["control"]["w"][0] == pytest.approx((-2.0 - 1.0 + (0.5 if includes else 0.0)) / 2)
    np.testing.assert_allclose(run.blobs["global"]["w"][0], 3.25, rtol=1e-6)


def test_what_the_inner_rule_remembers_goes_on(fixed: float) -> None:
    run = walkers(DALoss(inner="scaffold", C=0.1, kld_refresh="per_round"), config=FIVE_STEPS, lr=0.1).run(2)
    memory = run.memories["ana"]
    assert set(memory.tensors) == {"before/w", "after/w"}
    assert memory.values == {"round": 2, "daloss/divergence": 0.5}
    assert run.outcomes["ana"].result.scalars["divergence"] == 0.5


def test_feddwa_measures_the_same_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """One forward of the global model per step, for the pull and the weights together."""
    calls = {"reference": 0, "trained": 0}
    strategy = DALoss(inner="feddwa", inner_options={"kld_source": "running"})
    rules: list[DivergencePull] = []

    class Counting(DALoss):
        def local_rule(self) -> LocalRule:
            rules.append(strategy.local_rule())  # type: ignore[arg-type]
            begin = rules[0].begin

            def counting(state: LocalState) -> None:
                forward = state.forward

                def counted(model: Any, batch: Any) -> Any:
                    calls["trained" if model is state.model else "reference"] += 1
                    return forward(model, batch)

                state.forward = counted
                begin(state)

            monkeypatch.setattr(rules[0], "begin", counting)
            return rules[0]

    first_round(Counting(inner="feddwa"), steps=3)
    assert calls == {"reference": 3, "trained": 0}
    inner = rules[0]._inner
    assert isinstance(inner, DynamicallyWeighted)
    assert float(inner._running) == pytest.approx(float(rules[0]._sums["divergence"])) and float(inner._running) > 0


@pytest.mark.parametrize(
    "options",
    [
        {"kld_grad": True},
        {"kld_eval_mode": True},
        {"kld_grad": True, "kld_eval_mode": True},
        {"kld_softmax": "spatial", "kld_reduction": "sum"},
    ],
)
def test_the_options_change_what_is_measured(options: dict[str, Any]) -> None:
    plain, other = (first_round(DALoss(C=5.0, **o), steps=4) for o in ({}, options))
    assert "head.weight" in differ(plain, other)
    assert all(np.isfinite(array).all() for array in other.values())


def test_gradient_through_the_divergence_is_that_of_the_whole_product() -> None:
    """Against autograd on ``C D(w) ||w - w_g||^2`` written as a loss."""

    @dataclass(frozen=True)
    class AsLoss(FedAvg):
        def local_rule(self) -> LocalRule:
            class Rule(LocalRule):
                def begin(self, state: LocalState) -> None:
                    from fed_core.training.divergence import Measure

                    self._measured = Divergence(state, Measure(with_grad=True))

                def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
                    gaps = [(p - state.start[n]).square().sum() for n, p in state.model.named_parameters()]
                    return task_loss + 5.0 * self._measured.of_step(state, batch, outputs) * sum(gaps)  # type: ignore[no-any-return]

            return Rule()

    ours, theirs = (first_round(s, steps=4, optimizer="sgd") for s in (DALoss(C=5.0, kld_grad=True), AsLoss()))
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_network_without_classes_is_told() -> None:
    text = (
        r"the KL divergence needs class logits \(B, K, H, W\), but Parameter has no such 'logits'; take a network that"
    )
    with pytest.raises(TrainingError, match=text):
        walkers(DALoss()).run(1)


def test_everything_else_is_the_inner_strategys() -> None:
    wrapped = DALoss(inner="hard", inner_options={"tau": 3.0})
    assert wrapped.descriptor == "gaussian" and DALoss.descriptor is None and DALoss().descriptor is None
    assert wrapped.travels(SIGNATURE) == frozenset(SIGNATURE.names)
    assert wrapped == DALoss(inner="hard", inner_options={"tau": 3.0}) != DALoss(inner="hard")
    text = "feddwa: cv_update II with cv_space grad needs plain SGD"
    with pytest.raises(ConfigError, match=text):
        DALoss(inner="feddwa", inner_options={"cv_update": "II"}).check_training({})
    assert isinstance(make_strategy("daloss", {"inner": "feddwa"}), DALoss)
    for strategy in (Scaffold(), FedDWA()):
        assert type(strategy.local_rule()) is not LocalRule


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"inner": "daloss"}, ConfigError, "daloss cannot wrap itself; set inner to another strategy"),
        ({"inner": "fedsgd"}, UnknownNameError, "no strategy is called 'fedsgd'"),
        ({"inner_options": {"mu": 1}}, ConfigError, "strategy fedavg: unknown key 'mu'"),
        ({"C": -1.0}, ConfigError, "DALoss.C is -1.0; it must lie between 0.0 and 1000000.0"),
        ({"norm_power": 3}, ConfigError, "DALoss.norm_power is 3; it must lie between 1 and 2"),
        (
            {"kld_grad": True, "kld_refresh": "per_round"},
            ConfigError,
            "no gradient flows through the divergence of the last",
        ),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        from_tree(DALoss, options)
