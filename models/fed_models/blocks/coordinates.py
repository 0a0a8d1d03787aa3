"""Where things are, as numbers that a network can compare: cells of the map, rays of the pixels (fedcka spec 8.2)."""

import math

import torch
from torch import Tensor, nn

#: Points along the ray of a pixel.
NUM_DEPTHS = 64
#: Depth of the first of them [m].
FIRST_DEPTH_M = 1.0
ENCODINGS = ("cmt", "octaves")
#: Periods of ``octaves`` run from twice the range down to this share of that.
_SHORTEST = 1.0 / 32.0
#: Nothing nearer than this is projected [m].
NEAREST_M = 0.1


def sine_encoding(places: Tensor, dim: int, encoding: str = "cmt") -> Tensor:
    """Return sines (even k) and cosines (odd k) of ``2 pi p / d_k``, k = 0..dim - 1.

    Args:
        places: (...,) float32 in [0, 1].
        dim: features, an even number.
        encoding: "cmt": ``d_k = 2 floor(k / 2) / dim + 1`` as in the paper, all periods between 1 and 3 ranges;
            "octaves": periods fall geometrically from 2 ranges to 1/16, so that near places differ from the start.

    Returns:
        (..., dim) float32.
    """
    steps = torch.arange(dim, device=places.device, dtype=torch.float32).div(2.0, rounding_mode="floor")
    if encoding == "cmt":
        divisors = 2.0 * steps / dim + 1.0
    else:
        divisors = 2.0 * _SHORTEST ** (steps / max(dim // 2 - 1, 1))
    angles = 2.0 * math.pi * places.unsqueeze(-1) / divisors
    even = torch.arange(dim, device=places.device) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos())


def encode_places(places: Tensor, dim: int, encoding: str = "cmt") -> Tensor:
    """Return the encoding (..., 2 dim) float32 of places (..., 2) x and y in [0, 1]: that of y, then that of x."""
    both = (sine_encoding(places[..., axis], dim, encoding) for axis in (1, 0))
    return torch.cat(tuple(both), -1)


def cell_places(cells: int) -> Tensor:
    """Return the centres (cells^2, 2) float32 x and y in [0, 1] of a square map, row by row; rows go along y."""
    centres = (torch.arange(cells, dtype=torch.float32) + 0.5) / cells
    y, x = torch.meshgrid(centres, centres, indexing="ij")
    return torch.stack((x, y), -1).reshape(-1, 2)


def token_pixels(size: tuple[int, int], image_size: tuple[int, int]) -> Tensor:
    """Return pixels (h w, 2) float32 of a feature map's tokens: u = col W / w, v = row H / h, as in the paper."""
    (rows, columns), (height, width) = size, image_size
    v = torch.arange(rows, dtype=torch.float32) * height / rows
    u = torch.arange(columns, dtype=torch.float32) * width / columns
    grid_v, grid_u = torch.meshgrid(v, u, indexing="ij")
    return torch.stack((grid_u, grid_v), -1).reshape(-1, 2)


def ray_depths(farthest_m: float) -> Tensor:
    """Return ``d_j = 1 + j (farthest - 1) / 64``, (64,) float32 metres."""
    return FIRST_DEPTH_M + torch.arange(NUM_DEPTHS) * (farthest_m - FIRST_DEPTH_M) / NUM_DEPTHS


class PointRange(nn.Module):
    """The block of space that a network looks at; it maps metres to [0, 1] and back.

    Args:
        point_range: (x_min, y_min, z_min, x_max, y_max, z_max) [m].
    """

    low: Tensor
    size: Tensor

    def __init__(self, point_range: tuple[float, ...]) -> None:
        super().__init__()
        low, high = torch.tensor(point_range[:3]), torch.tensor(point_range[3:])
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("size", high - low, persistent=False)

    def shares(self, points: Tensor) -> Tensor:
        """Return points (..., 3) [m] as shares of the range."""
        return (points - self.low) / self.size

    def metres(self, shares: Tensor) -> Tensor:
        """Return shares (..., 3) of the range in metres."""
        return shares * self.size + self.low


def ray_points(pixels: Tensor, pixel_to_lidar: Tensor, depths: Tensor) -> Tensor:
    """Return the points (B, N, T, 64, 3) [m] along the rays of pixels.

    Args:
        pixels: (B, N, T, 2) float32 u and v; B and N may be 1.
        pixel_to_lidar: (B, N, 4, 4) float32, inverse of ``lidar_to_pixel``.
        depths: (64,) float32 [m].
    """
    depth = depths[:, None]
    along = torch.cat((pixels[..., None, :] * depth, depth.expand(*pixels.shape[:-1], -1, 1)), -1)  # (u d, v d, d)
    turned = torch.einsum(
        "bnij,bntkj->bntki", pixel_to_lidar[..., :3, :3], along.expand(*pixel_to_lidar.shape[:2], -1, -1, -1)
    )
    return turned + pixel_to_lidar[..., None, None, :3, 3]


def project(points: Tensor, lidar_to_pixel: Tensor) -> tuple[Tensor, Tensor]:
    """Return pixels (B, N, Q, 2) and depths (B, N, Q) [m] of points (B, Q, 3) [m] in N cameras (B, N, 4, 4).

    Where a point lies nearer than ``NEAREST_M`` or behind the camera, its pixel means nothing.
    """
    seen = torch.einsum("bnij,bqj->bnqi", lidar_to_pixel[..., :3, :3], points) + lidar_to_pixel[..., None, :3, 3]
    depth = seen[..., 2]
    return seen[..., :2] / depth.clamp(min=NEAREST_M)[..., None], depth
