"""FedTP: the hypernetwork's gradient against finite differences (feddwa spec 14: A11), and its fleet."""

from dataclasses import replace

import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError, StrategyError
from fed_core.strategies.base import GLOBAL
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedtp import FedTP, matrices
from fed_core.strategies.hypernetwork import (
    Descent,
    Mlp,
    Sizes,
    feature_gradients,
    first_embedding,
    first_mlp,
    generated,
    head_gradients,
)
from fed_core.types import ModelSignature
from fed_models import build
from fed_models.base import signature
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, initial, robots

SIZES = Sizes(embedding=5, hidden=4)


def test_gradients_match_finite_differences() -> None:
    rng = np.random.default_rng(1)
    weights = {name: array.astype(np.float64) for name, array in first_mlp(SIZES, 0).items()}
    for name in weights:
        weights[name] += 0.1 * rng.standard_normal(weights[name].shape)
    weights |= {"head.weight": rng.standard_normal((6, 4)), "head.bias": rng.standard_normal((2, 3))}
    weights["embedding"] = rng.standard_normal((3, 5))
    shares, changes = np.array([0.2, 0.0, 0.8]), {0: rng.standard_normal((2, 3)), 2: rng.standard_normal((2, 3))}

    def objective() -> float:
        features = Mlp(weights, weights["embedding"]).features
        made = generated(weights["head.weight"], weights["head.bias"], features)
        return float(sum(shares[row] * np.vdot(change, made[row]) for row, change in changes.items()))

    mlp = Mlp(weights, weights["embedding"])
    found, of_embedding = mlp.gradients(feature_gradients(weights["head.weight"], changes, shares))
    found = {**found, "embedding": of_embedding}
    found["head.weight"], found["head.bias"] = head_gradients(changes, shares, mlp.features)
    assert set(found) == set(weights)
    for name, gradient in found.items():
        assert gradient.shape == weights[name].shape, name
        for place in np.ndindex(*gradient.shape):
            kept, sides = weights[name][place], []
            for shift in (1e-5, -1e-5):
                weights[name][place] = kept + shift
                sides.append(objective())
            weights[name][place] = kept
            assert gradient[place] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8, rel=1e-6), (name, place)


def test_a_step_is_torchs_sgd() -> None:
    import torch

    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, weight_decay=0.01)
    value, velocity = np.array([1.0, -2.0], np.float32), None
    for gradient in ([0.5, 1.0], [-1.0, 2.0], [0.0, 0.3]):
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        value, velocity = Descent(0.1, 0.9, 0.01).step(value, velocity, np.array(gradient))
        np.testing.assert_allclose(value, parameter.detach().numpy(), rtol=1e-6)


def test_features_keep_their_scale_and_follow_from_names() -> None:
    sizes = Sizes()
    embeddings = np.stack([first_embedding(f"robot{i}", sizes) for i in range(64)])
    features = Mlp(first_mlp(sizes, 0), embeddings).features
    assert features.shape == (64, 32) and 0.3 < features.std() < 3.0
    np.testing.assert_array_equal(first_embedding("robot3", sizes), embeddings[3])
    assert not np.array_equal(embeddings[0], embeddings[1])


def fleet(**options: float) -> Fleet:
    known = robots({"ana": 0.0, "bob": 1.0, "cho": 2.0}, {"ana": 1, "bob": 2, "cho": 3})
    return Fleet(FedTP(hidden=4, embedding=8, **options), known).begin()  # type: ignore[arg-type]


def test_all_start_from_the_initial_model_and_grow_apart() -> None:
    run = fleet()
    for robot_id in run.robots:
        assert_same(run.start_of(robot_id), initial())
    run.run(1)
    starts = [run.start_of(r) for r in run.robots]
    differing = {n for n in SIGNATURE.names if not all(np.array_equal(s[n], starts[0][n]) for s in starts)}
    assert differing == {"conv.weight"}  # the biases of the part are shared
    assert run.last.models == ("global", "robot/ana", "robot/bob", "robot/cho")


def test_without_learning_rate_the_generated_layers_stay() -> None:
    run = fleet(lr=0.0).run(3)
    for robot_id in run.robots:
        np.testing.assert_array_equal(run.start_of(robot_id)["conv.weight"], initial()["conv.weight"])


def test_the_rest_is_fedavgs() -> None:
    run = fleet().run(1)
    plain = Fleet(FedAvg(), run.robots).begin().run(1)
    assert_same(run.blobs[GLOBAL], plain.blobs[GLOBAL])
    for name in set(SIGNATURE.names) - {"conv.weight"}:
        np.testing.assert_array_equal(run.blobs["robot/bob"][name], plain.blobs[GLOBAL][name])


def test_the_first_step_by_hand() -> None:
    """The heads' weights are 0: the bias moves by the mean change, and the weight by the outer product."""
    run = fleet(lr=0.5, momentum=0.0, weight_decay=0.0).run(1)
    start = initial()["conv.weight"].astype(np.float64)
    changes = np.stack([start - run.own[r]["conv.weight"] for r in run.robots])
    shares = np.array([1, 2, 3]) / 6
    features = Mlp(first_mlp(Sizes(8, 4), 0), np.stack([first_embedding(r, Sizes(8, 4)) for r in run.robots])).features
    bias = start - 0.5 * np.einsum("r,rij->ij", shares, changes)
    weight = -0.5 * np.einsum("r,rij,rh->ijh", shares, changes, features)
    np.testing.assert_allclose(run.blobs["hypernetwork"]["head/conv.weight.bias"], bias, rtol=1e-5)
    for row, robot_id in enumerate(run.robots):
        made = bias + weight @ features[row]
        np.testing.assert_allclose(run.blobs[f"robot/{robot_id}"]["conv.weight"], made, rtol=1e-4, atol=1e-6)


def test_robots_reach_what_each_of_them_wants() -> None:
    """Robots that always train to a target of their own: generated layers go there, which one model cannot."""
    targets = {"ana": -1.0, "bob": 0.0, "cho": 2.0}

    def towards(robot_id: str, weights: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
        moved = {name: array.copy() for name, array in weights.items()}
        moved["conv.weight"] += np.float32(0.5) * (np.float32(targets[robot_id]) - moved["conv.weight"])
        return moved

    run = fleet(lr=0.05)
    run.trainer = towards  # type: ignore[assignment]
    run.run(150)
    for robot_id, target in targets.items():
        np.testing.assert_allclose(run.start_of(robot_id)["conv.weight"], target, atol=0.15)


def test_absent_robots_and_newcomers() -> None:
    run = fleet().run(1, ["bob"])
    assert not np.array_equal(run.start_of("ana")["conv.weight"], initial()["conv.weight"])
    run.join(robots({"dag": 1.0})["dag"])
    assert run.plans["dag"].load == (GLOBAL,)
    run.run(1)
    assert run.plans["dag"].load == ("robot/dag",) and "embedding/dag" in run.blobs["hypernetwork"]
    strategy, models = run.strategy, run.last.models
    assert strategy.choose(None, models, run.last.serving, "dag").keys == ("robot/dag",)
    assert strategy.choose(None, models, run.last.serving, "eva").keys == (GLOBAL,)


def test_the_matrices_of_a_birds_eye_network() -> None:
    """Query, key and value of six cross attentions and the one of self attention: 19 (feddwa spec 8)."""
    described = signature(build("fax_tiny", {}), "fax_tiny")
    names = matrices(described)
    assert len(names) == 19 and all(name.endswith(".weight") for name in names)
    sizes = {spec.name: int(np.prod(spec.shape)) for spec in described.tensors}
    assert sum(sizes[name] for name in names) == 18 * 32 * 32 + 3 * 32 * 32


def test_a_network_without_attention_is_refused() -> None:
    bare = ModelSignature("plain", SIGNATURE.tensors)
    run = Fleet(FedTP(), robots({"ana": 0.0}), signature=bare)
    with pytest.raises(
        StrategyError, match="fedtp needs to know the attention layers, but the network 'plain' names none"
    ):
        run.begin()
    assert replace(bare, parts={"attention": ("conv.weight",)}) != bare


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="FedTP.hidden is 0; it must be at least 1"):
        from_tree(FedTP, {"hidden": 0})
