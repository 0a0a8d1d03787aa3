"""Discrete cosine transform of square blocks (DCDepth, arXiv:2410.14980; fedepth spec 7.3)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


def dct_matrix(size: int) -> Tensor:
    """Return the orthonormal DCT-II matrix, (size, size) float32: row u is the wave of frequency u."""
    places = torch.arange(size, dtype=torch.float64)
    waves = torch.cos(math.pi * (places[None, :] + 0.5) * places[:, None] / size) * math.sqrt(2.0 / size)
    waves[0] /= math.sqrt(2.0)
    return waves.float()


def block_matrix(size: int) -> Tensor:
    """Return the transform of a whole block, (size^2, size^2) float32; frequency (u, v) is row u size + v."""
    waves = dct_matrix(size)
    return torch.kron(waves, waves)


def to_coefficients(x: Tensor, matrix: Tensor) -> Tensor:
    """Transform each block of each channel.

    Args:
        x: (B, C, H, W) float32, H and W multiples of the block's side.
        matrix: of :func:`block_matrix`.

    Returns:
        (B, C F, H / side, W / side) float32; the F = side^2 frequencies of a channel follow each other.
    """
    cells = functional.pixel_unshuffle(x, math.isqrt(len(matrix)))
    batch, _, height, width = cells.shape
    out: Tensor = matrix @ cells.reshape(batch, x.shape[1], len(matrix), height * width)
    return out.reshape(batch, -1, height, width)


def from_coefficients(x: Tensor, matrix: Tensor) -> Tensor:
    """Undo :func:`to_coefficients` for one channel: (B, F, h, w) float32 to (B, 1, h side, w side) float32."""
    cells: Tensor = matrix.T @ x.flatten(2)
    return functional.pixel_shuffle(cells.view(x.shape), math.isqrt(len(matrix)))


class DctDownsample(nn.Module):
    """Shrinks a map without dropping what is fine in it: each block becomes its frequencies, thinned per channel.

    Args:
        channels_in: channels of the map.
        channels_out: channels of the result.
        factor: how much smaller it gets, and the side of a block.
        reduction: by how much the frequencies of a channel are thinned; must divide ``factor``^2.
    """

    matrix: Tensor

    def __init__(self, channels_in: int, channels_out: int, *, factor: int, reduction: int) -> None:
        super().__init__()
        thinned = factor**2 // reduction * channels_in
        self.register_buffer("matrix", block_matrix(factor), persistent=False)
        self.thin = nn.Conv2d(factor**2 * channels_in, thinned, 1, groups=channels_in)
        self.mix = nn.Sequential(
            nn.Conv2d(thinned, channels_out, 1),
            nn.Conv2d(channels_out, channels_out, 5, padding=2, groups=channels_out, bias=False),
            nn.BatchNorm2d(channels_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, channels_in, H, W) to (B, channels_out, H / factor, W / factor) float32."""
        out: Tensor = self.mix(self.thin(to_coefficients(x, self.matrix)))
        return out


def diagonals(size: int) -> list[list[int]]:
    """Return the frequencies u size + v by rising u + v; within a diagonal v rises (weights rely on that order)."""
    return [[(total - v) * size + v for v in range(size) if 0 <= total - v < size] for total in range(2 * size - 1)]
