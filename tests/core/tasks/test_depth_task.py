"""The depth task: frames of any size to batches, masks, augmentation, prediction at the image's size."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from fed_core.errors import DataError, UnknownNameError
from fed_core.tasks.base import tasks
from fed_core.tasks.depth.augment import augment
from fed_core.tasks.depth.task import DepthTask, resize_rgb
from fed_core.types import IMAGE_MEAN, IMAGE_STD, DepthFrame

NETWORK = SimpleNamespace(input_size=(8, 12), d_min=0.5, d_max=20.0)


def frame(depth_m: np.ndarray, rgb: np.ndarray | None = None) -> DepthFrame:
    colour = np.full((*depth_m.shape, 3), 100, np.uint8) if rgb is None else rgb
    return DepthFrame(colour, depth_m.astype(np.float32), 0, np.eye(3))


class Constant(nn.Module):
    """Says the same depth for every pixel, from images of its own size only."""

    input_size, d_min, d_max = (8, 12), 0.5, 20.0

    def __init__(self) -> None:
        super().__init__()
        self.depth_m = nn.Parameter(torch.tensor(3.0))
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> SimpleNamespace:
        assert x.shape[-2:] == self.input_size
        self.seen.append(x)
        return SimpleNamespace(depth=self.depth_m.expand(len(x), 1, 8, 12))


def test_the_registry_knows_it() -> None:
    assert tasks.get("depth") is DepthTask
    with pytest.raises(UnknownNameError, match="no task is called 'flow'; known: bev, depth"):
        tasks.get("flow")


def test_frames_of_any_size_make_one_batch() -> None:
    frames = [frame(np.full((h, w), d)) for h, w, d in ((16, 24, 1.0), (8, 12, 2.0), (5, 7, 3.0), (40, 30, 4.0))]
    task = DepthTask()

    dataset = task.prepare(iter(frames), NETWORK)
    batch = task.batch(dataset, [3, 0, 2, 1])

    assert len(dataset) == 4
    assert dataset.size_bytes == 4 * 8 * 12 * (3 + 4)
    assert batch.image.shape == (4, 3, 8, 12) and batch.image.dtype == torch.float32
    assert batch.depth.shape == batch.mask.shape == (4, 1, 8, 12) and batch.mask.dtype == torch.bool
    assert batch.depth.amin((1, 2, 3)).tolist() == batch.depth.amax((1, 2, 3)).tolist() == [4.0, 1.0, 3.0, 2.0]


def test_images_are_normalised() -> None:
    task = DepthTask()
    rgb = np.zeros((8, 12, 3), np.uint8)
    rgb[:] = (255, 0, 51)

    image = task.batch(task.prepare([frame(np.ones((8, 12)), rgb)], NETWORK), [0]).image

    expected = (np.array((1.0, 0.0, 0.2), np.float32) - IMAGE_MEAN) / IMAGE_STD
    np.testing.assert_allclose(image[0, :, 3, 5].numpy(), expected, rtol=1e-6)


def test_depth_outside_the_range_is_masked() -> None:
    task = DepthTask()
    depth = np.full((8, 12), 2.0)
    depth[0, :6] = (np.nan, np.inf, 0.0, 0.49, 20.5, -1.0)
    depth[1, :2] = (0.5, 20.0)

    batch = task.batch(task.prepare([frame(depth)], NETWORK), [0])

    assert batch.mask[0, 0, 0].tolist() == [False] * 6 + [True] * 6
    assert batch.mask[0, 0, 1:].all()
    assert torch.isfinite(batch.depth).all()


def test_holes_do_not_spread_and_no_depth_is_made_up() -> None:
    task = DepthTask()
    depth = np.where(np.arange(24)[None, :] < 12, 1.0, 9.0) * np.ones((16, 1))
    depth[:, ::5] = np.nan

    small = task.prepare([frame(depth)], NETWORK).depth_m[0]

    assert set(np.unique(small[np.isfinite(small)])) == {1.0, 9.0}
    assert np.isnan(small).mean() == pytest.approx(np.isnan(depth).mean(), abs=0.1)


def test_colour_shrinks_by_area() -> None:
    checkers = np.zeros((16, 24, 3), np.uint8)
    checkers[::2, ::2] = checkers[1::2, 1::2] = 200

    assert (resize_rgb(checkers, 8, 12) == 100).all()


def test_frames_without_enough_depth_in_range_are_left_out() -> None:
    few = np.full((8, 12), 2.0)
    few.flat[63:] = 30.0  # 63 known pixels, one less than the loss wants

    dataset = DepthTask().prepare([frame(few), frame(np.full((8, 12), 3.0)), frame(np.full((8, 12), 90.0))], NETWORK)

    assert len(dataset) == 1 and (dataset.depth_m == 3.0).all()


def test_no_frame_is_an_error() -> None:
    text = r"^no usable sample: every frame is broken or lacks depth between 0.5 m and 20.0 m$"
    with pytest.raises(DataError, match=text):
        DepthTask().prepare([frame(np.full((8, 12), 90.0))], NETWORK)


def test_prediction_comes_at_the_size_of_the_image() -> None:
    network = Constant()

    depth = DepthTask().predict(network, np.zeros((37, 50, 3), np.uint8))

    assert depth.shape == (37, 50) and depth.dtype == np.float32
    np.testing.assert_allclose(depth, 3.0, rtol=1e-6)


def test_a_prediction_is_scored_against_its_frame() -> None:
    sample = frame(np.array([[2.0, 4.0, 50.0, np.nan]]))
    predicted = np.array([[3.0, 4.0, 25.0, 1.0]], np.float32)

    assert DepthTask().metrics(predicted, sample)["abs_rel"] == pytest.approx((0.5 + 0.0 + 0.5) / 3)
    assert DepthTask().metrics(predicted, sample, cap_m=10.0)["abs_rel"] == pytest.approx(0.25)
    assert DepthTask().metrics(predicted, frame(np.full((1, 4), np.nan))) is None


def test_prediction_and_training_see_the_same_image() -> None:
    task, network = DepthTask(), Constant()
    rgb = np.random.default_rng(0).integers(0, 256, (21, 33, 3), dtype=np.uint8)

    task.predict(network, rgb)

    batch = task.batch(task.prepare([frame(np.ones((21, 33)), rgb)], network), [0])
    assert torch.equal(network.seen[0], batch.image)


def test_augmentation_follows_the_generator_and_leaves_its_input() -> None:
    rng = np.random.default_rng(3)
    rgb, depth = rng.random((16, 8, 12, 3), np.float32), rng.random((16, 8, 12), np.float32)
    before = rgb.copy(), depth.copy()

    first = augment(rgb, depth, np.random.default_rng(7))
    again = augment(rgb, depth, np.random.default_rng(7))
    other = augment(rgb, depth, np.random.default_rng(8))

    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])
    np.testing.assert_array_equal(rgb, before[0])
    np.testing.assert_array_equal(depth, before[1])


def test_image_and_depth_flip_together() -> None:
    column = np.arange(12, dtype=np.float32)
    rgb = np.broadcast_to((column / 24)[None, None, :, None], (64, 8, 12, 3)).copy()
    depth = np.broadcast_to(column[None, None, :], (64, 8, 12)).copy()

    images, depths = augment(rgb, depth, np.random.default_rng(0))

    flipped = depths[:, 0, 0] > depths[:, 0, -1]
    np.testing.assert_array_equal(flipped, images[:, 0, 0, 0] > images[:, 0, -1, 0])
    assert 0.3 < flipped.mean() < 0.7
    np.testing.assert_array_equal(np.sort(depths, axis=2), depth)  # true depth never changes its value
    unchanged = [np.allclose(image, rgb[0]) or np.allclose(image, rgb[0, :, ::-1]) for image in images]
    assert 0.3 < np.mean(unchanged) < 0.7
    assert images.min() >= 0.0 and images.max() <= 1.0
