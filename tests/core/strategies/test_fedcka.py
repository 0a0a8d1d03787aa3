"""FedCKA's server half by hand (fedcka spec 11.4) and its robot half on a small network (11.5)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.config import from_tree
from fed_core.errors import ConfigError, Refusal, StrategyError
from fed_core.masks import Percentage, Threshold
from fed_core.roles import events as ev
from fed_core.strategies.base import GLOBAL, LocalResult, LocalState, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedcka import FedCKA
from fed_core.training.probe import CkaProbe, LayerScore
from fed_core.types import Array, Memory
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, initial, robots, train
from tests.core.training.tiny import signature, state_arrays, tiny

FLOATS = [spec.name for spec in SIGNATURE.tensors if "float" in spec.dtype]
#: Units of the toy: conv, bn, attention; the basis of the DCT is in none.
UNITS = 3
COUNTS = {"ana": 3, "bob": 5, "cho": 8}
DEFAULT, NOTHING = FedCKA(), Memory()


def updates(masks: Mapping[str, list[int] | None], strategy: FedCKA) -> list[Update]:
    made = []
    for robot_id, bits in masks.items():
        mask = None if bits is None else np.array(bits, bool)
        weights = train(robot_id, initial(), 1)
        sent = {name: weights[name] for name in SIGNATURE.names if name in strategy.uploads(SIGNATURE, mask)}
        made.append(Update(robot_id, COUNTS[robot_id], sent, mask=mask))
    return made


def aggregated(masks: Mapping[str, list[int] | None], strategy: FedCKA | FedAvg = DEFAULT) -> dict[str, Array]:
    run = Fleet(FedCKA(), robots(dict.fromkeys(masks, 0.0), COUNTS)).begin()
    run.round = 1
    sent = updates(masks, FedCKA())
    return {name: row[GLOBAL] for name, row in strategy.aggregate(sent, run.state()).rows if name in FLOATS}


def tensors_of(unit: int) -> tuple[str, ...]:
    return FedCKA().units(SIGNATURE)[unit]


@pytest.mark.parametrize("mask", [None, [1, 1, 1]])
def test_sharing_everything_is_fedavg_bit_by_bit(mask: list[int] | None) -> None:
    masks = dict.fromkeys(COUNTS, mask)
    assert_same(aggregated(masks), aggregated(masks, FedAvg()))


def test_a_layer_that_all_keep_is_the_global_one_of_before() -> None:
    new = aggregated(dict.fromkeys(COUNTS, [0, 0, 0]))
    old = initial()
    assert_same({n: new[n] for n in FLOATS if n != "dct.basis"}, {n: old[n] for n in FLOATS if n != "dct.basis"})


def test_all_robots_keeping_one_layer_leaves_that_layer_and_is_told() -> None:
    masks: dict[str, list[int] | None] = dict.fromkeys(COUNTS, [1, 0, 1])
    new, plain = aggregated(masks), aggregated(dict.fromkeys(COUNTS, None))
    for unit in range(UNITS):
        for name in tensors_of(unit):
            np.testing.assert_array_equal(new[name], initial()[name] if unit == 1 else plain[name])
    run = Fleet(FedCKA(), robots(dict.fromkeys(masks, 0.0), COUNTS)).begin()
    log = FedCKA().aggregate(updates(masks, FedCKA()), run.state()).log
    assert log["shared_by_nobody"] == ["bn"]
    assert log["personal_ratio"] == pytest.approx(dict.fromkeys(COUNTS, 9 / 22))


def test_a_single_sharer_gives_its_weights_and_weights_renormalise() -> None:
    new = aggregated({"ana": [1, 1, 0], "bob": [0, 1, 0], "cho": [0, 0, 1]})
    trained = {robot_id: train(robot_id, initial(), 1) for robot_id in COUNTS}
    for name in tensors_of(0):
        np.testing.assert_array_equal(new[name], trained["ana"][name])
    for name in tensors_of(1):
        wanted = 3 / 8 * trained["ana"][name].astype(float) + 5 / 8 * trained["bob"][name].astype(float)
        np.testing.assert_allclose(new[name], wanted, rtol=1e-6)
    for name in tensors_of(2):
        np.testing.assert_array_equal(new[name], trained["cho"][name])


def test_only_shared_floating_tensors_are_uploaded() -> None:
    strategy = FedCKA()
    assert strategy.uploads(SIGNATURE) == set(FLOATS)
    assert strategy.uploads(SIGNATURE, np.array([False, True, False])) == {*tensors_of(1), "dct.basis"}
    with pytest.raises(StrategyError, match=r"mask is bool \(4,\); expected bool \(3,\), .* it is for another model"):
        strategy.uploads(SIGNATURE, np.ones(4, bool))


def test_a_robot_goes_on_with_its_own_personal_tensors_and_its_integers() -> None:
    own, loaded = np.float32([1.0]), np.float32([2.0])
    memory = Memory(values={"personal": ["a"]})
    assert FedCKA().merge("a", own, loaded, memory) is own
    assert FedCKA().merge("b", own, loaded, memory) is loaded
    assert FedCKA().merge("a", own, loaded, Memory()) is loaded
    assert FedCKA().merge("a", None, loaded, memory) is loaded
    assert FedCKA().merge("n", np.array(7), np.array(9), memory) == 7


def test_a_newcomer_starts_from_the_whole_global_model() -> None:
    run = Fleet(FedCKA(), robots({"ana": 0.0, "bob": 1.0})).begin().run(2)
    plan = run.join(robots({"fay": 0.0})["fay"])
    assert plan.load == plan.extras == (GLOBAL,)
    start = run.start_of("fay")
    assert_same({n: start[n] for n in FLOATS}, {n: run.blobs[GLOBAL][n] for n in FLOATS})


def test_a_mask_of_another_length_is_refused_with_its_number_and_the_round_goes_on(tmp_path: Path) -> None:
    from tests.core.test_bookkeeping import RUN, begun, close_round, registration, report

    run = replace(RUN, strategy="fedcka")
    book = begun(tmp_path, run)
    for robot_id in ("ana", "bob"):
        book.save_robot(ev.SaveRobot(registration(robot_id), None))
    close_round(book, 0, (), ("ana", "bob"))
    sent = {name: train("bob", initial(), 1)[name] for name in FLOATS}
    bad = book.check(ev.CheckUpdate(report(book, mask=np.ones(5, bool), model_digest=SIGNATURE.digest)))
    assert bad.code is Refusal.WRONG_TENSORS and Refusal.WRONG_TENSORS == 11
    assert "mask is bool (5,); expected bool (3,), one bit per unit; it is for another model" in bad.text
    good = report(book, "bob", sent, config_digest=run.digest)
    assert book.check(ev.CheckUpdate(good)).code is Refusal.ACCEPTED
    book.save_update(ev.SaveUpdate(good))
    after = close_round(book, 1, (good,), ("ana", "bob"))
    merged = book.store.open(after.plan.blobs[GLOBAL].digest)
    np.testing.assert_array_equal(merged["conv.weight"], sent["conv.weight"])
    book.close()


def test_options_make_their_rules() -> None:
    assert FedCKA(tau=0.25, hysteresis=0.1).mask_rule() == Threshold(0.25, 0.35, 2)
    assert FedCKA().mask_rule() == Threshold(0.5, None, 2)
    assert FedCKA(rule="percentage", rho=0.4, fit="skip").mask_rule() == Percentage(0.4, 11, 20, "skip")
    assert FedCKA(rule="percentage", start_round=3).mask_rule().first_round() == 3
    assert from_tree(FedCKA, {"tau": 0.0}).mask_rule() == Threshold(0.0)
    with pytest.raises(ConfigError, match="hysteresis belongs to the rule threshold"):
        FedCKA(rule="percentage", hysteresis=0.1)


# The robot half.


def images(count: int, size: int = 1) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(1)
    yield from (torch.randn(size, 3, 16, 24, generator=generator) for _ in range(count))


def state(number: int, memory: Memory = NOTHING, model: nn.Module | None = None) -> LocalState:
    """A robot after training: its network is another one than the global model."""
    trained = (model or tiny(1)).eval()
    return LocalState(
        model=trained,
        start={},
        memory=memory,
        extras={GLOBAL: state_arrays(tiny(0))},
        values={"round": number},
        num_samples=20,
        signature=signature(trained, "tiny"),
        batches=images,
        forward=lambda network, batch: network(batch),
    )


def finish(options: FedCKA, number: int = 2, memory: Memory = NOTHING, model: nn.Module | None = None) -> LocalResult:
    return options.local_rule().finish(state(number, memory, model))


LAYERS = ["encoder.0", "encoder.1", "head"]


def test_the_first_round_shares_everything_and_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CkaProbe, "scores", lambda self: pytest.fail("compared"))
    assert finish(FedCKA(), 1) == LocalResult()
    assert finish(FedCKA(rule="percentage"), 10) == LocalResult()


def test_layers_below_the_threshold_stay_and_are_remembered() -> None:
    told = finish(FedCKA(tau=0.0)).scalars
    scores = [told[f"cka/{name}"] for name in LAYERS]
    assert all(0.0 < score < 1.0 for score in scores) and told["probe_frames"] == 10
    middle = (scores[1] + scores[2]) / 2  # the norm is new and changes nothing, so its score is the convolution's
    result = finish(FedCKA(tau=middle))
    assert result.mask is not None and result.mask.tolist() == [score >= middle for score in scores]
    kept = [name for name, score in zip(LAYERS, scores, strict=True) if score < middle]
    personal = result.memory.values["personal"]
    assert isinstance(personal, list) and {str(name).rpartition(".")[0] for name in personal} == set(kept)
    assert result.scalars["personal_units"] == len(kept) in (1, 2)
    assert result.scalars["below_tau/0.5"] == sum(score < 0.5 for score in scores)
    assert result.scalars["distance_above_tau/0.25"] == sum(1 - score > 0.25 for score in scores)


def test_a_layer_shares_again_when_it_is_alike() -> None:
    far = finish(FedCKA(tau=1.0))
    assert far.mask is not None and not far.mask.any()
    near = finish(FedCKA(tau=0.999), 3, far.memory, tiny(0))
    assert near.mask is not None and near.mask.all() and near.memory.values["personal"] == []


def test_the_model_itself_is_not_touched() -> None:
    trained = tiny(1)
    before = state_arrays(trained)
    finish(FedCKA(noise_floor=True), model=trained)
    assert_same(state_arrays(trained), before)
    assert not any(module._forward_hooks for module in trained.modules())


def scored(monkeypatch: pytest.MonkeyPatch, *rounds: list[float]) -> list[int]:
    """Let probes find these scores, one list per probe; returns what counts the probes."""
    calls: list[int] = []

    def scores(probe: CkaProbe) -> dict[str, LayerScore]:
        values = rounds[len(calls)]
        calls.append(1)
        return {unit: LayerScore(value, (value,), 9, 9) for unit, value in zip(probe.units, values, strict=True)}

    monkeypatch.setattr(CkaProbe, "scores", scores)
    return calls


def test_layers_without_a_score_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    scored(monkeypatch, [math.nan, 0.1, math.nan])
    result = finish(FedCKA(tau=0.5))
    assert result.mask is not None and result.mask.tolist() == [True, False, True]
    assert result.scalars["unscored_layers"] == 2 and "cka/head" not in result.scalars


def test_a_percentage_stops_comparing_at_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """P = 224 + 32 + 73 = 329: cap 164, step 82; norm and head (105) first, then 59 are left, and the rest is taken."""
    options = FedCKA(rule="percentage", rho=0.5, start_round=2, steps=2)
    calls = scored(monkeypatch, [0.9, 0.1, 0.2], [0.9, 0.8, 0.8])
    masks, ratios, memory = [], [], NOTHING
    for number in (1, 2, 3, 4, 5):
        result = finish(options, number, memory)
        memory = result.memory
        masks.append(None if result.mask is None else result.mask.astype(int).tolist())
        ratios.append(result.scalars.get("personal_ratio"))
    assert masks == [None, [1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert ratios == [None, 105 / 329, 1.0, 1.0, 1.0] and len(calls) == 2


def test_smoothing_averages_scores_over_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    options = FedCKA(tau=0.5, smoothing=0.5)
    scored(monkeypatch, [0.9, 0.3, math.nan], [0.2, 0.8, 0.4], [0.2, math.nan, 0.4])
    first = finish(options, 2)
    second = finish(options, 3, first.memory)
    third = finish(options, 4, second.memory)
    np.testing.assert_allclose(second.memory.tensors["smoothed"], [0.55, 0.55, 0.4])
    np.testing.assert_allclose(third.memory.tensors["smoothed"], [0.375, 0.55, 0.4])
    assert third.mask is not None and third.mask.tolist() == [False, True, False]


def test_the_noise_floor_raises_scores_of_layers_that_dropout_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    scored(monkeypatch, [0.6, 0.4, 0.4], [1.0, 0.5, 0.8])
    result = finish(FedCKA(tau=0.7, noise_floor=True))
    assert result.mask is not None and result.mask.tolist() == [False, True, False]  # 0.6, 0.8, 0.5


def test_dropout_alone_moves_what_follows_it() -> None:
    result = finish(FedCKA(tau=1.0, noise_floor=True), model=tiny(0))
    # The global model against itself is alike everywhere; only the head lies behind the dropout.
    assert result.mask is not None and result.mask[2]


def stepped(options: FedCKA, memory: Memory) -> dict[str, float]:
    """Return how far each parameter of ones moves where the optimiser moves it by one."""
    here = state(3, memory)
    rule = options.local_rule()
    with torch.no_grad():
        for parameter in here.model.parameters():
            parameter.fill_(1.0)
        rule.begin(here)
        rule.correct_gradient(here)
        for parameter in here.model.parameters():
            parameter += 1.0
        rule.after_step(here)
    return {name: float(parameter.detach().mean()) - 1.0 for name, parameter in here.model.named_parameters()}


def test_local_sim_damps_what_is_shared_from_the_first_mask_on() -> None:
    memory = Memory({"mask": np.array([False, False, True])}, {"personal": ["head.weight", "head.bias"]})
    moved = stepped(FedCKA(local_sim=True, damping=0.25), memory)
    assert moved == pytest.approx({name: 1.0 if name.startswith("head") else 0.25 for name in moved})
    assert set(stepped(FedCKA(local_sim=True), NOTHING).values()) == {1.0}
    assert set(stepped(FedCKA(), memory).values()) == {1.0}


def test_the_memory_of_the_probe_is_the_global_model_and_what_waits() -> None:
    told = finish(FedCKA(tau=0.0)).scalars["probe_extra_bytes"]
    size = sum(tensor.nbytes for tensor in tiny(0).state_dict().values())
    output = 4 * 8 * 16 * 24  # of the convolution, and of the norm
    assert size + 2 * output <= told <= size + 3 * output
