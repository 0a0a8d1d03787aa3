"""NeWCRFs: depth from neural conditional random fields in windows (arXiv:2203.01502; fedepth spec 7.2 and 7.4)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_core.config import option
from fed_core.errors import ConfigError, DataError
from fed_core.training.losses import silog
from fed_models.base import networks
from fed_models.blocks import swin
from fed_models.blocks.crf import CrfStage, check_widths
from fed_models.blocks.pyramid import PyramidPooling
from fed_models.blocks.swin import SwinEncoder, SwinWidths
from fed_models.depth import DepthNetwork, DepthOptions, DepthOutput, check_cells, check_range
from fed_models.weights import PaperOptions, start_from

STRIDE = 32


@dataclass(frozen=True)
class NewcrfsWidths:
    """Sizes of the parts after the encoder; the defaults are the paper's.

    Attributes:
        pooling: channels of the pyramid pooling.
        num_groups: groups of its normalisation.
        crf: channels of the four fields, coarsest first. Each passes a quarter of its channels on.
        num_heads: their attention heads.
        window: side of their windows in cells.
    """

    pooling: int = 512
    num_groups: int = 256
    crf: tuple[int, int, int, int] = (1024, 512, 256, 128)
    num_heads: tuple[int, int, int, int] = (32, 16, 8, 4)
    window: int = 7

    def __post_init__(self) -> None:
        check_widths(self.crf, self.num_heads)
        if self.pooling % self.num_groups:
            text = f"pyramid pooling of {self.pooling} channels cannot have {self.num_groups} groups"
            raise ConfigError(f"{text}; use a divisor of {self.pooling}")


SMALL = NewcrfsWidths(pooling=128, num_groups=32, crf=(256, 128, 64, 32), num_heads=(8, 4, 2, 1), window=4)


class Newcrfs(DepthNetwork):
    """Swin encoder, pyramid pooling, four fields from coarse to fine, sigmoid times the largest depth.

    Args:
        encoder: sizes of the encoder.
        widths: sizes of the rest.
        input_size: (H, W) that training and prediction feed, multiples of 32.
        d_range_m: smallest and largest depth in metres.
    """

    def __init__(
        self, encoder: SwinWidths, widths: NewcrfsWidths, input_size: tuple[int, int], d_range_m: tuple[float, float]
    ) -> None:
        super().__init__()
        check_cells("NeWCRFs", input_size, STRIDE, ConfigError)
        self.input_size = input_size
        self.d_min, self.d_max = check_range("NeWCRFs", d_range_m)
        self.encoder = SwinEncoder(encoder)
        features = self.encoder.channels[::-1]
        self.pooling = PyramidPooling(features[0], widths.pooling, widths.num_groups)
        predictions = (widths.pooling, *(dim // 4 for dim in widths.crf[:-1]))
        self.crfs = nn.ModuleList(
            CrfStage(x, v, dim, num_heads=heads, window=widths.window)
            for x, v, dim, heads in zip(features, predictions, widths.crf, widths.num_heads, strict=True)
        )
        self.head = nn.Conv2d(widths.crf[-1], 1, 3, padding=1)

    def encode(self, x: Tensor) -> Tensor:
        """Return the map at stride 32, (B, D, H / 32, W / 32) float32."""
        deepest: Tensor = self.encoder(x)[-1]
        return deepest

    def forward(self, x: Tensor) -> DepthOutput:
        """Predict depth of normalised images (B, 3, H, W) float32, in 0..d_max; any multiples of 32 fit."""
        check_cells("NeWCRFs", (int(x.shape[-2]), int(x.shape[-1])), STRIDE, DataError)
        maps = self.encoder(x)[::-1]
        v = self.pooling(maps[0])
        for i, (crf, features) in enumerate(zip(self.crfs, maps, strict=True)):
            v = crf(features, v if i == 0 else functional.pixel_shuffle(v, 2))
        shares = torch.sigmoid(self.head(v).float())
        full = functional.interpolate(shares, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return DepthOutput(full * self.d_max)

    def loss(self, output: DepthOutput, depth: Tensor, mask: Tensor) -> Tensor:
        """Return the silog loss, () float32."""
        return silog(output.depth, depth, mask)

    def final_layer(self) -> tuple[str, ...]:
        """Return the names of the convolution that gives the depth."""
        return ("head.weight", "head.bias")


@networks.register("newcrfs_s")
@dataclass(frozen=True)
class NewcrfsSmall(DepthOptions):
    """NeWCRFs-S: small enough to train on a CPU; no pretrained weights."""

    def build(self) -> Newcrfs:
        """Return the network."""
        return Newcrfs(swin.SMALL, SMALL, (self.height, self.width), (self.d_min, self.d_max))


@dataclass(frozen=True)
class _PaperNewcrfs(PaperOptions):
    window: int = option(7, help="side of the encoder's windows (published: 7 and 12)", unit="count", low=2)

    def _build(self, encoder: SwinWidths) -> Newcrfs:
        widths = replace(encoder, window=self.window)
        network = Newcrfs(widths, NewcrfsWidths(), (self.height, self.width), (self.d_min, self.d_max))
        start_from(network, self.weights)
        return network


@networks.register("newcrfs_tiny")
@dataclass(frozen=True)
class NewcrfsTiny(_PaperNewcrfs):
    """NeWCRFs with Swin-T."""

    def build(self) -> Newcrfs:
        """Return the network."""
        return self._build(swin.TINY)


@networks.register("newcrfs_base")
@dataclass(frozen=True)
class NewcrfsBase(_PaperNewcrfs):
    """NeWCRFs with Swin-B."""

    def build(self) -> Newcrfs:
        """Return the network."""
        return self._build(swin.BASE)


@networks.register("newcrfs_large")
@dataclass(frozen=True)
class NewcrfsLarge(_PaperNewcrfs):
    """NeWCRFs with Swin-L, the network of the paper."""

    def build(self) -> Newcrfs:
        """Return the network."""
        return self._build(swin.LARGE)
