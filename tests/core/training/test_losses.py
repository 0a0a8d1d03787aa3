import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.errors import DataError
from fed_core.training.losses import MIN_PIXELS, chamfer_1d, silog


def image(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).view(1, 1, 1, -1)


def all_known(like: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(like, dtype=torch.bool)


def test_silog_of_a_constant_factor_keeps_15_percent_of_its_square() -> None:
    target = torch.full((1, 1, 8, 8), 3.0)

    loss = silog(2.0 * target, target, all_known(target))

    # e = ln 2 everywhere: 10 sqrt(0.15 ln(2)^2 + 1e-6)
    assert loss.item() == pytest.approx(2.684578, abs=2e-5)


def test_silog_of_balanced_errors_keeps_their_whole_square() -> None:
    target = torch.full((1, 1, 8, 8), 3.0)
    pred = target.clone()
    pred[..., :4] *= 2.0
    pred[..., 4:] /= 2.0

    assert silog(pred, target, all_known(target)).item() == pytest.approx(10 * math.log(2), abs=1e-4)


def test_silog_of_the_truth_is_the_root_of_the_added_constant() -> None:
    target = torch.rand(2, 1, 8, 8) + 0.5

    assert silog(target, target, all_known(target)).item() == pytest.approx(0.01, abs=1e-6)


def test_silog_weighs_images_not_pixels() -> None:
    target = torch.ones(2, 1, 16, 16)
    pred = target.clone()
    pred[0] *= 2.0
    mask = all_known(target)
    mask[0, 0, 4:] = False  # 64 of 256 pixels

    assert silog(pred, target, mask).item() == pytest.approx((2.684578 + 0.01) / 2, abs=2e-5)


@pytest.mark.parametrize(("known", "counts"), [(MIN_PIXELS - 1, False), (MIN_PIXELS, True)])
def test_silog_skips_images_with_too_few_known_pixels(known: int, counts: bool) -> None:
    target, pred = torch.ones(2, 1, 8, 16), torch.ones(2, 1, 8, 16)
    pred[0] *= 2.0
    mask = all_known(target)
    mask[0] = (torch.arange(128) < known).view(1, 8, 16)

    expected = (2.684578 + 0.01) / 2 if counts else 0.01
    assert silog(pred, target, mask).item() == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("hole", [float("nan"), float("inf"), 0.0, -1.0, 0.001])
def test_a_hole_in_the_depth_changes_neither_loss_nor_gradient_even_where_the_mask_says_known(hole: float) -> None:
    target = torch.full((1, 1, 10, 10), 2.0)
    target[0, 0, 0, 0] = hole
    pred = torch.full((1, 1, 10, 10), 4.0, requires_grad=True)

    silog(pred, target, all_known(target)).backward()

    assert pred.grad is not None and torch.isfinite(pred.grad).all()
    assert pred.grad[0, 0, 0, 0] == 0.0 and (pred.grad.flatten()[1:] > 0).all()
    centres = torch.tensor([[1.0, 3.0]], requires_grad=True)
    loss = chamfer_1d(centres, target, all_known(target))
    loss.backward()
    assert loss.item() == pytest.approx(2.0)
    assert torch.isfinite(centres.grad).all()


def test_a_prediction_of_zero_gives_a_finite_loss_and_gradient() -> None:
    pred = torch.zeros(1, 1, 8, 8, requires_grad=True)

    loss = silog(pred, torch.ones(1, 1, 8, 8), torch.ones(1, 1, 8, 8, dtype=torch.bool))
    loss.backward()

    assert torch.isfinite(loss) and torch.isfinite(pred.grad).all()


def test_without_a_known_pixel_losses_are_zero_with_a_graph() -> None:
    target = torch.full((2, 1, 8, 8), float("nan"))
    mask = torch.zeros(2, 1, 8, 8, dtype=torch.bool)
    pred, centres = torch.ones(2, 1, 8, 8, requires_grad=True), torch.ones(2, 4, requires_grad=True)

    loss = silog(pred, target, mask) + chamfer_1d(centres, target, mask)
    loss.backward()

    assert loss.item() == 0.0
    assert torch.equal(pred.grad, torch.zeros_like(pred)) and torch.equal(centres.grad, torch.zeros_like(centres))


def test_chamfer_adds_both_ways_and_moves_the_centres() -> None:
    centres = torch.tensor([[4.0, 1.0]], requires_grad=True)
    depth = image([1.0, 2.0, 5.0, 5.0])

    loss = chamfer_1d(centres, depth, all_known(depth), min_pixels=1)
    loss.backward()

    # Depths to centres: (0 + 1 + 1 + 1) / 4; centres to depths: (1 + 0) / 2.
    assert loss.item() == pytest.approx(1.25)
    # Centre 4 is pulled by both fives and its own nearest depth, centre 1 by the two only.
    torch.testing.assert_close(centres.grad, torch.tensor([[-2.0, -0.5]]))


def test_chamfer_is_zero_when_every_depth_is_a_centre() -> None:
    depth = image([3.0, 1.0, 3.0, 2.0])

    assert chamfer_1d(torch.tensor([[1.0, 2.0, 3.0]]), depth, all_known(depth), min_pixels=1).item() == 0.0


@given(seed=st.integers(0, 2**32 - 1), bins=st.integers(1, 9), share=st.floats(0.1, 1.0))
@settings(max_examples=40)
def test_losses_equal_their_plain_definitions(seed: int, bins: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    pred, target = np.exp(rng.normal(size=(2, 3, 1, 6, 7))).astype(np.float32)
    centres = np.exp(rng.normal(size=(3, bins))).astype(np.float32)
    mask = rng.random(target.shape) < share
    mask[0, 0, 0, 0] = True

    logs, chamfers = [], []
    for i in np.flatnonzero(mask.any(axis=(1, 2, 3))):
        known = target[i][mask[i]].astype(np.float64)
        e = np.log(pred[i][mask[i]].astype(np.float64)) - np.log(known)
        logs.append(10 * np.sqrt((e**2).mean() - 0.85 * e.mean() ** 2 + 1e-6))
        square = (centres[i].astype(np.float64)[:, None] - known[None]) ** 2
        chamfers.append(square.min(axis=1).mean() + square.min(axis=0).mean())
    tensors = torch.from_numpy(target), torch.from_numpy(mask)

    assert silog(torch.from_numpy(pred), *tensors, min_pixels=1).item() == pytest.approx(np.mean(logs), rel=1e-4)
    got = chamfer_1d(torch.from_numpy(centres), *tensors, min_pixels=1).item()
    assert got == pytest.approx(np.mean(chamfers), rel=1e-4, abs=1e-7)


def test_chamfer_gradient_agrees_with_finite_differences() -> None:
    centres = torch.tensor([[0.5, 2.2, 7.1]], requires_grad=True)
    depth = image([0.7, 1.9, 2.0, 6.0, 9.0])

    chamfer_1d(centres, depth, all_known(depth), min_pixels=1).backward()

    for k in range(3):
        step = torch.zeros(1, 3)
        step[0, k] = 1e-2
        ends = [chamfer_1d(centres.detach() + s * step, depth, all_known(depth), min_pixels=1).item() for s in (1, -1)]
        assert centres.grad[0, k].item() == pytest.approx((ends[0] - ends[1]) / 2e-2, abs=1e-3)


def test_wrong_shapes_and_dtypes_are_named() -> None:
    depth = torch.ones(2, 1, 8, 8)

    with pytest.raises(DataError, match=r"shapes \(2, 1, 4, 4\), \(2, 1, 8, 8\), .*; expected \(B, 1, H, W\)"):
        silog(torch.ones(2, 1, 4, 4), depth, all_known(depth))
    with pytest.raises(DataError, match="the depth mask is float32; expected bool"):
        silog(depth, depth, depth)
    with pytest.raises(DataError, match=r"bin centres have shape \(3, 4\); expected \(2, N\)"):
        chamfer_1d(torch.ones(3, 4), depth, all_known(depth))


@pytest.mark.gpu
def test_losses_on_the_gpu_equal_those_on_the_cpu() -> None:
    generator = torch.Generator().manual_seed(0)
    pred, target = (torch.rand(2, 1, 32, 32, generator=generator) * 9 + 0.5 for _ in range(2))
    mask, centres = target > 2.0, torch.rand(2, 16, generator=generator) * 10

    there = [t.cuda() for t in (pred, target, mask, centres)]
    assert silog(*there[:3]).item() == pytest.approx(silog(pred, target, mask).item(), rel=1e-5)
    got = chamfer_1d(there[3], *there[1:3]).item()
    assert got == pytest.approx(chamfer_1d(centres, target, mask).item(), rel=1e-5)
