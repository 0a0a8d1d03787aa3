"""The bird's eye task: batches of any rig, the loss by hand, predictions, and jobs that train it."""

import errno
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.errors import DataError, DiskFullError
from fed_core.metrics.bev import Confusion, iou_global
from fed_core.tasks.base import tasks
from fed_core.tasks.bev import BevTask, vehicle_loss
from fed_core.tasks.bev.pictures import Pictures
from fed_core.types import BevFrame
from fed_models import build
from fed_models.fax import Fax

SIZE = (48, 64)


def frame(cameras: tuple[int, ...] = (0, 1, 2, 3), *, seed: int = 0, cells: int = 64, **changes: Any) -> BevFrame:
    """Return a frame with random pictures and one vehicle ahead on the left."""
    rng = np.random.default_rng(seed)
    images = tuple(rng.integers(0, 255, (*SIZE, 3), dtype=np.uint8) for _ in cameras)
    mask = np.zeros((cells, cells), bool)
    mask[cells // 4 : cells // 4 + 3, cells // 8 : cells // 8 + 2] = True
    poses = [np.eye(4) for _ in cameras]
    for camera, pose in zip(cameras, poses, strict=True):
        yaw = math.radians((0.0, 100.0, -100.0, 180.0)[camera])
        pose[:2, :2] = [[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]]
        pose[2, 3] = 1.5
    k = np.array([[27.0, 0.0, 32.0], [0.0, 27.0, 24.0], [0.0, 0.0, 1.0]])
    made = BevFrame(
        cameras=cameras,
        images=images,
        intrinsics=np.stack([k] * len(cameras)),
        extrinsics=np.stack(poses),
        mask=mask,
        known=np.ones_like(mask),
        metres_per_cell=100.0 / cells,
        stamp_ns=0,
        vehicle="7",
    )
    return replace(made, **changes)


@pytest.fixture
def network() -> Fax:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = build("fax_tiny", {})
    assert isinstance(made, Fax)
    return made


def test_the_task_is_registered() -> None:
    assert tasks.get("bev") is BevTask


def test_frames_are_fitted_to_the_network(network: Fax) -> None:
    dataset = BevTask().prepare([frame()], network)

    rig, images = dataset.rigs[0], dataset.pictures[0]
    assert images.shape == (4, 64, 64, 3) and images.dtype == np.uint8
    # 64x48 pictures become 64x64: rows of the matrix for y grow by 4/3.
    np.testing.assert_allclose(rig.intrinsics[2], [[27.0, 0.0, 32.0], [0.0, 36.0, 32.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(rig.poses, frame().extrinsics, atol=1e-6)
    assert dataset.mask.shape == dataset.known.shape == (1, 32, 32)
    # rows 16 to 18 and columns 8 to 9 of 64: two cells to one, a vehicle where any part is.
    assert np.argwhere(dataset.mask[0]).tolist() == [[8, 4], [9, 4]]
    assert dataset.size_bytes == 2 * 32 * 32 + 4 * (64 * 64 * 3 + 9 * 4 + 16 * 4)


def test_images_beyond_the_memory_lie_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 255, (count, 4, 4, 3), dtype=np.uint8) for count in (1, 2, 1, 3)]
    pictures = Pictures(memory_bytes=100)

    for images in frames:
        pictures.append(images)

    assert (len(pictures), pictures.size_bytes) == (4, 48)
    for index in (3, 0, 2, 1, 3):
        np.testing.assert_array_equal(pictures[index], frames[index])
    assert not list(tmp_path.iterdir())  # nothing that anybody has to clear away


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)

    with pytest.raises(DiskFullError, match=r"cannot keep prepared images in .* \(No space left on device\); free"):
        Pictures(memory_bytes=0).append(np.zeros((1, 4, 4, 3), np.uint8))


def test_the_reference_geometry_keeps_matrices_as_they_were() -> None:
    made = build("fax_tiny", {"geom": "reference"})

    dataset = BevTask().prepare([frame()], made)

    np.testing.assert_allclose(dataset.rigs[0].intrinsics, frame().intrinsics)


def test_a_coarse_cell_is_known_where_all_its_parts_are(network: Fax) -> None:
    known = np.ones((64, 64), bool)
    known[:3] = False

    dataset = BevTask().prepare([frame(known=known), frame(known=np.zeros_like(known))], network)

    assert len(dataset) == 1  # nothing to learn from the other
    assert not dataset.known[0, :2].any() and dataset.known[0, 2:].all()


def test_vehicles_with_equally_many_cameras_stand_together(network: Fax) -> None:
    task = BevTask()
    frames = [frame((0, 1, 2), seed=1), frame((0,), seed=2), frame((0, 1, 2), seed=3), frame(seed=4)]
    dataset = task.prepare([replace(f, mask=f.mask & (i != 1)) for i, f in enumerate(frames)], network)

    batch = task.move(task.batch(dataset, [3, 2, 1, 0], np.random.default_rng(0)), "cpu")
    output = task.forward(network, batch)

    assert [tuple(view.images.shape[:2]) for view in batch.views] == [(1, 1), (2, 3), (1, 4)]
    assert batch.mask.any(dim=(1, 2)).tolist() == [False, True, True, True]  # the lone camera's comes first
    assert batch.views[0].images.dtype == torch.float32 and abs(float(batch.views[0].images.mean())) < 1.0
    assert output.logits.shape == (4, 2, 32, 32)
    alone = task.forward(network.eval(), task.batch(dataset, [2]))
    together = task.forward(network, batch)
    torch.testing.assert_close(alone.logits[0], together.logits[1], rtol=1e-4, atol=1e-5)


def test_the_loss_by_hand() -> None:
    """Two cells with probabilities 1/4 and 1/2 of a vehicle; the first is one."""
    logits = torch.zeros(1, 2, 1, 2)
    logits[0, 1, 0, 0] = math.log(1 / 3)
    mask, known = torch.tensor([[[True, False]]]), torch.tensor([[[True, True]]])

    found = vehicle_loss(logits, mask, known)

    assert float(found) == pytest.approx(2.0 * (75 * math.log(4) + 1 * math.log(2)) / 76)
    lighter = vehicle_loss(logits, mask, known, 10.0)
    assert float(lighter) == pytest.approx(2.0 * (10 * math.log(4) + 1 * math.log(2)) / 11)
    hidden = vehicle_loss(logits, mask, torch.tensor([[[False, True]]]))
    assert float(hidden) == pytest.approx(2.0 * math.log(2))


def test_the_loss_equals_the_weighted_mean_of_pytorch() -> None:
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 2, 5, 5, generator=rng)
    mask = torch.rand(3, 5, 5, generator=rng) < 0.2

    expected = 2.0 * torch.nn.functional.cross_entropy(logits, mask.long(), weight=torch.tensor([1.0, 75.0]))

    torch.testing.assert_close(vehicle_loss(logits, mask, torch.ones_like(mask)), expected)


def test_unknown_cells_give_no_gradient_and_no_nan() -> None:
    logits = torch.randn(2, 2, 3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    mask, known = torch.zeros(2, 3, 3, dtype=torch.bool), torch.zeros(2, 3, 3, dtype=torch.bool)
    known[0, 1, 1] = True

    vehicle_loss(logits, mask, known).backward()

    assert logits.grad is not None and logits.grad.abs().sum(1).nonzero().tolist() == [[0, 1, 1]]
    nothing = vehicle_loss(logits, mask, torch.zeros_like(known))
    assert nothing.item() == 0.0
    with pytest.raises(DataError, match=r"expected \(B, 2, S, S\) and twice \(B, S, S\)"):
        vehicle_loss(logits, mask[:1], known)


def test_frames_without_a_vehicle_teach_that_there_is_none(network: Fax) -> None:
    """An empty mask is no missing one: the loss is that of the background, and scores have no NaN."""
    task, nothing = BevTask(), np.zeros((64, 64), bool)
    dataset = task.prepare([frame((0,), mask=nothing), frame((0,), seed=1, mask=nothing)], network)
    batch = task.batch(dataset, [0, 1])
    outputs = task.forward(network, batch)

    loss = task.loss(network, batch, outputs)
    loss.backward()

    expected = -2.0 * outputs.logits.log_softmax(1)[:, 0].mean()
    torch.testing.assert_close(loss, expected)
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)
    assert task.metrics(np.zeros((32, 32), np.float32), frame(mask=nothing)) == {"tp": 0.0, "fp": 0.0, "fn": 0.0}


def test_a_prediction_is_the_probability_of_a_vehicle(network: Fax) -> None:
    task = BevTask()
    found = task.predict(network.eval(), frame((0, 3)))
    batch = task.batch(task.prepare([frame((0, 3))], network), [0])

    assert found.shape == (32, 32) and found.dtype == np.float32
    expected = task.forward(network, batch).logits.softmax(1)[0, 1]
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-5)


def test_training_on_two_frames_lowers_the_loss(network: Fax) -> None:
    task = BevTask()
    batch = task.batch(task.prepare([frame((0,), seed=1), frame((0,), seed=2, cells=32)], network), [0, 1])
    optimizer, losses = torch.optim.AdamW(network.parameters(), lr=2e-3), []

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for _ in range(12):
            loss = task.loss(network, batch, task.forward(network, batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    assert losses[-1] < 0.8 * losses[0]


def test_metrics_count_cells_that_are_seen() -> None:
    prediction = np.zeros((32, 32), np.float32)
    prediction[8, 4], prediction[0, :3] = 0.9, (0.51, 0.5, 0.7)
    known = np.ones((64, 64), bool)
    known[0, 5] = False  # its coarse cell is column 2

    found = BevTask().metrics(prediction, frame(known=known))

    assert found == {"tp": 1.0, "fp": 1.0, "fn": 1.0}
    assert iou_global([Confusion(**{name: int(value) for name, value in found.items()})]) == pytest.approx(1 / 3)
    assert BevTask().metrics(prediction, frame(known=np.zeros((64, 64), bool))) is None


def test_frames_that_do_not_fit_are_named(network: Fax) -> None:
    task = BevTask()
    with pytest.raises(DataError, match="the map of vehicle 7 is 64 m wide, the network's is 100 m; set extent_m"):
        task.prepare([frame(metres_per_cell=1.0)], network)
    with pytest.raises(DataError, match="a mask of 48x48 cells does not reduce to the network's 32x32"):
        task.prepare([frame(cells=48)], network)
    with pytest.raises(DataError, match="camera 1 of vehicle 7 has a singular intrinsic matrix"):
        task.prepare([frame(intrinsics=np.stack([np.eye(3), np.zeros((3, 3)), np.eye(3), np.eye(3)]))], network)
    with pytest.raises(DataError, match="vehicle 7 has no camera"):
        task.predict(network, frame((0,), images=()))
    with pytest.raises(DataError, match="no usable sample"):
        task.prepare([], network)
