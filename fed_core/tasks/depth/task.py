"""The depth task: RGB-D frames to batches, and a network's depth back to the image's size."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fed_core.data.open import open_source
from fed_core.data.sequence import DepthSequence
from fed_core.data.units import valid_share
from fed_core.errors import DataError
from fed_core.metrics.depth import score_frame
from fed_core.tasks.base import Dataset, Task, tasks
from fed_core.tasks.depth.augment import augment
from fed_core.training.losses import MIN_PIXELS
from fed_core.types import IMAGE_MEAN, IMAGE_STD, Array, DepthFrame

_MEAN = np.array(IMAGE_MEAN, np.float32)
_STD = np.array(IMAGE_STD, np.float32)
_CHANNEL_MEAN, _CHANNEL_STD = (torch.from_numpy(values)[:, None, None] for values in (_MEAN, _STD))
#: Least share of known depth in a frame.
MIN_VALID = 0.01


class DepthBatch(NamedTuple):
    """Attributes: image (B, 3, H, W) float32 normalised; depth (B, 1, H, W) float32 metres; mask (B, 1, H, W) bool."""

    image: Tensor
    depth: Tensor
    mask: Tensor


class DepthDataset(Dataset):
    """Frames in the network's size.

    Attributes:
        rgb: (N, H, W, 3) uint8.
        depth_m: (N, H, W) float32, NaN = unknown.
        limits_m: smallest and largest depth that the network can say.
    """

    def __init__(
        self, rgb: npt.NDArray[np.uint8], depth_m: npt.NDArray[np.float32], limits_m: tuple[float, float]
    ) -> None:
        self.rgb, self.depth_m, self.limits_m = rgb, depth_m, limits_m

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.rgb)

    @property
    def size_bytes(self) -> int:
        """Memory of both arrays."""
        return self.rgb.nbytes + self.depth_m.nbytes


@tasks.register("depth")
class DepthTask(Task):
    """Monocular depth estimation."""

    needs = ("input_size", "d_min", "d_max")

    def open(self, source: Any, base: Path) -> DepthSequence:
        """Open an entry of a fleet file."""
        return open_source(source, base)

    def usable(self, sample: DepthFrame) -> bool:
        """Tell whether a frame holds enough depth."""
        return valid_share(sample.depth_m) >= MIN_VALID

    def images(self, sample: DepthFrame) -> Sequence[Array]:
        """Return the frame's picture."""
        return (sample.rgb,)

    def prepare(self, samples: Iterable[DepthFrame], network: Any) -> DepthDataset:
        """Resize frames to the network's input: colour by area, depth by nearest neighbour, so that no hole spreads.

        Frames whose loss would be zero, for lack of depth that the network can say, are left out.
        """
        height, width = network.input_size
        limits_m = (network.d_min, network.d_max)
        rgb, depth = [], []
        for frame in samples:
            small = cv2.resize(frame.depth_m, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
            if known(small, limits_m).sum() >= MIN_PIXELS:
                rgb.append(resize_rgb(frame.rgb, height, width))
                depth.append(small)
        if not rgb:
            low, high = limits_m
            raise DataError(f"no usable sample: every frame is broken or lacks depth between {low} m and {high} m")
        return DepthDataset(np.stack(rgb), np.stack(depth).astype(np.float32), limits_m)

    def batch(
        self, dataset: DepthDataset, indexes: Sequence[int], rng: np.random.Generator | None = None
    ) -> DepthBatch:
        """Return the normalised batch; with ``rng`` flipped and recoloured (fedepth spec 12)."""
        rgb = dataset.rgb[list(indexes)].astype(np.float32) / 255.0
        depth = dataset.depth_m[list(indexes)]
        if rng is not None:
            rgb, depth = augment(rgb, depth, rng)
        mask = known(depth, dataset.limits_m)
        image = (rgb - _MEAN) / _STD
        return DepthBatch(
            torch.from_numpy(np.ascontiguousarray(image.transpose(0, 3, 1, 2))),
            torch.from_numpy(np.where(mask, depth, np.float32(1.0)))[:, None],
            torch.from_numpy(mask)[:, None],
        )

    def move(self, batch: DepthBatch, device: Any) -> DepthBatch:
        """Return the batch on a device."""
        return DepthBatch(*(part.to(device, non_blocking=True) for part in batch))

    def forward(self, network: nn.Module, batch: DepthBatch) -> Any:
        """Return the network's output."""
        return network(batch.image)

    def loss(self, network: Any, batch: DepthBatch, outputs: Any) -> Tensor:
        """Return the network's own depth loss."""
        loss: Tensor = network.loss(outputs, batch.depth, batch.mask)
        return loss

    @torch.inference_mode()
    def predict(self, network: Any, inputs: Array) -> npt.NDArray[np.float32]:
        """Return depth (H, W) float32 metres for an image (H, W, 3) uint8 RGB."""
        height, width = network.input_size
        image = _normalised(resize_rgb(inputs, height, width))
        depth = network(image.to(next(network.parameters()).device)).depth[0, 0].float().cpu().numpy()
        # Pixels' centres at halves, as PyTorch's bilinear interpolation, but eight times faster.
        full = cv2.resize(depth, inputs.shape[1::-1], interpolation=cv2.INTER_LINEAR)
        return np.asarray(full, np.float32)

    def metrics(
        self, prediction: npt.NDArray[np.float32], sample: DepthFrame, **options: Any
    ) -> dict[str, float] | None:
        """Return the scores of a predicted depth (H, W) float32 metres; options: see :func:`score_frame`."""
        return score_frame(prediction, sample.depth_m, **{"cap_m": 80.0, **options})


def known(depth_m: Array, limits_m: tuple[float, float]) -> npt.NDArray[np.bool_]:
    """Return where depth (..., H, W) in metres is finite and within the limits, both included."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(depth_m) & (depth_m >= limits_m[0]) & (depth_m <= limits_m[1]))


def _normalised(rgb: npt.NDArray[np.uint8]) -> Tensor:
    """Return an (H, W, 3) uint8 image as the network sees it, (1, 3, H, W) float32: bits as :meth:`DepthTask.batch`."""
    channels = torch.from_numpy(rgb).permute(2, 0, 1).to(torch.float32, memory_format=torch.contiguous_format)
    return channels.div_(255.0).sub_(_CHANNEL_MEAN).div_(_CHANNEL_STD)[None]


def resize_rgb(rgb: Array, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return an (H, W, 3) uint8 image in another size: by area where it shrinks, bilinear where it grows."""
    if rgb.shape[:2] == (height, width):
        return np.ascontiguousarray(rgb)
    shrinks = rgb.shape[0] >= height and rgb.shape[1] >= width
    resized = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    return np.asarray(resized, np.uint8)
