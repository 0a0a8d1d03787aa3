"""The task detection: scans fitted to a network, batches, predictions, figures, and training on four frames."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from fed_core.errors import ConfigError, DataError
from fed_core.tasks.base import Dataset, tasks
from fed_core.tasks.detection import DetectionTask
from fed_core.tasks.detection.fit import fit, fit_image
from fed_core.types import Boxes3D
from fed_models import build
from fed_models.cmt import Cmt
from tests.core.tasks.detection_frames import made_boxes, made_frame

#: Of the training run.
STEPS = 220


@pytest.fixture
def network() -> Cmt:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = build("cmt_tiny", {})
    assert isinstance(made, Cmt)
    return made


@pytest.fixture(autouse=True)
def steady() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def test_the_task_is_registered() -> None:
    assert tasks.get("detection") is DetectionTask


def test_networks_of_other_tasks_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="network 'fax_tiny' does not learn the task 'detection': it has no image_size"
    ):
        DetectionTask().check_network(build("fax_tiny", {}), "fax_tiny")


@pytest.mark.parametrize("size", [(32, 96), (64, 64), (90, 120)])
def test_a_projected_point_stays_on_what_shows_it(size: tuple[int, int]) -> None:
    """A bright square is found where the matrix of the fitted image says that its centre is."""
    image = np.zeros((90, 160, 3), np.uint8)
    image[60:68, 76:84] = 255

    fitted, change = fit_image(image, size)

    u, v, _ = change @ (80.0, 64.0, 1.0)
    rows, columns = np.nonzero(fitted[..., 0] > 127)
    assert fitted.shape == (*size, 3)
    assert abs(columns.mean() + 0.5 - u) < 0.5 and abs(rows.mean() + 0.5 - v) < 0.5
    assert change[0, 0] == pytest.approx(change[1, 1], rel=0.02)  # the aspect is kept


def test_the_bottom_of_a_picture_is_kept() -> None:
    image = np.zeros((90, 160, 3), np.uint8)
    image[-1] = 255

    fitted, change = fit_image(image, (64, 160))

    assert (fitted[-1] == 255).all() and fitted[:-1].max() == 0
    assert change.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, -26.0], [0.0, 0.0, 1.0]]


def test_points_and_boxes_are_those_in_range_and_boxes_are_hit(network: Cmt) -> None:
    frame = made_frame(0)
    boxes = replace(
        frame.boxes,
        centres=np.array([[1.0, 1.0, 0.0], [40.0, 0.0, 0.0], [2.0, 2.0, 0.0], [3.0, 3.0, 0.0]]),
        num_points=np.array([3, 3, 0, 1]),
    )
    points = np.array([[1.0, 2.0, 0.0, 9.0, 0.1], [40.0, 0.0, 0.0, 0.0, 0.0]], np.float32)

    sample = fit(replace(frame, boxes=boxes, points=points), network)

    assert sample.points.tolist() == points[:1].tolist()
    assert sample.boxes.centres[:, 0].tolist() == [1.0, 3.0]


def test_too_many_points_are_drawn_the_same_in_every_run() -> None:
    network, frame = build("cmt_tiny", {"max_points": 50}), made_frame(0)

    first, again = fit(frame, network).points, fit(frame, network).points
    other = fit(replace(frame, token="other"), network).points

    assert len(first) == 50 and np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_scan_with_too_few_cameras_is_refused(network: Cmt) -> None:
    text = (
        r"scan alone has 1 camera\(s\); the network takes 2: give scans with more, or set the network's option cameras"
    )
    with pytest.raises(DataError, match=text):
        fit(made_frame(0, cameras=1, token="alone"), network)


def test_a_singular_intrinsic_matrix_is_refused(network: Cmt) -> None:
    frame = made_frame(0)
    with pytest.raises(DataError, match="camera CAM_FRONT of scan frame0 has a singular intrinsic matrix"):
        fit(replace(frame, intrinsics=np.zeros((2, 3, 3))), network)


def test_scans_with_unequal_cameras_do_not_share_a_batch() -> None:
    task, network = DetectionTask(), build("cmt_tiny", {"cameras": 0})
    dataset = task.prepare([made_frame(0, cameras=2), made_frame(1, cameras=3)], network)

    with pytest.raises(DataError, match="scans of one batch have 2 and 3 cameras"):
        task.batch(dataset, [0, 1])


def test_a_batch_without_augmentation_is_the_scan(network: Cmt) -> None:
    task, frame = DetectionTask(), made_frame(3)
    dataset = task.prepare([frame, made_frame(4)], network)

    batch = task.batch(dataset, [1, 0])

    sample = fit(frame, network)
    assert batch.images.shape == (2, 2, 3, 32, 96) and batch.images.dtype == torch.float32
    assert np.array_equal(batch.points[1].numpy(), sample.points)
    np.testing.assert_allclose(batch.lidar_to_pixel[1].numpy(), sample.lidar_to_pixel, rtol=1e-5, atol=1e-4)
    assert np.array_equal(batch.boxes[1].centres, sample.boxes.centres)
    red = sample.images[0, 5, 7, 0] / 255.0
    assert batch.images[1, 0, 0, 5, 7].item() == pytest.approx((red - 0.485) / 0.229, abs=1e-5)


def test_equal_generators_give_equal_batches(network: Cmt) -> None:
    task = DetectionTask()
    dataset = task.prepare([made_frame(0), made_frame(1)], network)

    first, again, other = (task.batch(dataset, [0, 1], np.random.default_rng(seed)) for seed in (5, 5, 6))

    assert torch.equal(first.lidar_to_pixel, again.lidar_to_pixel) and torch.equal(first.points[0], again.points[0])
    assert not torch.equal(first.lidar_to_pixel, other.lidar_to_pixel)


def test_memory_and_tokens_of_a_dataset(network: Cmt) -> None:
    dataset = DetectionTask().prepare([made_frame(0), made_frame(1)], network)

    points = sum(len(dataset.sample(index).points) for index in range(2))
    assert dataset.tokens == ["frame0", "frame1"]
    assert dataset.size_bytes == 2 * (2 * 32 * 96 * 3 + 2 * 16 * 8) + points * 20


def test_no_frame_at_all_is_an_error(network: Cmt) -> None:
    with pytest.raises(DataError, match="no usable sample: every frame is broken, or there is none"):
        DetectionTask().prepare([], network)


def test_frames_without_boxes_or_points_train(network: Cmt) -> None:
    task, empty = DetectionTask(), made_frame(0, boxes=0)
    dataset = task.prepare([empty, replace(empty, points=empty.points[:0])], network)
    batch = task.batch(dataset, [0, 1], np.random.default_rng(0))

    loss = task.loss(network, batch, task.forward(network.train(), batch))
    loss.backward()  # type: ignore[no-untyped-call]

    assert torch.isfinite(loss) and len(batch.points[1]) == 0


def test_other_datasets_have_no_classes_to_balance() -> None:
    class Plain(Dataset):
        def __len__(self) -> int:
            return 1

        @property
        def size_bytes(self) -> int:
            return 0

    with pytest.raises(ConfigError, match="this task has no classes to balance; switch class balance off"):
        Plain().class_balanced(np.random.default_rng(0))


def test_frames_with_rare_classes_come_more_often(network: Cmt) -> None:
    task = DetectionTask()
    common, rare = boxes_at((1.0, 0, 1.0)), boxes_at((1.0, 0, 1.0), (5.0, 9, 1.0))
    frames = [replace(made_frame(seed), boxes=rare if seed == 3 else common) for seed in range(40)]
    dataset = task.prepare(frames, network)

    drawn = dataset.class_balanced(np.random.default_rng(0))

    # 41 pairs of frame and class: 4 frames for the cars, 4 for the cone.
    assert len(drawn) == 8 and drawn.count(3) >= 4
    assert drawn == dataset.class_balanced(np.random.default_rng(0))


def test_all_frames_are_predicted_as_one_by_one(network: Cmt) -> None:
    task, frames = DetectionTask(), [made_frame(seed) for seed in range(3)]
    network.eval()

    found = task.predict_all(network, task.prepare(frames, network), batch_size=2)

    assert list(found) == ["frame0", "frame1", "frame2"]
    alone = task.predict(network, frames[2])
    np.testing.assert_allclose(found["frame2"].scores, alone.scores, atol=1e-5)
    assert len(alone) <= 300 and (np.diff(alone.scores) <= 0.0).all()


def test_pictures_of_a_scan_are_for_descriptors() -> None:
    assert [image.shape for image in DetectionTask().images(made_frame(0))] == [(90, 160, 3)] * 2


def boxes_at(*rows: tuple[float, int, float]) -> Boxes3D:
    """Return boxes of x [m], class and score."""
    made = made_boxes([(np.array([x, 0.0, 0.0]), [1.0, 1.0, 1.0], 0.0, 0.0, label) for x, label, _ in rows])
    return replace(made, scores=np.array([score for _, _, score in rows]))


def test_figures_of_a_frame_by_hand() -> None:
    """Three true boxes: one found, one of another class, one that only a doubted box is near to."""
    frame = replace(made_frame(0), boxes=boxes_at((0.0, 0, 1.0), (10.0, 1, 1.0), (20.0, 0, 1.0)))
    claimed = boxes_at((1.9, 0, 0.9), (0.1, 0, 0.8), (10.0, 0, 0.7), (20.0, 0, 0.2))

    assert DetectionTask().metrics(claimed, frame) == {"found": 1.0, "true": 3.0, "claimed": 3.0}
    assert DetectionTask().metrics(claimed, frame, min_score=0.1) == {"found": 2.0, "true": 3.0, "claimed": 4.0}


def test_a_lidar_network_gets_no_pictures(network: Cmt) -> None:
    """Nor does it ever lose its points, which are all it has."""

    class Blind:
        image_size, num_cameras, max_points, point_range = None, 0, 0, network.point_range
        augmentation = "paper"

    task = DetectionTask()
    dataset = task.prepare([made_frame(0)], Blind())
    batches = [task.batch(dataset, [0], np.random.default_rng(seed)) for seed in range(20)]

    assert batches[0].images.shape[:3] == (1, 0, 3) and batches[0].lidar_to_pixel.shape == (1, 0, 4, 4)
    assert all(len(batch.points[0]) for batch in batches)


@pytest.mark.slow
def test_a_network_learns_four_frames() -> None:
    """Every true box is claimed within 2 m."""
    frames = [made_frame(seed, boxes=3, reach_m=20.0) for seed in range(4)]
    task, network = DetectionTask(), build("cmt_tiny", {"queries": 30, "noise": 30})
    dataset = task.prepare(frames, network)
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    network.train()
    for _ in range(STEPS):
        batch = task.batch(dataset, range(4))
        loss = task.loss(network, batch, task.forward(network, batch))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 35.0)
        optimizer.step()
        schedule.step()

    figures = [task.metrics(task.predict(network.eval(), frame), frame) for frame in frames]

    assert sum(each["found"] for each in figures) >= 11 and sum(each["true"] for each in figures) == 12
    assert sum(each["claimed"] for each in figures) <= 14
