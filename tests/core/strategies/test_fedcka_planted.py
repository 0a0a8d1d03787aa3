"""A layer that five domains need each in its own way, found by whole simulated runs (fedcka spec 11.11)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.bookkeeping import RunBook
from fed_core.data.open import SourceConfig
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.requests import Installation, kept_files
from fed_core.roles.messages import FleetPlan, UpdateReport
from fed_core.simulation import Simulation
from fed_core.strategies.base import GLOBAL
from fed_core.tasks.depth.task import DepthTask
from fed_core.training.jobs import Toolbox
from fed_core.training.losses import silog
from fed_core.types import Array
from fed_core.wire.codec import open_tensors
from tests.core.training.tiny import Output, load_arrays, signature, state_arrays

pytestmark = pytest.mark.usefixtures("fresh_process")

DOMAINS, ROUNDS, SIZE = 5, 3, (12, 16)
LAYERS = ("red", "blue", "join")
#: The pixel of red that tells a domain's depth: down and right of its own.
PLACES = ((-1, -1), (-1, 1), (0, 0), (1, -1), (1, 1))


class TwoPaths(nn.Module):
    """Red has a path of its own that sees the pixels around, blue another; one layer joins them."""

    d_min, d_max = 0.5, 20.0

    def __init__(self) -> None:
        super().__init__()
        self.input_size = SIZE
        self.red, self.blue = nn.Conv2d(1, 9, 3, padding=1), nn.Conv2d(1, 4, 1)
        self.join = nn.Conv2d(13, 1, 1)
        with torch.no_grad():  # what it starts with says as much of each of the nine pixels: nothing of any domain
            self.red.weight[:] = 0.1 * torch.eye(9).reshape(9, 1, 3, 3)

    def forward(self, x: Tensor) -> Output:
        score = self.join(torch.cat([self.red(x[:, :1]), self.blue(x[:, 2:])], dim=1))
        depth = self.d_min + (self.d_max - self.d_min) * torch.sigmoid(score)
        return Output(depth, torch.cat([-score, score], dim=1))

    def final_layer(self) -> tuple[str, ...]:
        return ("join.weight", "join.bias")

    def loss(self, output: Output, depth: Tensor, mask: Tensor) -> Tensor:
        return silog(output.depth, depth, mask)


def parts(network: nn.Module, name: str) -> Any:
    found = signature(network, name)
    return type(found)(found.architecture, found.tensors)


def toolbox() -> Toolbox:
    def make(name: str, options: Mapping[str, Any]) -> TwoPaths:
        return TwoPaths(**options)

    return Toolbox(make, parts, state_arrays, load_arrays, lambda images, kind: None)


def write_domain(folder: Path, domain: int, count: int = 6) -> None:
    """Blue tells most of the depth everywhere; a pixel of red, another one in each domain, the rest."""
    rng = np.random.default_rng(domain)
    for name in ("rgb", "depth"):
        (folder / name).mkdir(parents=True)
    for index in range(count):
        red, green, blue = rng.uniform(-1.0, 1.0, (3, *SIZE))
        depth_m = np.exp(1.0 + 0.8 * blue + 0.2 * np.roll(red, PLACES[domain], axis=(0, 1)))
        image = np.stack([blue, green, red], axis=-1) * 127.0 + 128.0
        cv2.imwrite(str(folder / "rgb" / f"{index:06d}.png"), image.astype(np.uint8))
        cv2.imwrite(str(folder / "depth" / f"{index:06d}.png"), (depth_m * 1000.0).astype(np.uint16))
    (folder / "sequence.yaml").write_text("depth_unit: mm\nintrinsics: [20.0, 20.0, 8.0, 6.0]\n")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("domains")
    for domain in range(DOMAINS):
        write_domain(folder / f"domain{domain}", domain)
    return folder


def config(method: str, options: Mapping[str, Any]) -> FleetConfig:
    names = [f"domain{domain}" for domain in range(DOMAINS)]
    return FleetConfig(
        run="run",
        robots=tuple(RobotEntry(name, SourceConfig(data=name)) for name in names),
        network=NamedOptions("two_paths", {}),
        strategy=NamedOptions(method, dict(options)),
        rounds=ROUNDS,
        train={"lr": 2e-2, "schedule": "constant", "batch_size": 2, "local_epochs": 8, "augment": False},
    )


def run(base: Path, folder: Path, method: str, options: Mapping[str, Any]) -> FleetPlan:
    """Run a whole federation; return its last plan."""
    return Simulation(config(method, options), base, folder, toolbox(), threads=1).run()


def reports(base: Path, folder: Path, options: Mapping[str, Any]) -> dict[str, UpdateReport]:
    """Return what the robots of a FedCKA run reported in its last round."""
    run(base, folder, "fedcka", options)
    book = RunBook(folder, "run", config("fedcka", options).run_config())
    found = [UpdateReport.from_json(tree) for tree in book._journal.updates(ROUNDS)]
    book.close()
    return {report.robot_id: report for report in found}


def served(folder: Path, plan: FleetPlan, robot_id: str) -> dict[str, Array]:
    """Return the global model, with what a robot keeps to itself in its place."""
    weights = dict(open_tensors(folder / "blobs" / plan.blobs[GLOBAL].digest))
    if robot_id:
        robot = Installation(robot_id, "simulated", folder / "robots" / robot_id, {})
        own = open_tensors(Path(kept_files(plan, robot)["own"]))
        weights |= {name: own[name] for name in weights if name.startswith("red.")}
    return {name: np.asarray(array) for name, array in weights.items()}


def loss_of(weights: Mapping[str, Array], base: Path, domain: int) -> float:
    """Return the loss on a domain's recording."""
    network, task = TwoPaths(), DepthTask()
    load_arrays(network, weights)
    recording = task.open({"data": f"domain{domain}"}, base)
    samples = task.prepare((recording[index] for index in range(len(recording))), network)
    batch = task.batch(samples, range(len(samples)))
    with torch.no_grad():
        return float(task.loss(network, batch, task.forward(network, batch)))


def test_the_planted_layer_has_the_lowest_score_of_every_robot_and_becomes_personal(base: Path, tmp_path: Path) -> None:
    watched = reports(base, tmp_path / "watched", {"tau": 0.0, "frames": 4})  # compares, keeps nothing
    scores = [{name: report.scalars[f"cka/{name}"] for name in LAYERS} for report in watched.values()]
    assert len(scores) == DOMAINS
    assert [min(found, key=lambda name: found[name]) for found in scores] == ["red"] * DOMAINS, scores
    planted = max(found["red"] for found in scores)
    others = min(min(found["blue"], found["join"]) for found in scores)
    assert planted < others, scores

    kept = reports(base, tmp_path / "kept", {"tau": (planted + others) / 2, "frames": 4})
    masks = {name: None if report.mask is None else report.mask.tolist() for name, report in kept.items()}
    assert masks == {f"domain{domain}": [False, True, True] for domain in range(DOMAINS)}


def test_keeping_the_planted_layer_predicts_what_an_average_cannot(base: Path, tmp_path: Path) -> None:
    """The order of the methods, by the loss of what each robot serves after the last round; no absolute figure."""
    shared, kept = tmp_path / "shared", tmp_path / "kept"
    average = run(base, shared, "fedavg", {})
    composed = run(base, kept, "fedcka", {"tau": 0.8, "frames": 4})
    for domain in range(DOMAINS):
        weights = served(kept, composed, f"domain{domain}")
        assert loss_of(weights, base, domain) < loss_of(served(shared, average, ""), base, domain)
