import numpy as np
import pytest

from fed_core.errors import StrategyError
from fed_core.strategies.base import LocalState, Update, in_order
from fed_core.strategies.fedavg import FedAvg
from fed_core.types import Memory
from tests.core.strategies.harness import SIGNATURE, assert_same, initial


def test_units_are_the_modules_that_own_tensors() -> None:
    units = FedAvg().units(SIGNATURE)
    assert [unit[0].split(".")[0] for unit in units] == ["conv", "bn", "attention", "dct"]
    assert sorted(name for unit in units for name in unit) == sorted(SIGNATURE.names)


def test_uploads_follow_the_mask() -> None:
    strategy = FedAvg()
    assert strategy.uploads(SIGNATURE) == set(SIGNATURE.names)
    shared = strategy.uploads(SIGNATURE, np.array([True, False, False, True]))
    assert shared == {"conv.weight", "conv.bias", "dct.basis"}


@pytest.mark.parametrize("mask", [np.ones(3, bool), np.ones(4, np.uint8)])
def test_a_mask_of_another_model_is_an_error(mask: np.ndarray) -> None:
    with pytest.raises(StrategyError, match=r"expected bool \(4,\), one bit per unit"):
        FedAvg().uploads(SIGNATURE, mask)


def test_blend_averages_over_those_that_hold_a_tensor() -> None:
    whole = initial()
    part = {"conv.weight": whole["conv.weight"] + np.float32(2)}
    out = dict(FedAvg().blend({"global": whole, "robot/ana": part}, SIGNATURE))
    np.testing.assert_allclose(out["conv.weight"], whole["conv.weight"] + 1, rtol=1e-6)
    np.testing.assert_array_equal(out["conv.bias"], whole["conv.bias"])
    assert_same(dict(FedAvg().blend({"a": whole, "b": whole, "c": whole}, SIGNATURE)), whole)


def test_merge_prefers_what_was_loaded() -> None:
    own, loaded = np.zeros(1), np.ones(1)
    assert FedAvg().merge("w", own, loaded, Memory()) is loaded
    assert FedAvg().merge("w", own, None, Memory()) is own
    with pytest.raises(StrategyError, match="tensor 'w' is neither in the plan's models nor on the robot"):
        FedAvg().merge("w", None, None, Memory())


def test_updates_are_taken_by_robot_id() -> None:
    updates = [Update(r, 1, {}) for r in ("cho", "ana", "bob")]
    assert [u.robot_id for u in in_order(updates)] == ["ana", "bob", "cho"]


def test_a_trainer_without_probing_says_so() -> None:
    state = LocalState(None, {}, Memory(), {}, {}, 1)  # type: ignore[arg-type]
    with pytest.raises(StrategyError, match="this trainer offers no probing of models"):
        state.batches(3)
