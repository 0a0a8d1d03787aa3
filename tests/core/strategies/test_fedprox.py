import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedprox import FedProx
from tests.core.strategies.first_steps import differ, first_round
from tests.core.strategies.harness import Fleet, assert_same, robots
from tests.core.strategies.quadratics import Quadratic, Walkers, infos, start, walkers


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_without_its_term_a_round_is_fedavgs_bit_by_bit(optimizer: str) -> None:
    plain, prox = (first_round(s, optimizer=optimizer) for s in (FedAvg(), FedProx(mu=0.0)))
    assert_same(prox, plain)


def test_the_first_step_is_fedavgs_and_later_ones_are_not() -> None:
    """At the start of a round the robot is where the term pulls it to."""
    strong = FedProx(mu=1.0)
    assert_same(first_round(strong, steps=1), first_round(FedAvg(), steps=1))
    assert "head.weight" in differ(first_round(strong, steps=2), first_round(FedAvg(), steps=2))


def test_the_pull_comes_from_a_copy_of_the_start() -> None:
    """Gradient descent on ``(w - 8)^2 / 2 + mu / 2 (w - 2)^2`` from 2 with rate 0.5 and mu = 1, by hand.

    The steps give 2 + 0.5 * 6 = 5, then 5 + 0.5 * (3 - 3) = 5: the minimum. With references to live weights in place of
    the copy the term is zero and the second step gives 6.5.
    """
    run = Walkers(FedProx(mu=1.0), infos({"ana": 1}), tasks={"ana": Quadratic(1.0, (8.0, 2.0))}, lr=0.5,
                  start_weights=start((2.0, 2.0))).begin()  # fmt: skip
    run.run(1)
    np.testing.assert_array_equal(run.blobs["global"]["w"], [5.0, 2.0])
    assert run.blobs["global"]["steps"] == 10  # buffers are the network's own business


def test_the_term_holds_the_robots_together() -> None:
    free, held = walkers(FedProx(mu=0.0)), walkers(FedProx(mu=10.0), lr=0.05)
    moved = {r: [np.linalg.norm(run.update(r).weights["w"]) for run in (free, held)] for r in free.robots}
    assert all(near < 0.5 * far for far, near in moved.values())


def test_the_server_half_is_fedavgs() -> None:
    positions = {"ana": 0.0, "bob": 1.0}
    prox, plain = (Fleet(s, robots(positions, {"ana": 3, "bob": 5})).begin().run(2) for s in (FedProx(), FedAvg()))
    assert_same(prox.blobs["global"], plain.blobs["global"])
    assert prox.plans == plain.plans


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mu": -1.0}, r"FedProx.mu is -1.0; it must lie between 0.0 and 1000.0"),
        ({"mu": float("nan")}, "FedProx.mu is nan"),
        ({"mu": "much"}, "FedProx.mu: expected float, got 'much'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(FedProx, options)
