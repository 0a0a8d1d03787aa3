"""The bird's eye task: frames of several cameras to batches, and a network's map to probabilities."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fed_core.data.opv2v.maps import fit_map
from fed_core.data.opv2v.source import at_round, open_source
from fed_core.data.sequence import BevSequence
from fed_core.errors import DataError
from fed_core.metrics.bev import Confusion, confusion, confusions
from fed_core.tasks.base import Dataset, Task, tasks
from fed_core.tasks.bev.loss import vehicle_loss
from fed_core.tasks.bev.pictures import Pictures
from fed_core.tasks.depth.task import resize_rgb
from fed_core.types import IMAGE_MEAN, IMAGE_STD, Array, BevFrame, RigFrame

_MEAN = torch.tensor(IMAGE_MEAN).view(3, 1, 1)
_STD = torch.tensor(IMAGE_STD).view(3, 1, 1)
#: Smallest determinant of an intrinsic matrix, in square pixels.
_FLAT = 1e-6


class Views(NamedTuple):
    """What a network takes of vehicles with equally many cameras.

    Attributes:
        images: (B, N, 3, H, W) float32 normalised.
        intrinsics: (B, N, 3, 3) float32, fitted to the network's images.
        poses: (B, N, 4, 4) float32 camera to vehicle, metres; x forward, y right, z up.
    """

    images: Tensor
    intrinsics: Tensor
    poses: Tensor


class BevBatch(NamedTuple):
    """A batch; vehicles with the same number of cameras stand together.

    Attributes:
        views: groups of vehicles, fewest cameras first.
        mask: (B, S, S) bool, True where a vehicle is; in the order of the groups.
        known: (B, S, S) bool, where some camera looks.
    """

    views: tuple[Views, ...]
    mask: Tensor
    known: Tensor


class Rig(NamedTuple):
    """The cameras of one frame, for images in the network's size.

    Attributes:
        intrinsics: (N, 3, 3) float32.
        poses: (N, 4, 4) float32.
    """

    intrinsics: npt.NDArray[np.float32]
    poses: npt.NDArray[np.float32]


class BevDataset(Dataset):
    """Frames in the network's size.

    Attributes:
        pictures: images of each of the N frames.
        rigs: their cameras; the number may differ from frame to frame.
        mask: (N, S, S) bool.
        known: (N, S, S) bool.
    """

    def __init__(
        self, pictures: Pictures, rigs: Sequence[Rig], mask: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]
    ) -> None:
        self.pictures, self.rigs, self.mask, self.known = pictures, tuple(rigs), mask, known

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.rigs)

    @property
    def size_bytes(self) -> int:
        """Memory of all arrays; images on disk take none."""
        maps = self.mask.nbytes + self.known.nbytes
        return maps + self.pictures.size_bytes + sum(array.nbytes for rig in self.rigs for array in rig)


@tasks.register("bev")
class BevTask(Task):
    """Vehicles around a vehicle, from its one to many cameras."""

    needs = ("input_size", "map_size", "extent_m", "fit_intrinsics")

    def open(self, source: Any, base: Path) -> BevSequence:
        """Open an entry of a fleet file, or several of them under ``parts``."""
        return open_source(source, base)

    def at_round(self, source: Any, number: int) -> Any:
        """Return the entry with the vehicles that round ``number`` draws."""
        return at_round(source, number)

    def images(self, sample: RigFrame) -> Sequence[Array]:
        """Return the pictures of all cameras."""
        return sample.images

    def prepare(self, samples: Iterable[BevFrame], network: Any) -> BevDataset:
        """Resize images to the network's input and matrices with them, reduce masks to the network's cells.

        Frames without any known cell are left out.
        """
        pictures, rigs, masks, knowns = Pictures(), [], [], []
        for frame in samples:
            mask, known = fit_map(frame, network.map_size, network.extent_m)
            if known.any():
                images, rig = fit_cameras(frame, network)
                pictures.append(images)
                rigs.append(rig)
                masks.append(mask)
                knowns.append(known)
        if not rigs:
            raise DataError("no usable sample: every frame is broken or has no cell that a camera sees")
        return BevDataset(pictures, rigs, np.stack(masks), np.stack(knowns))

    def batch(self, dataset: BevDataset, indexes: Sequence[int], rng: np.random.Generator | None = None) -> BevBatch:
        """Return the normalised batch; there is no augmentation (feddwa spec 5), so ``rng`` is not used."""
        groups: dict[int, list[int]] = {}
        for index in indexes:
            groups.setdefault(len(dataset.rigs[index].poses), []).append(index)
        alike = [groups[count] for count in sorted(groups)]
        views = [_stacked([(dataset.pictures[index], dataset.rigs[index]) for index in group]) for group in alike]
        ordered = [index for group in alike for index in group]
        known = torch.from_numpy(dataset.known[ordered])
        return BevBatch(tuple(views), torch.from_numpy(dataset.mask[ordered]), known)

    def move(self, batch: BevBatch, device: Any) -> BevBatch:
        """Return the batch on a device."""
        views = tuple(Views(*(part.to(device, non_blocking=True) for part in view)) for view in batch.views)
        return BevBatch(views, batch.mask.to(device, non_blocking=True), batch.known.to(device, non_blocking=True))

    def forward(self, network: nn.Module, batch: BevBatch) -> Any:
        """Return the network's output for all vehicles, in the order of the batch."""
        found = [network(*view) for view in batch.views]
        return (
            found[0] if len(found) == 1 else type(found[0])(*(torch.cat(parts) for parts in zip(*found, strict=True)))
        )

    def loss(self, network: Any, batch: BevBatch, outputs: Any) -> Tensor:
        """Return the weighted cross entropy over the known cells."""
        return vehicle_loss(outputs.logits, batch.mask, batch.known, network.vehicle_weight)

    @torch.inference_mode()
    def predict(self, network: Any, inputs: RigFrame) -> npt.NDArray[np.float32]:
        """Return the probability (S, S) float32 of a vehicle in each cell of the network's map."""
        device = next(network.parameters()).device
        views = Views(*(part.to(device) for part in _stacked([fit_cameras(inputs, network)])))
        found: npt.NDArray[np.float32] = network(*views).logits.float().softmax(1)[0, 1].cpu().numpy()
        return found

    @torch.inference_mode()
    def score(self, network: Any, dataset: BevDataset, batch_size: int = 8) -> list[Confusion]:
        """Return the counts of every frame, for IoU; the network is in eval mode."""
        device, found = next(network.parameters()).device, []
        for low in range(0, len(dataset), batch_size):
            batch = self.batch(dataset, range(low, min(low + batch_size, len(dataset))))
            said = self.forward(network, self.move(batch, device)).logits.argmax(1).bool().cpu()
            found += confusions(said.numpy(), batch.mask.numpy(), batch.known.numpy())
        return found

    def metrics(self, prediction: npt.NDArray[np.float32], sample: BevFrame, **options: Any) -> dict[str, float] | None:
        """Return tp, fp and fn [cells] of a prediction (S, S); None where no cell is known.

        A cell is said to be a vehicle where that is the likelier class. The counts are what
        :func:`fed_core.metrics.bev.iou_global` and ``iou_frame`` take.

        Args:
            prediction: (S, S) float32, probability of a vehicle.
            sample: the frame.
            **options: ``extent_m``, side of the predicted map in metres.
        """
        extent_m = options.get("extent_m", sample.metres_per_cell * len(sample.mask))
        mask, known = fit_map(sample, len(prediction), extent_m)
        if not known.any():
            return None
        counts = confusion(np.asarray(prediction > 0.5), mask, known)
        return {name: float(value) for name, value in counts._asdict().items()}


def fit_cameras(frame: RigFrame, network: Any) -> tuple[npt.NDArray[np.uint8], Rig]:
    """Return a frame's images (N, H, W, 3) in the network's size, and their cameras.

    A singular intrinsic matrix raises ``DataError``.
    """
    height, width = network.input_size
    if not frame.images:
        raise DataError(f"vehicle {frame.vehicle} has no camera; a map needs at least one")
    images, matrices = [], []
    for camera, image, matrix in zip(frame.cameras, frame.images, frame.intrinsics, strict=True):
        if not abs(np.linalg.det(matrix)) > _FLAT:
            raise DataError(f"camera {camera} of vehicle {frame.vehicle} has a singular intrinsic matrix")
        images.append(resize_rgb(image, height, width))
        matrices.append(network.fit_intrinsics(matrix, image.shape[:2]))
    rig = Rig(np.stack(matrices).astype(np.float32), np.asarray(frame.extrinsics, np.float32))
    return np.stack(images), rig


def _stacked(vehicles: Sequence[tuple[npt.NDArray[np.uint8], Rig]]) -> Views:
    pixels = np.stack([images for images, _ in vehicles]).transpose(0, 1, 4, 2, 3)
    images = torch.from_numpy(pixels.astype(np.float32))
    intrinsics = torch.from_numpy(np.stack([rig.intrinsics for _, rig in vehicles]))
    poses = torch.from_numpy(np.stack([rig.poses for _, rig in vehicles]))
    return Views((images / 255.0 - _MEAN) / _STD, intrinsics, poses)
