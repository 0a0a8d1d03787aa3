import numpy as np

from fed_core.strategies.base import GLOBAL, ServerState, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.types import Memory, ModelSignature, TensorSpec
from tests.core.strategies.harness import Fleet, assert_same, robots

SIGNATURE = ModelSignature(
    "tiny", (TensorSpec("w", (2,), "float32"), TensorSpec("steps", (), "int64", False, "bn", "BatchNorm2d"))
)


def update(robot_id: str, num_samples: int, w: list[float], steps: int) -> Update:
    return Update(robot_id, num_samples, {"w": np.array(w, np.float32), "steps": np.array(steps)})


def test_mean_follows_sample_counts_and_counters_take_the_maximum() -> None:
    updates = [update("ana", 1, [0, 4], 7), update("bob", 3, [4, 0], 5)]
    state = ServerState(1, robots({"ana": 0, "bob": 0}), Memory(), {}, SIGNATURE)
    outcome = FedAvg().aggregate(updates, state)
    merged = {name: row[GLOBAL] for name, row in outcome.rows}
    np.testing.assert_array_equal(merged["w"], np.array([3, 1], np.float32))
    assert merged["steps"] == 7
    assert outcome.models == (GLOBAL,) and set(outcome.plans) == {"ana", "bob"}


def test_all_robots_go_on_with_one_model() -> None:
    run = Fleet(FedAvg(), robots({"ana": 0, "bob": 0, "cho": 0})).begin().run(2, ["ana", "bob"])
    assert_same(run.start_of("ana"), run.start_of("cho"))
    assert list(run.blobs) == [GLOBAL]


def test_robust_stand_in_replaces_the_mean() -> None:
    updates = [update(r, n, [x, x], 0) for r, n, x in (("ana", 1, 1.0), ("bob", 1, 2.0), ("cho", 98, 1e6))]
    state = ServerState(
        1, robots({"ana": 0}), Memory(), {}, SIGNATURE,
        combine=lambda block, shares: np.stack([np.median(block[row > 0], axis=0) for row in shares]),
    )  # fmt: skip
    merged = {name: row[GLOBAL] for name, row in FedAvg().aggregate(updates, state).rows}
    np.testing.assert_array_equal(merged["w"], [2, 2])
