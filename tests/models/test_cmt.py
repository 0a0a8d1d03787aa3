"""CMT: sizes, names of parts, gradients, and what training may see and prediction may not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError, DataError
from fed_core.tasks.detection import DetectionBatch
from fed_core.types import Boxes3D
from fed_models import build, signature, state_arrays
from fed_models.cmt import Cmt
from fed_models.detection import DetectionModel


def seeded(name: str = "cmt_tiny", **options: object) -> Cmt:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build(name, options)
    assert isinstance(network, Cmt)
    return network


def some_boxes(count: int) -> Boxes3D:
    rng = np.random.default_rng(count)
    return Boxes3D(
        centres=rng.uniform(-20.0, 20.0, (count, 3)) * (1.0, 1.0, 0.1),
        sizes=rng.uniform(0.5, 5.0, (count, 3)),
        yaws=rng.uniform(-3.0, 3.0, count),
        velocities=np.where(rng.random((count, 2)) < 0.3, np.nan, 1.0),
        labels=rng.integers(0, 10, count),
        scores=np.ones(count),
        num_points=np.full(count, 5),
    )


def made_batch(network: DetectionModel, boxes: tuple[int, ...] = (3, 0), cameras: int = 0) -> DetectionBatch:
    generator = torch.Generator().manual_seed(1)
    size, count = network.image_size or (32, 32), cameras or network.num_cameras
    matrix = torch.eye(4)
    matrix[:3] = torch.tensor([[40.0, size[1] / 2, 0.0, 0.0], [0.0, size[0] / 2, -40.0, 0.0], [0.0, 1.0, 0.0, 0.1]])
    points = torch.rand(len(boxes), 500, 5, generator=generator) * torch.tensor([60.0, 60.0, 6.0, 255.0, 0.5])
    return DetectionBatch(
        images=torch.randn(len(boxes), count, 3, *size, generator=generator),
        lidar_to_pixel=matrix.repeat(len(boxes), count, 1, 1),
        points=tuple(points - torch.tensor([30.0, 30.0, 4.0, 0.0, 0.0])),
        boxes=tuple(some_boxes(number) for number in boxes),
    )


def loss_of(network: Cmt, batch: DetectionBatch, seed: int = 0) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return network.loss(batch, network(batch))


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "total", "images", "head"),
    [
        ("cmt_base", 15_493_612, 11_176_512, 1_157_676),
        ("cmt_lite", 712_100, 309_456, 269_460),
        ("cmt_tiny", 305_362, 78_312, 172_634),
    ],
)
def test_parameters(name: str, total: int, images: int, head: int) -> None:
    network = seeded(name)

    assert (count(network), count(network.img_backbone), count(network.pts_bbox_head)) == (total, images, head)


def test_names_are_those_of_the_published_weights() -> None:
    names = {path for path, _ in seeded().named_modules()}

    head = "pts_bbox_head"
    assert {"img_backbone", "img_neck", "pts_middle_encoder", "pts_backbone", "pts_neck"} <= names
    assert {f"{head}.shared_conv", f"{head}.bev_embedding", f"{head}.rv_embedding", f"{head}.task_heads"} <= names
    assert {f"{head}.reference_points", f"{head}.transformer.decoder.layers.1"} <= names


def test_parts_are_the_task_heads_and_the_image_branch() -> None:
    network = seeded()
    made = signature(network, "cmt_tiny")

    assert set(made.parts) == {"head", "image_backbone", "image_neck"}
    assert all(name.startswith("pts_bbox_head.task_heads.0.") for name in made.parts["head"])
    assert {name.split(".")[3] for name in made.parts["head"]} == {
        "center", "height", "dim", "rot", "vel", "cls_logits",
    }  # fmt: skip
    assert "img_backbone.bn1.running_mean" in made.parts["image_backbone"]
    assert "img_neck.fpn_conv.weight" in made.parts["image_neck"]


@pytest.mark.parametrize("name", ["cmt_tiny", "cmt_lite"])
def test_a_gradient_reaches_every_parameter(name: str) -> None:
    """Queries start as zeros: what the first self-attention looks at is all the same, so its weight learns nothing."""
    network = seeded(name).train()
    first = network.pts_bbox_head.transformer.decoder.layers[0].self_attention
    nn.init.normal_(first.in_proj_bias)

    loss_of(network, made_batch(network)).backward()  # type: ignore[no-untyped-call]

    without = [key for key, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0.0]
    assert set(without) <= {"pts_bbox_head.transformer.decoder.layers.0.self_attention.in_proj_weight"}


def test_equal_seeds_give_equal_bits() -> None:
    network = seeded().train()
    batch = made_batch(network)

    first, again, other = (loss_of(network, batch, seed) for seed in (0, 0, 1))

    assert first.item() == again.item() != other.item()


def test_prediction_does_not_look_at_true_boxes() -> None:
    network = seeded().eval()
    batch = made_batch(network)

    with torch.no_grad():
        seen = network(batch)
        unseen = network(batch._replace(boxes=(some_boxes(0), some_boxes(0))))

    assert seen.noise is None
    assert torch.equal(seen.logits, unseen.logits) and torch.equal(seen.codes, unseen.codes)


def test_a_batch_without_boxes_trains() -> None:
    network = seeded().train()
    batch = made_batch(network, (0, 0))

    outputs = network(batch)

    assert outputs.noise is None
    assert torch.isfinite(network.loss(batch, outputs))


def test_scans_without_points_train() -> None:
    network = seeded().train()
    batch = made_batch(network)

    loss = loss_of(network, batch._replace(points=tuple(cloud[:0] for cloud in batch.points)))

    assert torch.isfinite(loss)


def test_the_image_backbone_keeps_its_statistics_and_learns_its_weights() -> None:
    network = seeded().train()
    before = state_arrays(network)

    loss_of(network, made_batch(network)).backward()  # type: ignore[no-untyped-call]

    after = state_arrays(network)
    moved = {key for key in before if not np.array_equal(before[key], after[key])}
    assert moved and not any(key.startswith("img_backbone") for key in moved)
    assert network.img_backbone.bn1.weight.grad is not None


def test_the_map_fills_the_range_exactly() -> None:
    network = seeded("cmt_base")
    cells = network.pts_middle_encoder.cells

    assert network.point_range == (-51.2, -51.2, -5.0, 51.2, 51.2, 3.0)
    assert 2 * 51.2 / cells == 0.2 and len(network.pts_bbox_head.cell_places) == 128**2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"image_height": 50}, "cmt got pictures of 50x96; sides are multiples of 32"),
        ({"cells": 66}, "cmt got 66 pillars per side; its 2 stages need 4s"),
        ({"dim": 50, "heads": 4}, "cmt got dim 50 and 4 heads; dim is even and a multiple of heads"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict[str, int], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        build("cmt_tiny", options)


def test_pictures_of_too_few_cameras_are_refused() -> None:
    network = seeded()

    with pytest.raises(DataError, match=r"cmt got 1 picture\(s\) per scan; this network takes 2"):
        network(made_batch(network, cameras=1))


def test_any_number_of_cameras() -> None:
    network = seeded(cameras=0).eval()
    batch = made_batch(network, cameras=3)

    with torch.no_grad():
        boxes = network.decode(batch, network(batch))

    assert len(boxes) == 2 and isinstance(boxes[0], Boxes3D)
    assert replace(boxes[0]).scores[0] == boxes[0].scores.max()
