import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError, StrategyError
from fed_core.strategies.base import GLOBAL
from fed_core.strategies.daloss import DALoss
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedbevt import FedBEVT
from fed_core.strategies.fedrep import FedRep
from fed_core.types import ModelSignature
from fed_models import build
from fed_models.base import signature
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, robots

POSITIONS = {"ana": 0.0, "bob": 1.0, "cho": 2.0}


def fleet(strategy: FedAvg) -> Fleet:
    return Fleet(strategy, robots(POSITIONS, {"ana": 1, "bob": 2, "cho": 3})).begin()


@pytest.mark.parametrize("bev", [False, True])
def test_after_broadcast_robots_differ_in_exactly_the_private_tensors(bev: bool) -> None:
    run = fleet(FedBEVT(cap_include_bev=bev)).run(2)
    starts = [run.start_of(r) for r in run.robots]
    differing = {n for n in SIGNATURE.names if not all(np.array_equal(s[n], starts[0][n]) for s in starts)}
    assert differing == {"conv.bias"} | ({"bn.weight"} if bev else set())
    for robot_id in run.robots:
        np.testing.assert_array_equal(run.start_of(robot_id)["conv.bias"], run.own[robot_id]["conv.bias"])
    assert differing.isdisjoint(run.blobs[GLOBAL])


def test_what_is_shared_is_fedavgs() -> None:
    cap, plain = fleet(FedBEVT()).run(1), fleet(FedAvg()).run(1)
    shared = {name: array for name, array in plain.blobs[GLOBAL].items() if name != "conv.bias"}
    assert_same(cap.blobs[GLOBAL], shared)


def test_all_start_from_the_same_private_values_and_send_none() -> None:
    run = fleet(FedBEVT())
    starts = [run.start_of(r) for r in run.robots]
    for weights in starts[1:]:
        assert_same(weights, starts[0])
    run.round = 1
    assert "conv.bias" not in run.update("ana").weights
    assert FedBEVT().travels(SIGNATURE) == frozenset(SIGNATURE.names) - {"conv.bias"}


def test_the_private_scalars_of_a_birds_eye_network() -> None:
    """Six 1x1 convolutions of four inputs: 3,072 scalars at width 128, 768 at width 32 (feddwa spec 8)."""
    described = signature(build("fax_tiny", {}), "fax_tiny")
    sizes = {spec.name: int(np.prod(spec.shape)) for spec in described.tensors}
    private = set(sizes) - FedBEVT().travels(described)
    assert len(private) == 6 and sum(sizes[name] for name in private) == 6 * 4 * 32
    with_bev = set(sizes) - FedBEVT(cap_include_bev=True).travels(described)
    assert with_bev > private


def test_parts_go_with_the_signature_and_change_no_digest() -> None:
    read = ModelSignature.from_json(SIGNATURE.to_json())
    assert read == SIGNATURE and read.parts["camera"] == ("conv.bias",)
    bare = ModelSignature(SIGNATURE.architecture, SIGNATURE.tensors)
    assert bare.digest == SIGNATURE.digest and bare != SIGNATURE
    tree = SIGNATURE.to_json()
    del tree["parts"]  # type: ignore[union-attr]
    assert ModelSignature.from_json(tree) == bare


@pytest.mark.parametrize(
    ("strategy", "part"), [(FedBEVT(), "camera"), (FedRep(), "head"), (DALoss(inner="fedbevt"), "camera")]
)
def test_a_network_without_such_layers_is_refused_at_the_start(strategy: FedAvg, part: str) -> None:
    bare = ModelSignature("plain", SIGNATURE.tensors)
    name = "fedrep" if part == "head" else "fedbevt"
    text = (
        f"{name} needs to know the {part} layers, but the network 'plain' names none; give it a method {part}_modules"
    )
    with pytest.raises(StrategyError, match=text):
        Fleet(strategy, robots(POSITIONS), signature=bare).begin()


def test_unknown_options_are_named() -> None:
    with pytest.raises(ConfigError, match="FedBEVT.cap_include_bev: expected bool, got 'yes'"):
        from_tree(FedBEVT, {"cap_include_bev": "yes"})
