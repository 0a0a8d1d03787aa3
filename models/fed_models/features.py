"""Descriptors of image sequences: pooled features of a frozen encoder (fedepth spec 2).

All robots of a fleet, and the inference nodes, must use the same encoder, layer, pre-processing and pooling; the
digest covers all of them, and the aggregator refuses descriptors whose digest differs.

Layer: the head of EfficientNet-Lite0, *after* its batch normalisation and ReLU6, (1280, 4, 5) for an input of 128x160.
The paper-size layer is the same convolution before both; its negative half would be lost in the clamp of GeM pooling
(spec 2, warnings i and ii).
"""

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from fed_core.errors import DataError
from fed_core.similarity.descriptors import describe
from fed_core.types import IMAGE_MEAN, IMAGE_STD, Array, Descriptor
from fed_models.blocks.efficientnet_lite import REQUIREMENT, EfficientNetLite0

LAYER = "head"
#: (H, W) that every image is resized to, whatever its shape: all robots then pool the same number of cells.
INPUT_SIZE = (128, 160)
GEM_P = 3.0
GEM_EPS = 1e-6
_BATCH = 8


def gem_pool(features: Tensor, p: float = GEM_P, eps: float = GEM_EPS) -> Tensor:
    """Pool each channel over its pixels: ``mean(max(x, eps)^p)^(1/p)`` (arXiv:1711.02512), in float32.

    Args:
        features: (B, D, h, w) float.
        p: exponent, above 0.
        eps: lower clamp, above 0.

    Returns:
        (B, D) float32.
    """
    flat = features.float().flatten(2).clamp(min=eps)
    # Relative to the channel's maximum no power overflows.
    peak = flat.amax(dim=2, keepdim=True)
    return (flat / peak).pow(p).mean(dim=2).pow(1.0 / p) * peak.squeeze(2)


class FrozenEncoder:
    """An encoder that never trains, with pooling on top.

    Args:
        network: EfficientNet-Lite0 with its head.
        source: where the weights come from ("pretrained: ...", "random: seed 0"); part of the digest.

    Attributes:
        digest: SHA-256 (hex) over weights, layer, pre-processing and pooling.
        source: as given.
    """

    def __init__(self, network: EfficientNetLite0, source: str) -> None:
        self._network = network.eval().requires_grad_(False)
        self.source = source
        self.digest = _digest(network, source)
        self._mean = torch.tensor(IMAGE_MEAN).view(1, 3, 1, 1)
        self._std = torch.tensor(IMAGE_STD).view(1, 3, 1, 1)

    @classmethod
    def random(cls, seed: int) -> "FrozenEncoder":
        """Return an encoder with seeded random weights: for tests, and where no pretrained ones can be had.

        Random features separate gross domains only.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(EfficientNetLite0(head=True), f"random: seed {seed}")

    def gem(self, images: Iterable[Array]) -> npt.NDArray[np.float32]:
        """Return pooled features (N, 1280) float32.

        Args:
            images: (H, W, 3) uint8 RGB each; sizes may differ. They are taken eight at a time, so an iterator over a
                long recording is fine.
        """
        source = iter(images)
        rows = [self._pool(batch) for batch in iter(lambda: list(islice(source, _BATCH)), [])]
        if not rows:
            raise DataError("no images to describe; the sequence is empty")
        return np.concatenate(rows)

    def describe(self, images: Iterable[Array], kind: str = "gaussian") -> Descriptor:
        """Return the descriptor of at least two images, made of their pooled features.

        Of each image only its pooled row is kept (5 KB).

        Args:
            images: (H, W, 3) uint8 RGB each.
            kind: "gaussian" (mean and variance, n - 1 in the denominator) or "subspace" (leading directions).
        """
        pooled = self.gem(images)
        if len(pooled) < 2:
            raise DataError("a descriptor needs at least 2 images, got 1; one image has no variance")
        return describe(kind, pooled, self.digest)

    def features(self, images: Iterable[Array]) -> Iterator[Tensor]:
        """Yield the feature map (1280, 4, 5) float32 of each image, (H, W, 3) uint8 RGB."""
        for image in images:
            yield self._map([image])[0]

    def _pool(self, images: list[Array]) -> npt.NDArray[np.float32]:
        return gem_pool(self._map(images)).numpy()

    @torch.inference_mode()
    def _map(self, images: list[Array]) -> Tensor:
        batch = torch.cat([_resized(image) for image in images])
        return self._network.head_map((batch / 255.0 - self._mean) / self._std)


@functools.lru_cache(maxsize=1)
def default_encoder() -> FrozenEncoder:
    """Return the encoder that fleets use: EfficientNet-Lite0 with ImageNet weights; made once per process."""
    return FrozenEncoder(EfficientNetLite0.pretrained(head=True), f"pretrained: {REQUIREMENT}")


def _resized(image: Array) -> Tensor:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
        raise DataError(f"an image is {image.dtype} {image.shape}; descriptors need (H, W, 3) uint8 in RGB order")
    pixels = torch.tensor(image).permute(2, 0, 1).unsqueeze(0).float()
    # Antialiasing keeps cameras of different resolution comparable.
    return functional.interpolate(pixels, size=INPUT_SIZE, mode="bilinear", align_corners=False, antialias=True)


def _digest(network: EfficientNetLite0, source: str) -> str:
    recipe = {
        "source": source,
        "layer": LAYER,
        "input_size": INPUT_SIZE,
        "resize": "bilinear, antialiased",
        "mean": IMAGE_MEAN,
        "std": IMAGE_STD,
        "p": GEM_P,
        "eps": GEM_EPS,
    }
    hasher = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode())
    for name, tensor in network.state_dict().items():
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        hasher.update(tensor.contiguous().numpy().tobytes())
    return hasher.hexdigest()
