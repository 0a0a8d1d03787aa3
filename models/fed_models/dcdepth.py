"""DCDepth: depth from frequency coefficients of blocks, coarse to fine (arXiv:2410.14980; fedepth spec 7.3 and 7.4)."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_core.config import option
from fed_core.errors import ConfigError, DataError
from fed_core.training.losses import MIN_PIXELS, silog
from fed_core.types import IMAGE_STD
from fed_models.base import networks
from fed_models.blocks import swin
from fed_models.blocks.crf import CrfStage, check_widths
from fed_models.blocks.dct import DctDownsample
from fed_models.blocks.fusion import PyramidFusion
from fed_models.blocks.progressive import BLOCK, COUNTS, ProgressiveDepth
from fed_models.blocks.swin import SwinEncoder, SwinWidths
from fed_models.depth import DepthNetwork, DepthOptions, DepthOutput, StepOutputs, check_cells, check_range
from fed_models.weights import PaperOptions, start_from

STRIDE = 32
#: The loss of a step weighs this much of the next one's.
STEP_DECAY = 0.8
#: Smoothness counts after this step; before it, depth has no detail to smooth.
_ROUGH_STEPS = 4


@dataclass(frozen=True)
class DcdepthWidths:
    """Sizes of the parts after the encoder; the defaults are the paper's.

    Attributes:
        fusion: channels of the joined pyramid.
        crf: channels of the three fields, coarsest first; the last is the width of the hidden state.
        num_heads: their attention heads.
        window: side of their windows in cells.
        feedback: width of what is fed back from step to step, a multiple of 16.
        keep_state: share of the samples whose state is kept at a step while training.
        kernel: size of the convolutions that join feedback and pooled parts.
    """

    fusion: int = 512
    crf: tuple[int, int, int] = (1024, 512, 192)
    num_heads: tuple[int, int, int] = (32, 16, 8)
    window: int = 7
    feedback: int = 128
    keep_state: float = 0.3
    kernel: int = 7

    def __post_init__(self) -> None:
        check_widths(self.crf, self.num_heads)
        if self.feedback % 16:
            raise ConfigError(f"DCDepth feeds back {self.feedback} channels; the width must be a multiple of 16")


SMALL = DcdepthWidths(fusion=128, crf=(256, 128, 48), num_heads=(8, 4, 2), window=4, feedback=16, kernel=3)


@dataclass(frozen=True)
class LossWeights:
    """Weights beside the depth error (the paper: 0.005 and 0.005 outdoors, 0.002 and 0 indoors).

    Attributes:
        frequency: of the size of high frequencies.
        smoothness: of differences between neighbours.
    """

    frequency: float = 0.005
    smoothness: float = 0.005


class Dcdepth(DepthNetwork):
    """Swin encoder, fused pyramid, three fields, nine steps of coefficients, inverse transform, exponential.

    Args:
        encoder: sizes of the encoder.
        widths: sizes of the rest.
        input_size: (H, W) that training and prediction feed, multiples of 32.
        d_range_m: smallest and largest depth in metres.
        weights: weights of the loss.
    """

    _frequency_cost: Tensor
    _gray: Tensor

    def __init__(
        self,
        encoder: SwinWidths,
        widths: DcdepthWidths,
        input_size: tuple[int, int],
        d_range_m: tuple[float, float],
        *,
        weights: LossWeights = LossWeights(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__()
        check_cells("DCDepth", input_size, STRIDE, ConfigError)
        self.input_size = input_size
        self.d_min, self.d_max = check_range("DCDepth", d_range_m)
        if self.d_max <= 1.0:
            raise ConfigError(f"DCDepth scales by ln d_max, so d_max must be above 1 m; got {self.d_max} m")
        self._weights = weights
        self.encoder = SwinEncoder(encoder)
        channels, hidden = self.encoder.channels, widths.crf[-1]
        self.fusion = PyramidFusion(channels, widths.fusion)
        predictions = (widths.fusion, *(dim // 4 for dim in widths.crf[:-1]))
        self.crfs = nn.ModuleList(
            CrfStage(x, v, dim, num_heads=heads, window=widths.window)
            for x, v, dim, heads in zip(channels[:0:-1], predictions, widths.crf, widths.num_heads, strict=True)
        )
        self.context = DctDownsample(channels[0], channels[0], factor=2, reduction=2)
        self.state = nn.Conv2d(hidden + channels[0], hidden, 3, padding=1)
        self.steps = ProgressiveDepth(
            hidden,
            widths.feedback,
            log_scale=BLOCK / 2 * math.log(self.d_max),
            keep_state=widths.keep_state,
            kernel=widths.kernel,
        )
        self.register_buffer("_frequency_cost", _frequency_cost(), persistent=False)
        self.register_buffer("_gray", torch.tensor(IMAGE_STD).view(1, 3, 1, 1) / 3.0, persistent=False)

    def encode(self, x: Tensor) -> Tensor:
        """Return the map at stride 32, (B, D, H / 32, W / 32) float32."""
        deepest: Tensor = self.encoder(x)[-1]
        return deepest

    def forward(self, x: Tensor) -> DepthOutput:
        """Predict depth of normalised images (B, 3, H, W) float32; any multiples of 32 fit."""
        check_cells("DCDepth", (int(x.shape[-2]), int(x.shape[-1])), STRIDE, DataError)
        maps = self.encoder(x)
        v = self.fusion(maps)
        for i, (crf, features) in enumerate(zip(self.crfs, maps[:0:-1], strict=True)):
            v = crf(features, v if i == 0 else functional.pixel_shuffle(v, 2))
        h = torch.tanh(self.state(torch.cat([v, self.context(maps[0])], dim=1)))
        logs, coefficients = self.steps(h)
        # In gray levels of 0..1, so that the weights do not follow the normalisation.
        gray = (x * self._gray).sum(dim=1, keepdim=True)
        return DepthOutput(torch.exp(logs[-1]), steps=StepOutputs(logs, coefficients, _differences(gray)))

    def loss(self, output: DepthOutput, depth: Tensor, mask: Tensor) -> Tensor:
        """Return the weighted sum over the steps of silog, high frequencies and roughness, () float32."""
        if output.steps is None:
            raise DataError("DCDepth's loss needs the steps; give it the output of DCDepth")
        # What is not about known depth counts only in images that have some, so that an image without gives no loss.
        counted = (mask.flatten(1).sum(dim=1) >= MIN_PIXELS).float()
        counted = counted / counted.sum().clamp(min=1.0)
        total = output.depth.new_zeros(())
        shares = [STEP_DECAY ** (len(COUNTS) - 1 - i) for i in range(len(COUNTS))]
        for i, (log_depth, coefficients) in enumerate(zip(*output.steps[:2], strict=True)):
            term = silog(torch.exp(log_depth), depth, mask)
            if i > 0:
                term = term + self._weights.frequency * (counted * self._high_frequencies(coefficients)).sum()
            if i >= _ROUGH_STEPS and self._weights.smoothness > 0.0:
                term = term + self._weights.smoothness * (counted * _roughness(log_depth, output.steps.edges)).sum()
            total = total + shares[i] / sum(shares) * term
        return total

    def final_layer(self) -> tuple[str, ...]:
        """Return the names of the convolution of the last step."""
        last = len(COUNTS) - 1
        return (f"steps.heads.convs.{last}.weight", f"steps.heads.convs.{last}.bias")

    def _high_frequencies(self, coefficients: Tensor) -> Tensor:
        """Return the mean cost of an image's cells, (B,) float32."""
        return (coefficients.abs() * self._frequency_cost).sum(dim=1).mean(dim=(1, 2))


def _frequency_cost() -> Tensor:
    """Return the cost of each frequency, (1, 64, 1, 1) float32: 1.2^(u + v) - 1, its sum 1."""
    index = torch.arange(BLOCK)
    cost = 1.2 ** (index[:, None] + index[None, :]).float() - 1.0
    return (cost / cost.sum()).view(1, -1, 1, 1)


def _differences(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the absolute differences of (B, 1, H, W) to the right and down."""
    return (x[..., 1:] - x[..., :-1]).abs(), (x[..., 1:, :] - x[..., :-1, :]).abs()


def _roughness(log_depth: Tensor, edges: tuple[Tensor, Tensor]) -> Tensor:
    """Return the mean difference between neighbours, (B,) float32, less where the image changes as well."""
    right, down = (d * torch.exp(-edge) for d, edge in zip(_differences(log_depth), edges, strict=True))
    return right.mean(dim=(1, 2, 3)) + down.mean(dim=(1, 2, 3))


_FREQUENCY_HELP = "weight of high frequencies in the loss"
_SMOOTHNESS_HELP = "weight of roughness in the loss"


@networks.register("dcdepth_s")
@dataclass(frozen=True)
class DcdepthSmall(DepthOptions):
    """DCDepth-S: small enough to train on a CPU; no pretrained weights."""

    frequency_weight: float = option(LossWeights().frequency, help=_FREQUENCY_HELP, low=0.0)
    smoothness_weight: float = option(LossWeights().smoothness, help=_SMOOTHNESS_HELP, low=0.0)

    def build(self) -> Dcdepth:
        """Return the network."""
        size, d_range_m = (self.height, self.width), (self.d_min, self.d_max)
        weights = LossWeights(self.frequency_weight, self.smoothness_weight)
        return Dcdepth(swin.SMALL, SMALL, size, d_range_m, weights=weights)


@dataclass(frozen=True)
class _PaperDcdepth(PaperOptions):
    window: int = option(7, help="side of the encoder's windows", unit="count", low=2)
    frequency_weight: float = option(LossWeights().frequency, help=_FREQUENCY_HELP, low=0.0)
    smoothness_weight: float = option(LossWeights().smoothness, help=_SMOOTHNESS_HELP, low=0.0)

    def _build(self, encoder: SwinWidths) -> Dcdepth:
        widths = replace(encoder, window=self.window)
        size, d_range_m = (self.height, self.width), (self.d_min, self.d_max)
        weights = LossWeights(self.frequency_weight, self.smoothness_weight)
        network = Dcdepth(widths, DcdepthWidths(), size, d_range_m, weights=weights)
        start_from(network, self.weights)
        return network


@networks.register("dcdepth_tiny")
@dataclass(frozen=True)
class DcdepthTiny(_PaperDcdepth):
    """DCDepth with Swin-T."""

    def build(self) -> Dcdepth:
        """Return the network."""
        return self._build(swin.TINY)


@networks.register("dcdepth_large")
@dataclass(frozen=True)
class DcdepthLarge(_PaperDcdepth):
    """DCDepth with Swin-L and windows of 12, the network of the paper."""

    window: int = option(12, help="side of the encoder's windows", unit="count", low=2)

    def build(self) -> Dcdepth:
        """Return the network."""
        return self._build(swin.LARGE)
