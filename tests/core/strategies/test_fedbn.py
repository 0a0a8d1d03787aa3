from dataclasses import replace

import numpy as np
import pytest

from fed_core.errors import StrategyError
from fed_core.strategies.base import GLOBAL
from fed_core.strategies.fedbn import FedBN
from fed_core.types import TensorSpec
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, initial, robots

PRIVATE = {"bn.weight", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}


def test_batch_normalisation_stays_on_the_robots_and_all_else_is_averaged() -> None:
    run = Fleet(FedBN(), robots({"ana": 0.0, "bobby": 1.0})).begin().run(2)
    left, right = run.start_of("ana"), run.start_of("bobby")
    assert {n for n in SIGNATURE.names if not np.array_equal(left[n], right[n])} == PRIVATE
    assert_same({n: left[n] for n in PRIVATE}, {n: run.own["ana"][n] for n in PRIVATE})
    assert PRIVATE.isdisjoint(run.blobs[GLOBAL]) and "attention.bias" in run.blobs[GLOBAL]


def test_layers_are_picked_by_the_type_of_their_module() -> None:
    """A LayerNorm that is called "bn" is averaged; there is no warm-up."""
    others = (
        TensorSpec("bn1.weight", (3,), "float32", True, "bn1", "LayerNorm"),
        TensorSpec("stem.weight", (3,), "float32", True, "stem", "SyncBatchNorm"),
        TensorSpec("cube.running_mean", (3,), "float32", False, "cube", "BatchNorm3d"),
    )
    signature = replace(SIGNATURE, tensors=SIGNATURE.tensors + others)
    assert FedBN().private(signature) == PRIVATE | {"stem.weight", "cube.running_mean"}
    assert "bn1.weight" in FedBN().uploads(signature)


def test_a_network_without_batch_normalisation_is_refused() -> None:
    bare = replace(SIGNATURE, tensors=tuple(s for s in SIGNATURE.tensors if s.name not in PRIVATE))
    run = Fleet(FedBN(), robots({"ana": 0.0}), bare, {s.name: initial()[s.name] for s in bare.tensors})
    with pytest.raises(StrategyError, match="fedbn keeps BatchNorm layers on the robots, but the network 'toy' has no"):
        run.begin()
