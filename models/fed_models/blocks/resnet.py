"""ResNet encoder of basic blocks (arXiv:1512.03385): three maps, at strides 8, 16 and 32.

Layers carry the names of the published weights, so that a file of those fits.
"""

from torch import Tensor, nn
from torch.nn import functional

from fed_core.types import Array, Tensors
from fed_models.blocks.norms import make_norm

STRIDES = (8, 16, 32)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut.

    Args:
        channels_in: of the input.
        channels: of the output.
        stride: of the first convolution and of the shortcut.
        norm: name of the normalisation.
    """

    def __init__(self, channels_in: int, channels: int, *, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = make_norm(norm, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = make_norm(norm, channels)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, make_norm(norm, channels))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, channels, H / stride, W / stride) float."""
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(inner + self.downsample(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolution beside a shortcut; as many channels out as in, a quarter between.

    Args:
        channels: of input and output.
        norm: name of the normalisation.
    """

    def __init__(self, channels: int, *, norm: str) -> None:
        super().__init__()
        inner = channels // 4
        self.conv1 = nn.Conv2d(channels, inner, 1, bias=False)
        self.bn1 = make_norm(norm, inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False)
        self.bn2 = make_norm(norm, inner)
        self.conv3 = nn.Conv2d(inner, channels, 1, bias=False)
        self.bn3 = make_norm(norm, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to the same shape, float."""
        inner = functional.relu(self.bn1(self.conv1(x)))
        inner = functional.relu(self.bn2(self.conv2(inner)))
        return functional.relu(x + self.bn3(self.conv3(inner)))


class ResNetEncoder(nn.Module):
    """Stem and four stages; the maps of the last three are handed on.

    Args:
        blocks: blocks of each stage; (3, 4, 6, 3) is ResNet-34, (2, 2, 2, 2) ResNet-18.
        width: channels of the first stage; each further stage has twice as many.
        norm: name of the normalisation.

    Attributes:
        channels: channels of the three maps, finest first.
    """

    channels: tuple[int, int, int]

    def __init__(self, blocks: tuple[int, ...], *, width: int = 64, norm: str = "bn") -> None:
        super().__init__()
        self.channels = (2 * width, 4 * width, 8 * width)
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = make_norm(norm, width)
        self.layer1 = _stage(width, width, blocks[0], norm)
        self.layer2 = _stage(width, 2 * width, blocks[1], norm)
        self.layer3 = _stage(2 * width, 4 * width, blocks[2], norm)
        self.layer4 = _stage(4 * width, 8 * width, blocks[3], norm)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map images (B, 3, H, W) float32 to three maps (B, channels[i], H / 2^(i+3), W / 2^(i+3)) float32."""
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer1(functional.max_pool2d(x, 3, stride=2, padding=1))
        fine = self.layer2(x)
        middle = self.layer3(fine)
        return [fine, middle, self.layer4(middle)]


def _stage(channels_in: int, channels: int, count: int, norm: str) -> nn.Sequential:
    first = BasicBlock(channels_in, channels, stride=1 if channels_in == channels else 2, norm=norm)
    return nn.Sequential(first, *(BasicBlock(channels, channels, stride=1, norm=norm) for _ in range(count - 1)))


def without_classifier(encoder: nn.Module, tensors: Tensors) -> dict[str, Array]:
    """Return published tensors without the classifier; counters that old files lack start at 0."""
    kept = {name: tensors[name] for name in tensors if not name.startswith("fc.")}
    for name, tensor in encoder.state_dict().items():
        if name.endswith("num_batches_tracked"):
            kept.setdefault(name, tensor.numpy())
    return kept
