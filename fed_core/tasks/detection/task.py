"""The detection task: scans to batches, and what a network finds to boxes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fed_core.data.nuscenes.resampling import class_balanced
from fed_core.data.nuscenes.source import open_source
from fed_core.data.sequence import DetectionSequence
from fed_core.errors import DataError
from fed_core.tasks.base import Dataset, Task, tasks
from fed_core.tasks.bev.pictures import Pictures
from fed_core.tasks.detection.augment import AUGMENTATIONS, Augmentation, augment, hidden, missing
from fed_core.tasks.detection.fit import Sample, fit, inside
from fed_core.tasks.detection.network import DetectionBatch
from fed_core.types import IMAGE_MEAN, IMAGE_STD, Array, Boxes3D, DetectionFrame, ScanFrame

_MEAN = torch.tensor(IMAGE_MEAN).view(3, 1, 1)
_STD = torch.tensor(IMAGE_STD).view(3, 1, 1)
#: A box is found where one of its class is claimed nearer than this [m].
_NEAR_M = 2.0
_NUM_POINT_FEATURES = 5


class DetectionDataset(Dataset):
    """Scans in the network's size; pictures and points beyond 1 GiB each lie on disk.

    Attributes:
        tokens: names of the frames.
        point_range: range of the network [m].
        augmentation: how samples are varied in training.
    """

    def __init__(self, point_range: tuple[float, ...], augmentation: Augmentation) -> None:
        self.point_range, self.augmentation = point_range, augmentation
        self.tokens: list[str] = []
        self._pictures, self._clouds = Pictures(), Pictures()
        self._matrices: list[npt.NDArray[np.float64]] = []
        self._boxes: list[Boxes3D] = []

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.tokens)

    def append(self, token: str, sample: Sample) -> None:
        """Add a frame."""
        self.tokens.append(token)
        self._pictures.append(sample.images)
        # One row of bytes per point, as the store keeps bytes.
        self._clouds.append(sample.points.view(np.uint8))
        self._matrices.append(sample.lidar_to_pixel)
        self._boxes.append(sample.boxes)

    def sample(self, index: int) -> Sample:
        """Return frame ``index``."""
        points = self._clouds[index].view(np.float32).reshape(-1, _NUM_POINT_FEATURES)
        return Sample(self._pictures[index], self._matrices[index], points, self._boxes[index])

    @property
    def size_bytes(self) -> int:
        """Memory of all frames; what lies on disk takes none."""
        small = sum(matrix.nbytes for matrix in self._matrices)
        return small + self._pictures.size_bytes + self._clouds.size_bytes

    def class_balanced(self, rng: np.random.Generator) -> list[int]:
        """Return frame numbers of one epoch, frames with rare classes more often (fedcka spec 7.2)."""
        return class_balanced([frozenset(boxes.labels.tolist()) for boxes in self._boxes], rng)


@tasks.register("detection")
class DetectionTask(Task):
    """Boxes around a vehicle, from its cameras and its LiDAR."""

    needs = ("image_size", "num_cameras", "point_range", "max_points", "augmentation", "loss", "decode")

    def open(self, source: Any, base: Path) -> DetectionSequence:
        """Open an entry of a fleet file, or several of them under ``parts``."""
        return open_source(source, base)

    def images(self, sample: ScanFrame) -> Sequence[Array]:
        """Return the pictures of all cameras."""
        return sample.images

    def prepare(self, samples: Iterable[DetectionFrame], network: Any) -> DetectionDataset:
        """Fit frames to the network; those without a box stay, they teach what is none."""
        how = AUGMENTATIONS[network.augmentation]
        dataset = DetectionDataset(network.point_range, how)
        for frame in samples:
            dataset.append(frame.token, fit(frame, network))
        if not len(dataset):
            raise DataError("no usable sample: every frame is broken, or there is none")
        return dataset

    def batch(
        self, dataset: DetectionDataset, indexes: Sequence[int], rng: np.random.Generator | None = None
    ) -> DetectionBatch:
        """Return the normalised batch; with ``rng`` turned, shifted, mirrored, and with modalities left out."""
        samples = [dataset.sample(index) for index in indexes]
        if rng is None:
            return _stacked(samples)
        how = dataset.augmentation
        samples = [_in_range(augment(sample, how, rng), dataset.point_range) for sample in samples]
        no_images, no_points = missing(how, len(samples), rng)
        samples = [
            sample._replace(points=sample.points[:0]) if gone and len(sample.images) else sample
            for sample, gone in zip(samples, no_points, strict=True)
        ]
        batch = _stacked(samples)
        holes = torch.from_numpy(hidden(samples, how, rng)) | torch.tensor(no_images)[:, None, None]
        return batch._replace(images=batch.images.masked_fill(holes[:, None, None], 0.0))

    def move(self, batch: DetectionBatch, device: Any) -> DetectionBatch:
        """Return the batch on a device; true boxes stay where they are."""
        points = tuple(cloud.to(device, non_blocking=True) for cloud in batch.points)
        images, matrices = (part.to(device, non_blocking=True) for part in (batch.images, batch.lidar_to_pixel))
        return DetectionBatch(images, matrices, points, batch.boxes)

    def forward(self, network: nn.Module, batch: DetectionBatch) -> Any:
        """Return what the network makes of the batch."""
        return network(batch)

    def loss(self, network: Any, batch: DetectionBatch, outputs: Any) -> Tensor:
        """Return the network's own loss."""
        found: Tensor = network.loss(batch, outputs)
        return found

    # A network is free in what it does with its outputs; the array of the base class does not hold boxes.
    @torch.inference_mode()
    def predict(self, network: Any, inputs: ScanFrame) -> Boxes3D:  # type: ignore[override]
        """Return the boxes of a scan in its LiDAR frame, best score first."""
        batch = self.move(_stacked([fit(inputs, network)]), next(network.parameters()).device)
        boxes: Boxes3D = network.decode(batch, network(batch))[0]
        return boxes

    @torch.inference_mode()
    def predict_all(self, network: Any, dataset: DetectionDataset, batch_size: int = 8) -> dict[str, Boxes3D]:
        """Return the boxes of every frame by its token; the network is in eval mode."""
        device, found = next(network.parameters()).device, dict[str, Boxes3D]()
        for low in range(0, len(dataset), batch_size):
            indexes = range(low, min(low + batch_size, len(dataset)))
            batch = self.move(self.batch(dataset, indexes), device)
            found |= dict(zip((dataset.tokens[i] for i in indexes), network.decode(batch, network(batch)), strict=True))
        return found

    def metrics(self, prediction: Boxes3D, sample: DetectionFrame, **options: Any) -> dict[str, float]:
        """Return how many boxes are claimed, true, and found: claimed within 2 m, of the right class.

        True boxes without a LiDAR point do not count. These are figures to watch while a robot drives; scores are
        made by :mod:`fed_core.metrics.detection`.

        Args:
            prediction: predicted boxes.
            sample: the frame.
            **options: ``min_score``, score from which on a box is claimed (0.3).
        """
        claimed = prediction.take(prediction.scores >= options.get("min_score", 0.3))
        true = sample.boxes.take(sample.boxes.num_points > 0)
        free, found = np.ones(len(true), bool), 0
        for index in np.argsort(-claimed.scores, kind="stable"):
            away = np.linalg.norm(true.centres[:, :2] - claimed.centres[index, :2], axis=1)
            away[~free | (true.labels != claimed.labels[index])] = np.inf
            if len(away) and away.min() < _NEAR_M:
                free[away.argmin()] = False
                found += 1
        return {"found": float(found), "true": float(len(true)), "claimed": float(len(claimed))}


def _in_range(sample: Sample, point_range: tuple[float, ...]) -> Sample:
    points = sample.points[inside(sample.points, point_range)]
    return sample._replace(points=points, boxes=sample.boxes.take(inside(sample.boxes.centres, point_range)))


def _stacked(samples: Sequence[Sample]) -> DetectionBatch:
    counts = {len(sample.images) for sample in samples}
    if len(counts) > 1:
        text = f"scans of one batch have {min(counts)} and {max(counts)} cameras"
        raise DataError(f"{text}; set the network's option cameras to what all have")
    pixels = np.stack([sample.images for sample in samples]).transpose(0, 1, 4, 2, 3)
    images = (torch.from_numpy(pixels.astype(np.float32)) / 255.0 - _MEAN) / _STD
    matrices = torch.from_numpy(np.stack([sample.lidar_to_pixel for sample in samples]).astype(np.float32))
    points = tuple(torch.from_numpy(np.array(sample.points)) for sample in samples)
    return DetectionBatch(images, matrices, points, tuple(sample.boxes for sample in samples))
