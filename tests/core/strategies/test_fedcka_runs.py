"""FedCKA in whole runs, stopped and started (fedcka spec 11.9), and on five domains with a planted layer (11.11)."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.bookkeeping import RunBook
from fed_core.fleet import FleetConfig
from fed_core.requests import Installation, kept_files
from fed_core.roles.messages import FleetPlan, RobotPhase, UpdateReport
from fed_core.simulation import SimulationView
from fed_core.strategies.base import GLOBAL
from fed_core.strategies.fedcka import FedCKA
from fed_core.types import Array, Memory, ModelSignature, TensorSpec
from fed_core.wire.codec import load_memory, open_tensors
from tests.core.strategies.harness import assert_same
from tests.core.strategies.test_fedcka import LAYERS, state
from tests.core.strategies.test_in_simulation import CutOffError, base, fleet, simulate
from tests.core.training.tiny import load_arrays, signature, state_arrays, tiny

__all__ = ["base"]  # a fixture

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
