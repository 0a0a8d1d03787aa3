"""The image branch of CMT: a ResNet whose batch normalisations keep their statistics, and a neck of two levels."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from fed_models.blocks.resnet import ResNetEncoder


class FrozenNormResNet(ResNetEncoder):
    """ResNet whose batch normalisations stay in eval mode while it trains (fedcka spec 8.2 and G16).

    Their weights and biases do train; statistics stay what they were: those of the weights' file, else mean 0 and
    variance 1.
    """

    def train(self, mode: bool = True) -> "FrozenNormResNet":
        """Switch the mode of all layers but batch normalisations."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map images (B, 3, H, W) float32 to the maps at strides 16 and 32."""
        return super().forward(x)[1:]


class TwoLevelNeck(nn.Module):
    """1x1 laterals of strides 16 and 32, the coarse one added to the fine one, a 3x3 convolution; no normalisation.

    Args:
        channels: of the two maps.
        dim: channels that come out.
    """

    def __init__(self, channels: Sequence[int], dim: int) -> None:
        super().__init__()
        self.lateral_convs = nn.ModuleList(nn.Conv2d(each, dim, 1) for each in channels)
        self.fpn_conv = nn.Conv2d(dim, dim, 3, padding=1)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Return (B, dim, H / 16, W / 16) float32."""
        fine, coarse = (conv(each) for conv, each in zip(self.lateral_convs, maps, strict=True))
        found: Tensor = self.fpn_conv(fine + functional.interpolate(coarse, size=fine.shape[2:], mode="nearest"))
        return found
