"""Detectors of mmdet3d behind the contract of the detection task, with the real library on the CPU."""

import copy
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.masks import divide
from fed_core.tasks.base import tasks
from fed_core.tasks.detection.fit import NO_BOXES
from fed_core.tasks.detection.network import DetectionBatch
from fed_core.training.probe import CkaProbe
from fed_core.types import IMAGE_MEAN, IMAGE_STD, DetectionFrame
from fed_models import build, load_arrays, signature, state_arrays
from fed_models.openmmlab.boxes import from_instances, to_tensors
from tests.core.tasks.detection_frames import made_frame
from tests.models.mmdet3d_configs import IMVOXELNET, batch_of, boxes_of, write_config

pytest.importorskip("mmdet3d", reason="mmdet3d is not installed; run: make setup-detection (docs/mmdet3d.md)")

#: Ours of Pedestrian, Cyclist, Car.
KITTI = (8, 7, 0)


@pytest.fixture
def config(tmp_path: Path) -> str:
    return write_config(tmp_path)


def network(config: str, **options: str) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return build("mmdet3d", {"config": config, **options})


def car_frame() -> DetectionFrame:
    """A car of usual size at (5.5, 3.5), turned by 0.2, with its points."""
    frame = made_frame(0, boxes=0)
    rng = np.random.default_rng(1)
    inner = rng.uniform(-0.5, 0.5, (200, 3)) * (4.0, 1.7, 1.5)
    c, s = math.cos(0.2), math.sin(0.2)
    cloud = np.zeros((200, 5), np.float32)
    cloud[:, :3] = inner @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1.0]]) + (5.5, 3.5, -1.0)
    boxes = boxes_of([[5.5, 3.5, -1.0]], [[4.0, 1.7, 1.5]], [0.2], [0])
    return replace(frame, points=np.concatenate((frame.points, cloud)), boxes=boxes)


def test_it_learns_a_car_and_finds_it_where_it_is(config: str) -> None:
    model, batch = network(config), batch_of(car_frame(), made_frame(1, boxes=0))
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.2  # mmdet3d's 0.01 needs hundreds of steps until eval mode sees what train mode saw
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    model.train()
    losses = []
    for _ in range(30):
        loss = model.loss(batch, model(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    model.eval()
    with torch.no_grad():
        found = model.decode(batch, model(batch))

    assert losses[-1] < 0.2 * losses[0]
    best = found[0]
    assert best.labels[0] == 0 and best.scores[0] > 0.5
    assert np.abs(best.centres[0] - (5.5, 3.5, -1.0)).max() < 0.5
    assert np.abs(best.sizes[0] - (4.0, 1.7, 1.5)).max() < 0.5
    assert (np.diff(best.scores) <= 0).all()
    assert np.isnan(best.velocities).all()
    assert len(found) == 2 and found[1].scores.max(initial=0.0) < best.scores[0]


def test_the_task_feeds_it(config: str) -> None:
    model, task = network(config), tasks.get("detection")()
    task.check_network(model, "mmdet3d")
    dataset = task.prepare([car_frame(), made_frame(2)], model)
    batch = task.batch(dataset, [0, 1], np.random.default_rng(0))
    model.train()

    loss = task.loss(model, batch, task.forward(model, batch))
    loss.backward()

    assert torch.isfinite(loss) and loss.shape == ()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert isinstance(task.predict(model.eval(), car_frame()).labels, np.ndarray)


def test_the_loss_is_the_sum_of_the_losses(config: str) -> None:
    model, batch = network(config).train(), batch_of(car_frame(), made_frame(2))
    outputs = model(batch)
    assert set(outputs) == {"loss_cls", "loss_bbox", "loss_dir"}
    total = sum(sum(part) for part in outputs.values())
    assert model.loss(batch, outputs).item() == pytest.approx(float(total.detach()))
    outputs["accuracy"] = torch.tensor(17.0)
    assert model.loss(batch, outputs).item() == pytest.approx(float(total.detach()))


def test_truth_is_not_looked_at_in_eval_mode(config: str) -> None:
    model, frame = network(config).eval(), car_frame()
    with torch.no_grad():
        one, two = (model.decode(b, model(b))[0] for b in (batch_of(frame), batch_of(replace(frame, boxes=NO_BOXES))))
    assert len(one) > 0
    np.testing.assert_array_equal(one.centres, two.centres)
    np.testing.assert_array_equal(one.scores, two.scores)


def test_scans_without_points_or_boxes_are_scans(config: str) -> None:
    blind = replace(car_frame(), points=np.zeros((0, 5), np.float32))
    far = replace(car_frame(), points=np.full((4, 5), 900.0, np.float32), boxes=NO_BOXES)
    for frames in ([car_frame(), blind], [far, car_frame()], [blind, far]):
        batch = batch_of(*frames)
        model = network(config).train()
        assert torch.isfinite(model.loss(batch, model(batch)))
        with torch.no_grad():
            assert len(model.eval().decode(batch, model(batch))) == 2


def test_boxes_to_mmdet3d_by_hand() -> None:
    boxes = boxes_of([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[4, 2, 1], [1, 1, 2], [9, 3, 3]], [0.5, -1, 2], [0, 8, 1])
    boxes.velocities[0] = 3.0, 4.0
    rows, labels = to_tensors(boxes, KITTI, 9)
    assert rows.dtype == torch.float32
    # The truck is of no class of KITTI; z is that of the bottom; an unknown velocity is 0.
    assert rows.tolist() == [[1, 2, 2.5, 4, 2, 1, 0.5, 3, 4], [4, 5, 5, 1, 1, 2, -1, 0, 0]]
    assert labels.tolist() == [2, 0]
    assert to_tensors(boxes, KITTI, 7)[0].shape == (2, 7)
    assert to_tensors(boxes.take(np.zeros(0, np.int64)), KITTI, 7)[0].shape == (0, 7)


@pytest.mark.parametrize("values", [7, 9])
def test_boxes_from_mmdet3d_by_hand(values: int) -> None:
    rows = torch.tensor([[4, 5, 5, 1, 1, 2, -1, 1, 2], [1, 2, 2.5, 4, 2, 1, 0.5, 3, 4], [0, 0, 0, 1, 1, 1, 0, 0, 0]])
    found = SimpleNamespace(
        bboxes_3d=SimpleNamespace(tensor=rows[:, :values]),
        scores_3d=torch.tensor([0.25, 0.75, 0.5]),
        labels_3d=torch.tensor([0, 2, 1]),
    )
    boxes = from_instances(found, (8, -1, 0))
    assert boxes.labels.tolist() == [0, 8]
    assert boxes.centres.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert boxes.sizes.tolist() == [[4, 2, 1], [1, 1, 2]]
    assert boxes.yaws.tolist() == [0.5, -1.0]
    assert boxes.scores.tolist() == [0.75, 0.25]
    assert boxes.velocities.tolist() == [[3, 4], [1, 2]] if values == 9 else np.isnan(boxes.velocities).all()


def test_truth_out_of_range_or_without_points_is_not_learned(config: str) -> None:
    model = network(config)
    boxes = boxes_of([[0, 0, 0], [15.9, 0, 5], [16, 0, 0]], [[4, 2, 1]] * 3, [0] * 3, [0] * 3)
    assert model._learnable(boxes).centres[:, 0].tolist() == [0, 15.9]
    assert len(model._learnable(replace(boxes, num_points=np.array([0, 1, 1])))) == 1


def test_layers_and_masks(config: str) -> None:
    model = network(config)
    found = signature(model, "mmdet3d")
    division = divide(found)
    modules = dict(model.named_modules())
    assert {type(modules[layer.name]).__name__ for layer in division.layers} == {
        *("Conv2d", "ConvTranspose2d", "Linear", "BatchNorm1d", "BatchNorm2d")
    }
    held = [name for unit in division.units for name in unit]
    assert len(held) == len(set(held))
    assert sorted(held) == sorted(name for name in found.names if not name.endswith("num_batches_tracked"))
    head = found.parts["head"]
    assert {name.rsplit(".", 1)[0] for name in head} == {
        f"detector.bbox_head.conv_{part}" for part in ("cls", "reg", "dir_cls")
    }
    assert found.parts["image_backbone"] == ()


def test_every_layer_has_a_similarity(config: str) -> None:
    model = network(config)
    layers = [layer.name for layer in divide(signature(model, "mmdet3d")).layers]
    same = CkaProbe(model, copy.deepcopy(model), [batch_of(car_frame())], layers).scores()
    assert set(same) == set(layers)
    assert all(score.mean == pytest.approx(1.0) for score in same.values())
    other = copy.deepcopy(model)
    torch.nn.init.normal_(other.detector.bbox_head.conv_cls.weight)
    drifted = CkaProbe(model, other, [batch_of(car_frame())], layers).scores()
    changed = {name for name, score in drifted.items() if score.mean < 0.99}
    assert changed == {"detector.bbox_head.conv_cls"}


def test_state_travels(config: str) -> None:
    one, two, batch = network(config).eval(), network(config).eval(), batch_of(car_frame())
    torch.nn.init.normal_(one.detector.bbox_head.conv_cls.weight)
    load_arrays(two, state_arrays(one))
    with torch.no_grad():
        a, b = (model.decode(batch, model(batch))[0] for model in (one, two))
    np.testing.assert_array_equal(a.scores, b.scores)


def test_a_shipped_config_of_nuscenes(config: str) -> None:
    model = network("mmdet3d::pointpillars/pointpillars_hv_secfpn_sbn-all_8xb4-2x_nus-3d.py")
    assert model.point_range == (-50.0, -50.0, -5.0, 50.0, 50.0, 3.0)
    assert model.image_size is None and model.max_points == 0 and model.augmentation == "light"
    assert model.head_modules() == ("detector.pts_bbox_head",)
    # Ten sweeps: x, y, z and the time lag; boxes have velocities; one process needs no synchronised norms.
    points = torch.tensor([[1.0, 2.0, 0.0, 77.0, 0.5], [60.0, 0.0, 0.0, 77.0, 0.0]])
    assert model._cloud(points).tolist() == [[1.0, 2.0, 0.0, 0.5]]
    assert model._box_values == 9
    assert not any("Sync" in spec.module for spec in signature(model, "mmdet3d").tensors)


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_dumped_config_is_the_same(config: str, tmp_path: Path, kind: str) -> None:
    from mmengine.config import Config

    dumped = tmp_path / f"dumped.{kind}"
    Config.fromfile(config).dump(dumped)
    one, two = network(config), network(str(dumped))
    assert signature(one, "mmdet3d") == signature(two, "mmdet3d")
    assert one.point_range == two.point_range


def test_a_detector_of_pictures(tmp_path: Path) -> None:
    model = network(write_config(tmp_path, IMVOXELNET))
    assert (model.image_size, model.num_cameras) == ((64, 96), 1)
    projection = torch.tensor([[48.0, -50.0, 0.0, 0.0], [32.0, 0.0, -50.0, 0.0], [1.0, 0, 0, 0], [0, 0, 0, 1.0]])
    mean, std = (torch.tensor(values).view(1, 1, 3, 1, 1) for values in (IMAGE_MEAN, IMAGE_STD))
    rgb = torch.tensor([255.0, 51.0, 0.0]).view(1, 1, 3, 1, 1).expand(2, 1, 3, 64, 96)
    boxes = boxes_of([[12.0, 0.0, -1.0]], [[3.9, 1.6, 1.6]], [0.0], [0])
    matrices = projection.expand(2, 1, 4, 4)
    batch = DetectionBatch((rgb / 255.0 - mean) / std, matrices, (torch.zeros(0, 5),) * 2, (boxes, boxes))

    # As OpenCV reads them: blue first, 0 to 255.
    assert model._pictures(batch.images)[0][:, 0, 0].tolist() == pytest.approx([0.0, 51.0, 255.0], abs=1e-3)
    model.train()
    loss = model.loss(batch, model(batch))
    loss.backward()
    assert torch.isfinite(loss)
    with torch.no_grad():
        assert len(model.eval().decode(batch, model(batch))) == 2
