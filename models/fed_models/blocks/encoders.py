"""Image encoders: five feature maps, at strides 2, 4, 8, 16 and 32."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from fed_models.blocks.inverted_residual import InvertedResidual, Norm, conv_norm

STRIDE = 32


class Encoder(nn.Module, ABC):
    """Base of all encoders: what a decoder may rely on.

    Attributes:
        channels: channels of the five maps, finest first.
    """

    channels: tuple[int, ...]

    @abstractmethod
    def forward(self, x: Tensor) -> list[Tensor]:
        """Map images (B, 3, H, W) float32 to five maps (B, channels[i], H / 2^(i+1), W / 2^(i+1)) float32."""


class SmallEncoder(Encoder):
    """Five inverted residual stages of 16, 24, 32, 64 and 96 channels (fedepth spec 7.4), trained from scratch."""

    channels = (16, 24, 32, 64, 96)

    def __init__(self) -> None:
        super().__init__()
        norm, widths = Norm(), self.channels
        self.stem = conv_norm(3, widths[0], 3, stride=2, norm=norm)
        # The finest map costs most: its stage has no widening.
        first = InvertedResidual(widths[0], widths[0], kernel=3, stride=1, expand=1, norm=norm)
        deeper = [_stage(a, b, norm) for a, b in zip(widths[:-1], widths[1:], strict=True)]
        self.stages = nn.ModuleList([nn.Sequential(first), *deeper])

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the five maps of images (B, 3, H, W)."""
        x = self.stem(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


def _stage(channels_in: int, channels_out: int, norm: Norm) -> nn.Sequential:
    halve = InvertedResidual(channels_in, channels_out, kernel=3, stride=2, expand=3, norm=norm)
    refine = InvertedResidual(channels_out, channels_out, kernel=3, stride=1, expand=3, norm=norm)
    return nn.Sequential(halve, refine)
