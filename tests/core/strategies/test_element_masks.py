"""Single elements that stay on the robots: how masks grow, travel and average."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.bookkeeping import RunBook
from fed_core.config import from_tree
from fed_core.errors import ConfigError, StrategyError
from fed_core.strategies import element_masks
from fed_core.strategies.base import GLOBAL, RobotInfo, ServerState, Update
from fed_core.strategies.element_masks import PERSONAL, grow, mean_of_shared, pack, unpack
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedmc import FedMC
from fed_core.strategies.fedselect import FedSelect
from fed_core.training import jobs
from fed_core.training.kept import begin_round
from fed_core.types import Array, Memory, ModelSignature, TensorSpec
from fed_core.wire.codec import load_memory, open_tensors
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, initial, robots, train
from tests.core.strategies.test_in_simulation import fleet, simulate
from tests.core.training.tiny import write_folder

FLAT = ModelSignature("flat", (TensorSpec("w", (4,), "float32"),))


def share(robot_id: str, samples: int, values: list[float], mask: list[int] | None = None) -> Update:
    extras = {} if mask is None else {"shared/w": pack(np.array(mask, bool))}
    return Update(robot_id, samples, {"w": np.array(values, np.float32)}, extras)


def server(updates: list[Update], model: dict[str, Array], signature: ModelSignature = FLAT) -> ServerState:
    known = {u.robot_id: RobotInfo(u.robot_id, u.num_samples) for u in updates}
    return ServerState(3, known, Memory(), {GLOBAL: model}, signature)


def averaged(updates: list[Update], model: dict[str, Array], signature: ModelSignature = FLAT) -> dict[str, Array]:
    return {name: row[GLOBAL] for name, row in mean_of_shared(updates, server(updates, model, signature))}


def test_elements_are_averaged_over_those_that_share_them() -> None:
    """Both share; ana alone; bob alone; nobody."""
    updates = [share("ana", 1, [4, 5, 0, 0], [1, 1, 0, 0]), share("bob", 3, [8, 0, 7, 0], [1, 0, 1, 0])]
    new = averaged(updates, {"w": np.array([0, 0, 0, 9], np.float32)})["w"]
    assert new.dtype == np.float32 and new.tolist() == [7.0, 5.0, 7.0, 9.0]


def test_without_personal_elements_it_is_fedavg_bit_by_bit() -> None:
    run, plain = (Fleet(s, robots({"ana": 0.0, "bob": 1.0, "cho": 2.0})).begin().run(2) for s in (FedMC(), FedAvg()))
    assert_same(run.blobs[GLOBAL], plain.blobs[GLOBAL])
    whole = [
        replace(u, extras={"shared/conv.weight": pack(np.ones((3, 2), bool))})
        for u in (Update(r, n, train(r, initial(), 1)) for r, n in (("ana", 3), ("bob", 8), ("cho", 5)))
    ]
    state = server(whole, initial(), SIGNATURE)
    plain_rows = {name: row[GLOBAL] for name, row in FedAvg().aggregate(whole, state).rows}
    assert_same(averaged(whole, initial(), SIGNATURE), plain_rows)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3000))
def test_means_equal_those_of_one_element_after_the_other(seed: int, count: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    values, masks = rng.normal(size=(count, size)).astype(np.float32), rng.random((count, size)) < 0.6
    samples = rng.integers(1, 50, count)
    updates = [
        share(f"r{i}", int(samples[i]), (values[i] * masks[i]).tolist(), masks[i].tolist()) for i in range(count)
    ]
    old = rng.normal(size=size).astype(np.float32)
    signature = ModelSignature("flat", (TensorSpec("w", (size,), "float32"),))
    new = averaged(updates, {"w": old}, signature)["w"]
    expected = [
        np.average(values[masks[:, e], e], weights=samples[masks[:, e]]) if masks[:, e].any() else old[e]
        for e in range(size)
    ]
    np.testing.assert_allclose(new, expected, rtol=1e-6, atol=1e-6)
    nobody = ~masks.any(axis=0)
    np.testing.assert_array_equal(new[nobody], old[nobody])
    one = masks.sum(axis=0) == 1
    np.testing.assert_array_equal(new[one], (values * masks).sum(axis=0)[one])


def test_blocks_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    signature = ModelSignature("flat", (TensorSpec("w", (5000,), "float32"),))
    updates = [share(r, 3, rng.normal(size=5000).tolist(), (rng.random(5000) < 0.5).tolist()) for r in "abc"]
    old = {"w": rng.normal(size=5000).astype(np.float32)}
    whole = averaged(updates, old, signature)
    monkeypatch.setattr(element_masks, "_BLOCK", 1)
    assert_same(averaged(updates, old, signature), whole)


def test_masks_are_one_bit_per_element() -> None:
    mask = np.random.default_rng(0).random((7, 3)) < 0.5
    assert pack(mask).dtype == np.uint8 and pack(mask).shape == (3,)
    np.testing.assert_array_equal(unpack(pack(mask), (7, 3)), mask)
    assert unpack(pack(np.array(True)), ()).shape == ()


def test_the_most_important_shared_elements_enter_with_their_ties() -> None:
    personal = {"a": np.array([True, False, False]), "b": np.zeros((2, 2), bool), "still": np.zeros(2, bool)}
    importance = {"a": np.array([9.0, 1.0, 3.0]), "b": np.array([[3.0, 0.5], [4.0, 0.0]])}
    grown = grow(personal, importance, 2)
    assert grown["a"].tolist() == [True, False, True]  # 9 was personal before; 3 ties with the one in b
    assert grown["b"].tolist() == [[True, False], [True, False]]
    assert not grown["still"].any() and personal["a"].tolist() == [True, False, False]
    everything = grow(personal, importance, 100)
    assert everything["a"].all() and everything["b"].tolist() == [[True, True], [True, False]]  # 0 never enters
    nothing = grow(personal, {"a": np.zeros(3)}, 1)
    assert nothing["a"].tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("options", "total", "expected"),
    [
        ({}, 1000, [20] * 20 + [0]),
        ({}, 149, [2] * 29 + [1, 0]),  # floor(2.98) until floor(59.6) = 59
        ({"step": 0.3, "cap": 0.5}, 10, [3, 2, 0]),
        ({"step": 0.0}, 1000, [0]),
    ],
)
def test_room_follows_from_step_and_cap(options: dict[str, float], total: int, expected: list[int]) -> None:
    strategy, personal, found = FedSelect(**options), 0, []  # type: ignore[arg-type]
    for _ in expected:
        found.append(strategy.room(total, personal))
        personal += found[-1]
    assert found == expected


def test_own_elements_are_put_back() -> None:
    memory = Memory({PERSONAL + "w": pack(np.array([True, False, False, True]))})
    own, loaded = np.arange(4, dtype=np.float32), np.full(4, 9, np.float32)
    assert FedMC().merge("w", own, loaded, memory).tolist() == [0, 9, 9, 3]
    assert FedMC().merge("v", own, loaded, memory) is loaded
    assert FedMC().merge("w", own, loaded, Memory()) is loaded


@pytest.mark.parametrize(
    ("extras", "text"),
    [
        ({"shared/v": np.zeros(1, np.uint8)}, "'shared/v' is no mask of a tensor of this model"),
        (
            {"shared/w": np.zeros(2, np.uint8)},
            r"mask 'shared/w' is uint8 \(2,\); expected uint8 \(1,\), one bit per element",
        ),
        ({"shared/w": np.zeros(1, np.float32)}, "mask 'shared/w' is float32"),
    ],
)
def test_a_mask_of_another_model_leaves_its_robot_out(extras: dict[str, Array], text: str) -> None:
    good, bad = share("ana", 1, [1, 2, 3, 4]), replace(share("bob", 9, [0, 0, 0, 0]), extras=extras)
    state = server([good, bad], {"w": np.zeros(4, np.float32)})
    outcome = FedSelect().aggregate([bad, good], state)
    (row,) = [row[GLOBAL].tolist() for _, row in outcome.rows]
    assert row == [1, 2, 3, 4]
    (told,) = outcome.log["warnings"]  # type: ignore[misc,union-attr]
    with pytest.raises(StrategyError, match=f"no update of this round has a mask that fits: {text}"):
        FedSelect().aggregate([bad], state)
    assert str(told).startswith("robot 'bob' is left out: ")


def test_plans_name_the_round_and_newcomers_have_nothing_of_their_own() -> None:
    run = Fleet(FedSelect(), robots({"ana": 0.0, "bob": 1.0})).begin()
    assert run.plans["ana"].values == {"round": 1}
    run.run(2)
    assert run.plans["bob"].values == {"round": 3}
    assert run.join(RobotInfo("cho", 4)).values == {"round": 3}


@pytest.mark.parametrize("strategy", [FedSelect, FedMC])
def test_wrong_options_are_named(strategy: type) -> None:
    name = strategy.__name__
    for options, text in (
        ({"step": 1.5}, f"{name}.step is 1.5; it must lie between 0.0 and 1.0"),
        ({"warmup": -1}, f"{name}.warmup is -1; it must be at least 0"),
    ):
        with pytest.raises(ConfigError, match=text):
            from_tree(strategy, options)


@pytest.mark.usefixtures("fresh_process")
@pytest.mark.parametrize(("name", "options"), [("fedselect", {"damping": 1.0}), ("fedmc", {"batches": 4})])
def test_masks_grow_in_a_federation_and_own_elements_are_put_back(
    name: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: dict[tuple[str, int], dict[str, Array]] = {}

    def watched(arguments: Any, *rest: Any) -> Any:
        begin = begin_round(arguments, *rest)
        begun[arguments["robot_id"], arguments["round"]] = {n: a.copy() for n, a in begin.weights.items()}
        return begin

    monkeypatch.setattr(jobs, "begin_round", watched)
    for seed, robot_id in enumerate(("ana", "ben")):
        write_folder(tmp_path / "recordings" / robot_id, 4, seed=seed)
    config = fleet(name, {"warmup": 1, "step": 0.1, **options}, {"lr": 2e-3}, rounds=3)
    simulate(config, tmp_path / "recordings", tmp_path / "run")

    book = RunBook(tmp_path / "run", "run", config.run_config())
    row = book._journal.last_round()
    book.close()
    assert row is not None
    for ratio in row.log["personal_ratio"].values():  # type: ignore[union-attr]
        assert ratio == pytest.approx(0.2, abs=0.02)  # two masked rounds; P is small and elements may tie
    own, memory = (tmp_path / "run" / "robots" / "ana" / "rounds" / "run" / "2" / f for f in ("own", "memory"))
    trained, kept = open_tensors(own.with_suffix(".safetensors")), load_memory(memory.with_suffix(".safetensors"))
    assert kept.tensors
    for entry, bits in kept.tensors.items():
        tensor = entry.removeprefix(PERSONAL)
        mine = unpack(bits, trained[tensor].shape)
        ana, ben = begun["ana", 3][tensor], begun["ben", 3][tensor]
        np.testing.assert_array_equal(ana[mine], trained[tensor][mine])
        assert not np.array_equal(ana[mine], ben[mine])
