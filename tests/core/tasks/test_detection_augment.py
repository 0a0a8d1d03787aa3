"""Augmentation of scans: boxes, points and pictures stay together."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.tasks.detection import DetectionTask
from fed_core.tasks.detection.augment import AUGMENTATIONS, Augmentation, augment, hidden, missing, moved_boxes
from fed_core.tasks.detection.fit import Sample, inside
from fed_core.types import Array, Boxes3D
from fed_models import build
from tests.core.tasks.detection_frames import made_frame

SPACE = AUGMENTATIONS["light"]


def sample_of(seed: int = 0) -> Sample:
    from fed_core.tasks.detection.fit import fit

    return fit(made_frame(seed), build("cmt_lite", {}))


SAMPLE = sample_of()


def pixels(sample: Sample, points: Array) -> Array:
    seen = sample.lidar_to_pixel @ np.concatenate((points, np.ones((len(points), 1))), 1).T
    return np.stack((seen[:, 0] / seen[:, 2], seen[:, 1] / seen[:, 2], seen[:, 2]), -1)


def corners(boxes: Boxes3D) -> Array:
    """Return the middle of the front side of every box, which tells centre, length and heading."""
    ahead = np.stack((np.cos(boxes.yaws), np.sin(boxes.yaws), np.zeros(len(boxes))), 1)
    return boxes.centres + ahead * boxes.sizes[:, :1] / 2.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_boxes_still_project_to_the_same_pixels(seed: int) -> None:
    moved = augment(SAMPLE, SPACE, np.random.default_rng(seed))

    np.testing.assert_allclose(pixels(moved, moved.boxes.centres), pixels(SAMPLE, SAMPLE.boxes.centres), rtol=1e-6)
    np.testing.assert_allclose(pixels(moved, corners(moved.boxes)), pixels(SAMPLE, corners(SAMPLE.boxes)), rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_velocities_follow_the_heading_and_points_stay_in_their_boxes(seed: int) -> None:
    moved = augment(SAMPLE, SPACE, np.random.default_rng(seed))

    size = moved.boxes.sizes[:, 0] / SAMPLE.boxes.sizes[:, 0]
    speed = np.linalg.norm(SAMPLE.boxes.velocities, axis=1) * size
    ahead = np.stack((np.cos(moved.boxes.yaws), np.sin(moved.boxes.yaws)), 1)
    np.testing.assert_allclose(moved.boxes.velocities, ahead * speed[:, None], atol=1e-6)
    assert [count_in(moved, i) for i in range(4)] == [count_in(SAMPLE, i) for i in range(4)]


def count_in(sample: Sample, index: int) -> int:
    """Return the number of points within a box, a hand's breadth larger."""
    box = sample.boxes.take(np.array([index]))
    c, s = np.cos(box.yaws[0]), np.sin(box.yaws[0])
    inner = (sample.points[:, :3] - box.centres[0]) @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    scale = box.sizes[0, 0] / SAMPLE.boxes.sizes[index, 0]
    return int((np.abs(inner) <= box.sizes[0] / 2.0 + 0.01 * scale).all(1).sum())


def test_a_mirror_of_x_by_hand() -> None:
    change = np.diag([-1.0, 1.0, 1.0, 1.0])
    boxes = replace(SAMPLE.boxes, yaws=np.array([0.3] * 4), velocities=np.array([[2.0, 1.0]] * 4))

    moved = moved_boxes(boxes, change)

    np.testing.assert_allclose(moved.yaws, np.pi - 0.3)
    np.testing.assert_allclose(moved.velocities, [[-2.0, 1.0]] * 4)
    np.testing.assert_allclose(moved.centres[:, 0], -boxes.centres[:, 0])


@pytest.mark.parametrize("seed", range(4))
def test_zoomed_and_mirrored_pictures_show_boxes_where_the_matrix_says(seed: int) -> None:
    how = replace(AUGMENTATIONS["none"], zoom=1.4, image_flip=0.5)
    image = np.zeros((1, 64, 160, 3), np.uint8)
    image[0, 40:48, 76:84] = 255
    straight = np.array([[80.0, 80.0, 0.0, 0.0], [0.0, 44.0, -40.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    sample = SAMPLE._replace(images=image, lidar_to_pixel=straight[None])
    ahead = np.array([[0.0, 1.0, 0.0]])
    assert pixels(sample, ahead)[0, 0, :2].tolist() == [80.0, 44.0]

    moved = augment(sample, how, np.random.default_rng(seed))

    rows, columns = np.nonzero(moved.images[0, ..., 0] > 127)
    u, v = pixels(moved, ahead)[0, 0, :2]
    assert abs(columns.mean() + 0.5 - u) < 0.6 and abs(rows.mean() + 0.5 - v) < 0.6


def test_none_changes_nothing() -> None:
    same = augment(SAMPLE, AUGMENTATIONS["none"], np.random.default_rng(0))

    assert np.array_equal(same.images, SAMPLE.images) and np.array_equal(same.points, SAMPLE.points)
    np.testing.assert_array_equal(same.boxes.centres, SAMPLE.boxes.centres)


def test_the_paper_leaves_out_a_quarter_each_and_never_both() -> None:
    no_images, no_points = (np.array(part) for part in missing(Augmentation(), 4000, np.random.default_rng(0)))

    assert abs(no_images.mean() - 0.25) < 0.03 and abs(no_points.mean() - 0.25) < 0.03
    assert not (no_images & no_points).any()


def test_a_grid_hides_about_a_quarter_of_the_pictures_it_is_laid_over() -> None:
    holes = hidden([SAMPLE] * 300, Augmentation(), np.random.default_rng(0))

    laid = holes.any((1, 2))
    assert abs(laid.mean() - 0.7) < 0.08
    assert abs(holes[laid].mean() - 0.25) < 0.08


def test_what_is_left_out_is_zero_in_the_batch() -> None:
    task, network = DetectionTask(), build("cmt_tiny", {"augmentation": "paper"})
    dataset = task.prepare([made_frame(seed) for seed in range(2)], network)
    kinds = set()
    for seed in range(12):
        batch = task.batch(dataset, [0, 1], np.random.default_rng(seed))
        kinds |= {
            (bool((images == 0.0).all()), len(cloud) == 0)
            for images, cloud in zip(batch.images, batch.points, strict=True)
        }

    assert kinds == {(False, False), (True, False), (False, True)}


def test_what_leaves_the_range_does_not_train() -> None:
    task, network = DetectionTask(), build("cmt_tiny", {"range_m": 16.0})
    dataset = task.prepare([made_frame(seed, boxes=20) for seed in range(4)], network)

    batch = task.batch(dataset, range(4), np.random.default_rng(1))

    assert all(inside(boxes.centres, network.point_range).all() for boxes in batch.boxes)
    assert all(inside(cloud.numpy(), network.point_range).all() for cloud in batch.points)
    assert isinstance(batch.images, torch.Tensor)
