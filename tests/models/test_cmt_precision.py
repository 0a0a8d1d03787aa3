"""CMT in mixed precision: what has metres in it stays in single precision (fedcka spec 7.2)."""

from dataclasses import replace

import pytest
import torch

from fed_core.strategies.base import LocalRule, LocalState
from fed_core.tasks.detection.task import DetectionTask
from fed_core.training import local
from fed_core.training.local import train
from fed_core.training.options import TrainConfig
from fed_core.training.precision import Precision
from fed_core.types import Memory
from fed_models.base import build, signature
from fed_models.blocks.coordinates import project
from tests.core.tasks.detection_frames import made_frame


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_step_in_halves_is_near_one_in_single_precision(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # float16 is refused on a CPU for its speed; its arithmetic is there.
    monkeypatch.setattr(local, "make_precision", lambda name, device, kept: Precision(name, device, kept))
    task, losses = DetectionTask(), {}
    config = TrainConfig(batch_size=2, device="cpu", augment=False, lr=1e-4, max_steps=1)
    for name in ("fp32", precision):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = build("cmt_tiny", {})
        dataset = task.prepare([made_frame(seed) for seed in range(2)], network)
        start = {key: tensor.detach().clone() for key, tensor in network.state_dict().items()}
        state = LocalState(network, start, Memory(), {}, {}, 2, signature(network, "cmt_tiny"), lr=config.lr)
        outcome = train(task, dataset, replace(config, precision=name), LocalRule(), state, seed=1)
        losses[name] = outcome.loss
        assert {p.dtype for p in network.parameters()} == {torch.float32}
        assert all(torch.isfinite(p).all() for p in network.parameters())
    assert losses[precision] != losses["fp32"]
    assert losses[precision] == pytest.approx(losses["fp32"], rel=0.02)


def test_places_of_queries_do_not_depend_on_the_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pixel in half precision is off by up to three columns of a wide picture."""
    found: list[tuple[torch.Tensor, torch.Tensor]] = []

    def seen(points: torch.Tensor, lidar_to_pixel: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found.append(project(points, lidar_to_pixel))
        return found[-1]

    monkeypatch.setattr("fed_models.blocks.cmt_head.co.project", seen)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build("cmt_tiny", {}).eval()
    task = DetectionTask()
    batch = task.batch(task.prepare([made_frame(0)], network), [0])
    for name in ("fp32", "bf16"):
        with torch.no_grad(), Precision(name, torch.device("cpu"), {}).forward():
            outputs = network(batch)
        assert outputs.logits.dtype is outputs.codes.dtype is torch.float32

    (pixels, depths), (again, depths_again) = found
    assert torch.equal(pixels, again) and torch.equal(depths, depths_again)
