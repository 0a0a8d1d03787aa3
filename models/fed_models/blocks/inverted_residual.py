"""Inverted residual blocks (MobileNetV2, arXiv:1801.04381) in the form that EfficientNet-Lite uses."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


class SameConv2d(nn.Conv2d):
    """Square convolution whose output is ceil(input / stride), padded as TensorFlow does: the odd row goes last.

    Args:
        channels_in: input channels.
        channels_out: output channels.
        kernel: kernel size, odd.
        stride: stride.
        groups: groups.
    """

    def __init__(self, channels_in: int, channels_out: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        # With stride 1 the padding is symmetric, and the convolution does it itself.
        own = kernel // 2 if stride == 1 else 0
        super().__init__(channels_in, channels_out, kernel, stride=stride, padding=own, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, channels_out, ceil(H / stride), ceil(W / stride))."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride > 1:
            rows, columns = (max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in input.shape[-2:])
            input = functional.pad(input, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return super().forward(input)


@dataclass(frozen=True)
class Norm:
    """How batch normalisation is set up.

    Attributes:
        momentum: weight of the newest batch in the running statistics.
        eps: added to the variance.
    """

    momentum: float = 0.1
    eps: float = 1e-5

    def layer(self, channels: int) -> nn.BatchNorm2d:
        """Return a batch normalisation of (B, channels, H, W)."""
        return nn.BatchNorm2d(channels, eps=self.eps, momentum=self.momentum)


def conv_norm(channels_in: int, channels_out: int, kernel: int, *, stride: int = 1, norm: Norm) -> nn.Sequential:
    """Return convolution, batch normalisation and ReLU6."""
    conv = SameConv2d(channels_in, channels_out, kernel, stride=stride)
    return nn.Sequential(conv, norm.layer(channels_out), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel, narrow by 1x1; the input is added where the shape stays.

    Args:
        channels_in: input channels.
        channels_out: output channels.
        kernel: size of the depthwise kernel, odd.
        stride: 1 or 2.
        expand: factor of widening; 1 leaves that convolution out.
        norm: batch normalisation.
    """

    def __init__(
        self, channels_in: int, channels_out: int, *, kernel: int, stride: int, expand: int, norm: Norm
    ) -> None:
        super().__init__()
        wide = channels_in * expand
        self.expand = conv_norm(channels_in, wide, 1, norm=norm) if expand != 1 else nn.Identity()
        depthwise = SameConv2d(wide, wide, kernel, stride=stride, groups=wide)
        self.depthwise = nn.Sequential(depthwise, norm.layer(wide), nn.ReLU6(inplace=True))
        # The narrow output stays linear: a ReLU there would lose what few channels cannot carry twice.
        self.project = nn.Sequential(SameConv2d(wide, channels_out, 1), norm.layer(channels_out))
        self.adds = stride == 1 and channels_in == channels_out

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels_in, H, W) to (B, channels_out, H / stride, W / stride)."""
        out: Tensor = self.project(self.depthwise(self.expand(x)))
        return torch.add(x, out) if self.adds else out
