"""FedCKA's server half by hand (fedcka spec 11.4), its robot half on a small network, and whole runs (11.5, 11.9)."""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.bookkeeping import RunBook
from fed_core.config import from_tree
from fed_core.errors import ConfigError, Refusal, StrategyError
from fed_core.fleet import FleetConfig
from fed_core.masks import Percentage, Threshold
from fed_core.requests import Installation, kept_files
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, RobotPhase, UpdateReport
from fed_core.simulation import SimulationView
from fed_core.strategies.base import GLOBAL, LocalResult, LocalState, Update
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedcka import FedCKA
from fed_core.training.probe import CkaProbe, LayerScore
from fed_core.types import Array, Memory, ModelSignature, TensorSpec
from fed_core.wire.codec import load_memory, open_tensors
from tests.core.strategies.harness import SIGNATURE, Fleet, assert_same, initial, robots, train
from tests.core.strategies.test_in_simulation import CutOffError, base, fleet, simulate
from tests.core.training.tiny import load_arrays, signature, state_arrays, tiny

__all__ = ["base"]  # a fixture

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


# Whole runs.

OPTIONS = {"tau": 0.9, "frames": 3}
PERCENTAGE = {"rule": "percentage", "rho": 0.6, "start_round": 2, "steps": 2, "frames": 2}


def config(options: Mapping[str, Any], rounds: int = 3) -> FleetConfig:
    return fleet("fedcka", options, {"lr": 5e-2}, rounds)


def masks_of(folder: Path, run: FleetConfig) -> dict[tuple[int, str], Any]:
    book = RunBook(folder, "run", run.run_config())
    found = {}
    for number in range(1, run.rounds + 1):
        for tree in book._journal.updates(number):
            report = UpdateReport.from_json(tree)
            found[number, report.robot_id] = None if report.mask is None else report.mask.tolist()
    book.close()
    return found


@pytest.mark.usefixtures("fresh_process")
@pytest.mark.parametrize("options", [OPTIONS, PERCENTAGE], ids=["threshold", "percentage"])
def test_a_run_stopped_after_every_robot_and_merge_has_the_same_masks_and_weights(
    options: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    run = config(options)
    whole = simulate(run, base, tmp_path / "whole")
    seen: set[tuple[str, int]] = set()

    def stop_once(what: str, number: int) -> None:
        if number and (what, number) not in seen:
            seen.add((what, number))
            raise CutOffError

    def on_view(view: SimulationView) -> None:
        if view.robot is not None and view.robot.phase is RobotPhase.REPORTED:
            stop_once(view.robot.robot_id, view.robot.round)

    def on_plan(plan: FleetPlan) -> None:
        stop_once("merge", plan.round)

    result: FleetPlan | None = None
    while result is None:
        try:
            result = simulate(run, base, tmp_path / "cut", on_view=on_view, on_plan=on_plan)
        except CutOffError:
            continue
    assert {what for what, _ in seen} == {"ana", "ben", "merge"} and len(seen) == 9
    assert result == whole
    masks = masks_of(tmp_path / "whole", run)
    assert masks == masks_of(tmp_path / "cut", run) and len(masks) == 6
    assert any(mask and not all(mask) for mask in masks.values())
    for robot_id in ("ana", "ben"):
        left, right = (kept(folder, result, robot_id) for folder in (tmp_path / "whole", tmp_path / "cut"))
        assert_same(left[0], right[0])
        assert left[1].values == right[1].values
        assert_same(left[1].tensors, right[1].tensors)


def kept(folder: Path, plan: FleetPlan, robot_id: str) -> tuple[Mapping[str, Array], Memory]:
    files = kept_files(plan, Installation(robot_id, "simulated", folder / "robots" / robot_id, {}))
    return open_tensors(Path(files["own"])), load_memory(Path(files["memory"]))


@pytest.mark.usefixtures("fresh_process")
def test_personal_layers_of_a_run_stay_on_the_robot_and_only_the_rest_is_sent(base: Path, tmp_path: Path) -> None:
    run = config({"tau": 1.0, "frames": 2}, rounds=2)  # everything that is not the same is personal
    plans: list[FleetPlan] = []
    final = simulate(run, base, tmp_path, on_plan=plans.append)
    masks = masks_of(tmp_path, run)
    assert masks[1, "ana"] is None and masks[2, "ana"] == masks[2, "ben"] == [False, False, False]
    assert [plan.round for plan in plans] == [1, 2, 2]
    assert final.blobs[GLOBAL] == plans[1].blobs[GLOBAL] != plans[0].blobs[GLOBAL]  # nobody shared, nothing changed
    book = RunBook(tmp_path, "run", run.run_config())
    reports = {n: [UpdateReport.from_json(tree) for tree in book._journal.updates(n)] for n in (1, 2)}
    assert list(book.store.open(final.blobs[GLOBAL].digest)) == list(signature(tiny(), "tiny").names)
    assert {r.blobs["weights"].size_bytes > 4 * 329 for r in reports[1]} == {True}
    assert {r.blobs["weights"].size_bytes < 100 for r in reports[2]} == {True}
    assert all(f"cka/{layer}" in r.scalars for r in reports[2] for layer in LAYERS)
    book.close()


class TwoSensors(nn.Module):
    """A layer per sensor and one that joins them."""

    def __init__(self) -> None:
        super().__init__()
        self.camera, self.lidar, self.join = nn.Linear(10, 10), nn.Linear(8, 8), nn.Linear(18, 6)

    def forward(self, x: Tensor) -> Tensor:
        camera, lidar = self.camera(x[..., :10]), self.lidar(x[..., 10:])
        joined: Tensor = self.join(torch.cat([camera, lidar], dim=-1))
        return joined


def fitted(model: nn.Module, domain: int, steps: int) -> dict[str, Array]:
    """Train on a domain: it sees two of the ten camera channels, the rest of the world is the same everywhere."""
    seen = torch.zeros(10)
    seen[2 * domain : 2 * domain + 2] = 1.0
    generator = torch.Generator().manual_seed(domain)
    mixing = torch.randn(18, 6, generator=torch.Generator().manual_seed(99))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(steps):
        x = torch.randn(64, 18, generator=generator)
        target = torch.cat([x[:, :10] * seen, x[:, 10:]], dim=1) @ mixing
        loss = (model(x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return state_arrays(model)


@pytest.mark.usefixtures("fresh_process")
def test_a_planted_layer_of_the_domains_has_the_lowest_score_on_every_robot() -> None:
    """Fedcka spec 11.11: five domains, one layer that has to differ."""
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = TwoSensors()
    described = signature_of(network)
    shared = state_arrays(network)
    for _ in range(6):  # rounds of FedAvg
        trained = [fitted(loaded(network, shared), domain, 40) for domain in range(5)]
        shared = {name: np.mean([each[name] for each in trained], axis=0) for name in shared}
    for domain in range(5):
        model = loaded(network, shared)
        fitted(model, domain, 40)

        def draw(count: int, size: int) -> Iterator[Tensor]:
            yield from (torch.randn(size, 200, 18, generator=torch.Generator().manual_seed(n)) for n in range(count))

        here = state(2)
        here.model, here.signature, here.extras, here.batches = model, described, {GLOBAL: shared}, draw
        scalars = FedCKA(tau=0.0).local_rule().finish(here).scalars
        scores = {name: scalars[f"cka/{name}"] for name in ("camera", "lidar", "join")}
        assert min(scores, key=lambda name: scores[name]) == "camera", scores
        tau = (scores["camera"] + min(scores["lidar"], scores["join"])) / 2
        mask = FedCKA(tau=tau).local_rule().finish(here).mask
        assert mask is not None and mask.tolist() == [False, True, True]


def loaded(network: nn.Module, tensors: Mapping[str, Array]) -> nn.Module:
    load_arrays(network, tensors)
    return copy.deepcopy(network)


def signature_of(network: nn.Module) -> ModelSignature:
    specs = [(name, array) for name, array in state_arrays(network).items()]
    return ModelSignature(
        "two", tuple(TensorSpec(n, a.shape, a.dtype.name, True, n.rpartition(".")[0], "Linear") for n, a in specs)
    )
