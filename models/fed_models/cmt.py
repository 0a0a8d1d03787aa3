"""CMT: queries that look at a LiDAR map and at pictures alike (arXiv:2301.01283; fedcka spec 8).

Sparse voxels are replaced by pillars, so that all is pure PyTorch. Registered here: ``cmt_base`` for a GPU,
``cmt_lite`` for tests on a CPU and ``cmt_tiny`` for studies on a CPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fed_core.config import check, option
from fed_core.errors import ConfigError, DataError, StoreError, WireError
from fed_core.tasks.detection.augment import AUGMENTATIONS
from fed_core.tasks.detection.network import DetectionBatch
from fed_core.types import Boxes3D
from fed_core.wire.codec import open_tensors
from fed_models.base import NetworkConfig, load_arrays, networks
from fed_models.blocks.bev_backbone import Second, SecondFpn
from fed_models.blocks.box_code import decode_boxes, encode_all
from fed_models.blocks.cmt_head import CmtHead, HeadOutput
from fed_models.blocks.coordinates import ENCODINGS
from fed_models.blocks.frozen_resnet import FrozenNormResNet, TwoLevelNeck
from fed_models.blocks.pillars import Pillars
from fed_models.blocks.resnet import without_classifier
from fed_models.blocks.set_loss import noise_loss, query_loss
from fed_models.detection import DetectionModel

#: Coarsest stride of the image backbone.
_STRIDE = 32
#: Lowest and highest z of the range [m].
_HEIGHTS = (-5.0, 3.0)


@dataclass(frozen=True)
class CmtWidths:
    """Sizes of a network; the defaults are those of ``cmt_base``.

    Attributes:
        cameras: pictures that it takes of a scan; 0 = all.
        image: (H, W) of the pictures [pixels].
        blocks: blocks of the image backbone's four stages.
        encoder: channels of its first stage.
        range_m: how far it looks along x and y [m].
        cells: pillars per side.
        pillar: channels of a pillar.
        stages: channels of the map backbone's stages; each halves the map.
        convs: convolutions of a stage after the first one.
        level: number of the stage whose size the map has in the end.
        neck: channels that each stage gets in the end.
        dim: features D of tokens and queries.
        layers: decoder layers.
        heads: attention heads.
        hidden: features inside the decoder's linear layers.
        queries: normal queries.
        noise: denoising queries of a scan at most.
        points: points kept of a scan; 0 = all.
        momentum: of the batch normalisations.
    """

    cameras: int = 6
    image: tuple[int, int] = (256, 704)
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    encoder: int = 64
    range_m: float = 51.2
    cells: int = 512
    pillar: int = 64
    stages: tuple[int, ...] = (64, 128, 256)
    convs: int = 3
    level: int = 1
    neck: int = 128
    dim: int = 128
    layers: int = 2
    heads: int = 4
    hidden: int = 256
    queries: int = 300
    noise: int = 300
    points: int = 0
    momentum: float = 0.01

    @property
    def map_cells(self) -> int:
        """Cells per side of the map that the decoder sees."""
        return self.cells >> (self.level + 1)

    @property
    def point_range(self) -> tuple[float, float, float, float, float, float]:
        """Range [m]; pillars fill it exactly (fedcka G15)."""
        return (-self.range_m, -self.range_m, _HEIGHTS[0], self.range_m, self.range_m, _HEIGHTS[1])

    def check(self) -> None:
        """Raise ConfigError where sizes do not fit each other."""
        if any(side % _STRIDE or side < _STRIDE for side in self.image):
            raise ConfigError(f"cmt got pictures of {self.image[0]}x{self.image[1]}; sides are multiples of {_STRIDE}")
        step = 2 ** len(self.stages)
        if self.cells % step or self.cells < step:
            raise ConfigError(f"cmt got {self.cells} pillars per side; its {len(self.stages)} stages need {step}s")
        if self.dim % 2 or self.dim % self.heads:
            raise ConfigError(f"cmt got dim {self.dim} and {self.heads} heads; dim is even and a multiple of heads")


LITE = CmtWidths(
    cameras=2,
    image=(64, 160),
    blocks=(1, 1, 1, 1),
    encoder=16,
    cells=64,
    pillar=32,
    stages=(32, 64),
    convs=1,
    level=0,
    neck=32,
    dim=64,
    hidden=128,
    queries=100,
    noise=100,
    points=20000,
    momentum=0.1,
)
TINY = replace(
    LITE,
    image=(32, 96),
    encoder=8,
    range_m=32.0,
    heads=2,
    pillar=16,
    stages=(24, 32),
    neck=24,
    dim=48,
    hidden=96,
    queries=150,
    noise=60,
    points=5000,
)


@dataclass(frozen=True)
class CmtChoices:
    """What may be done in several ways.

    Attributes:
        encoding: of coordinates, a name of ``ENCODINGS``.
        near: references start evenly spread and attention near them; in the paper both start at random.
        sampled: queries start as what map and pictures show at their references; in the paper as zeros.
        augmentation: how training samples are varied, a name of ``AUGMENTATIONS``.
    """

    encoding: str = "cmt"
    near: bool = False
    sampled: bool = False
    augmentation: str = "paper"


class Cmt(DetectionModel):
    """Pictures and points to boxes.

    Args:
        widths: sizes; those that do not fit each other raise ConfigError.
        choices: encoding, references and augmentation.
    """

    def __init__(self, widths: CmtWidths, choices: CmtChoices) -> None:
        super().__init__()
        widths.check()
        self.image_size, self.num_cameras, self.max_points = widths.image, widths.cameras, widths.points
        self.point_range, self.augmentation = widths.point_range, choices.augmentation
        momentum = widths.momentum
        self.img_backbone = FrozenNormResNet(widths.blocks, width=widths.encoder)
        self.img_neck = TwoLevelNeck(self.img_backbone.channels[1:], widths.dim)
        self.pts_middle_encoder = Pillars(widths.pillar, widths.cells, widths.point_range, momentum)
        self.pts_backbone = Second(widths.pillar, widths.stages, widths.convs, momentum)
        self.pts_neck = SecondFpn(widths.stages, widths.neck, widths.level, momentum)
        self.pts_bbox_head = CmtHead(
            self.pts_neck.channels,
            widths.dim,
            layers=widths.layers,
            heads=widths.heads,
            hidden=widths.hidden,
            queries=widths.queries,
            noise=widths.noise,
            cells=widths.map_cells,
            image_size=widths.image,
            point_range=widths.point_range,
            momentum=momentum,
            encoding=choices.encoding,
            near=choices.near,
            sampled=choices.sampled,
        )

    def forward(self, batch: DetectionBatch) -> HeadOutput:
        """Return what the queries find; see the base class."""
        self._check(batch)
        images = self.img_neck(self.img_backbone(batch.images.flatten(0, 1)))
        bev = self.pts_neck(self.pts_backbone(self.pts_middle_encoder(batch.points)))
        truth = encode_all(batch.boxes, bev.device) if self.training else None
        found: HeadOutput = self.pts_bbox_head(
            images.view(*batch.images.shape[:2], *images.shape[1:]), bev, batch.lidar_to_pixel, truth
        )
        return found

    def loss(self, batch: DetectionBatch, outputs: HeadOutput) -> Tensor:
        """Return the loss summed over decoder layers, () float32."""
        truth = encode_all(batch.boxes, outputs.logits.device)
        pairs = zip(outputs.logits, outputs.codes, strict=True)
        losses = [query_loss(logits, codes, truth) for logits, codes in pairs]
        if outputs.noise is not None:
            pairs = zip(outputs.noise_logits, outputs.noise_codes, strict=True)
            losses += [noise_loss(logits, codes, outputs.noise) for logits, codes in pairs]
        return torch.stack(losses).sum()

    def decode(self, batch: DetectionBatch, outputs: HeadOutput) -> Sequence[Boxes3D]:
        """Return the boxes that the last layer finds, best score first."""
        return decode_boxes(outputs.logits[-1], outputs.codes[-1])

    def head_modules(self) -> tuple[str, ...]:
        """Return the branches."""
        return ("pts_bbox_head.task_heads",)

    def image_backbone_modules(self) -> tuple[str, ...]:
        """Return the ResNet."""
        return ("img_backbone",)

    def image_neck_modules(self) -> tuple[str, ...]:
        """Return the neck of the ResNet."""
        return ("img_neck",)

    def _check(self, batch: DetectionBatch) -> None:
        images = tuple(batch.images.shape)
        count = len(batch.points)
        if len(images) != 5 or images[0] != count or 0 in images[:2] or images[2:] != (3, *(self.image_size or ())):
            raise DataError(f"cmt got pictures of shape {images} with {count} scan(s); expected (B, N, 3, H, W)")
        if self.num_cameras and images[1] != self.num_cameras:
            raise DataError(f"cmt got {images[1]} picture(s) per scan; this network takes {self.num_cameras}")


@dataclass(frozen=True)
class _CmtOptions(NetworkConfig):
    cameras: int = option(-1, help="pictures of a scan; 0: all, -1: the variant's own number", low=-1, high=64)
    image_height: int = option(0, help="height of the pictures; 0: the variant's own", unit="px", low=0, high=4096)
    image_width: int = option(0, help="width of the pictures; 0: the variant's own", unit="px", low=0, high=8192)
    range_m: float = option(
        0.0, help="how far it looks along x and y; 0: the variant's own", unit="m", low=0.0, high=1e3
    )
    cells: int = option(0, help="pillars per side; 0: the variant's own", unit="count", low=0, high=4096)
    dim: int = option(0, help="features of tokens and queries; 0: the variant's own", unit="count", low=0, high=1024)
    layers: int = option(0, help="decoder layers; 0: the variant's own", unit="count", low=0, high=12)
    heads: int = option(0, help="attention heads; 0: the variant's own", unit="count", low=0, high=64)
    queries: int = option(0, help="queries; 0: the variant's own", unit="count", low=0, high=10000)
    noise: int = option(-1, help="denoising queries of a scan; -1: the variant's own number", low=-1, high=10000)
    max_points: int = option(-1, help="points kept of a scan; 0: all, -1: the variant's own number", low=-1)
    encoding: str = option("", help="coordinate encoding; empty: the variant's own", choices=("", *ENCODINGS))
    augmentation: str = option(
        "", help="how samples are varied; empty: the variant's own", choices=("", *AUGMENTATIONS)
    )
    weights: str = option("", help="safetensors file of this network or of its ResNet; empty: random")

    def __post_init__(self) -> None:
        check(self)

    def build(self) -> Cmt:
        """Return the network."""
        network = Cmt(self._resized(), self._chosen())
        _start_from(network, self.weights)
        return network

    def _widths(self) -> CmtWidths:
        return CmtWidths()

    def _choices(self) -> CmtChoices:
        return CmtChoices()

    def _resized(self) -> CmtWidths:
        own = self._widths()
        image = (self.image_height or own.image[0], self.image_width or own.image[1])
        given: dict[str, Any] = {
            name: getattr(self, name) for name in ("range_m", "cells", "dim", "layers", "heads", "queries")
        }
        changed = {name: value for name, value in given.items() if value}
        counts = {"cameras": self.cameras, "noise": self.noise, "points": self.max_points}
        changed |= {name: value for name, value in counts.items() if value >= 0}
        return replace(own, image=image, **changed)

    def _chosen(self) -> CmtChoices:
        given: dict[str, Any] = {"encoding": self.encoding, "augmentation": self.augmentation}
        return replace(self._choices(), **{name: value for name, value in given.items() if value})


@networks.register("cmt_base")
@dataclass(frozen=True)
class CmtBase(_CmtOptions):
    """ResNet-18, 512 pillars of 0.2 m per side, 300 queries: one GPU."""


@networks.register("cmt_lite")
@dataclass(frozen=True)
class CmtLite(_CmtOptions):
    """ResNet-10, 64 pillars per side, 100 queries: tests on a CPU."""

    def _widths(self) -> CmtWidths:
        return LITE


@networks.register("cmt_tiny")
@dataclass(frozen=True)
class CmtTiny(_CmtOptions):
    """Narrower still, for studies of thousands of steps on a CPU."""

    def _widths(self) -> CmtWidths:
        return TINY

    def _choices(self) -> CmtChoices:
        return CmtChoices(encoding="octaves", near=True, sampled=True, augmentation="light")


def _start_from(network: Cmt, weights: str) -> None:
    """Overwrite the weights of the network, or of its ResNet where the file holds those of one alone."""
    if not weights:
        return
    try:
        tensors = open_tensors(weights)
        if "conv1.weight" in tensors:
            load_arrays(network.img_backbone, without_classifier(network.img_backbone, tensors))
        else:
            load_arrays(network, tensors)
    except (StoreError, WireError) as err:
        raise ConfigError(f"weights {weights}: {err}; give a file of this network or of its ResNet") from err
