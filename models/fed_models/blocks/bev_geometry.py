"""Where image cells look and where map cells are, in metres around the vehicle (feddwa spec 4.2).

The map has the vehicle at its centre, forward up and right right. Vehicle axes are x forward, y right, z up, camera
axes x right, y down, z forward. ``reference`` repeats what the published code does (spec 11, G3 to G5): rays without
the change of axes, a mirrored and stretched map.
"""

import torch
from torch import Tensor

from fed_models.blocks.inverse import inverse_3x3

GEOMETRIES = ("corrected", "reference")
#: Masks are drawn with this many cells per side, cell 128 centred on the vehicle; coarser maps pool them.
RASTER = 256
#: Camera axes in vehicle axes: forward is the camera's z, right its x, up its -y.
_AXES = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, -1.0, 0.0))


def map_cells(cells: int, extent_m: float, geometry: str) -> Tensor:
    """Return the centres of a map's cells.

    Args:
        cells: cells per side.
        extent_m: side of the map in metres.
        geometry: one of :data:`GEOMETRIES`.

    Returns:
        (2, cells, cells) float32, x and y in metres; row 0 is in front.
    """
    if geometry == "reference":
        line = torch.linspace(extent_m / 2, -extent_m / 2, cells)
        x, y = torch.meshgrid(line, line, indexing="ij")
    else:
        step = RASTER / cells
        raster = step * torch.arange(cells) + (step - 1.0) / 2.0
        ahead = (RASTER / 2 - raster) * (extent_m / RASTER)
        x, y = torch.meshgrid(ahead, -ahead, indexing="ij")
    return torch.stack((x, y))


def image_cells(cells: int, side: int, geometry: str) -> Tensor:
    """Return the pixels that the cells of a feature map look at.

    Args:
        cells: cells per side of the feature map.
        side: pixels per side of the image; pixel coordinates run over 0..side, a pixel is 1 wide.
        geometry: one of :data:`GEOMETRIES`.

    Returns:
        (3, cells, cells) float32: u, v, 1.
    """
    if geometry == "reference":
        line = torch.linspace(0.0, float(side), cells)
    else:
        line = (torch.arange(cells) + 0.5) * (side / cells)
    v, u = torch.meshgrid(line, line, indexing="ij")
    return torch.stack((u, v, torch.ones_like(u)))


def rays(pixels: Tensor, intrinsics: Tensor, poses: Tensor, geometry: str) -> Tensor:
    """Return the point at depth 1 that each pixel sees, in vehicle coordinates.

    Args:
        pixels: (3, h, w) float32.
        intrinsics: (B, N, 3, 3) float32, in the unit of ``pixels``.
        poses: (B, N, 4, 4) float32 camera to vehicle.
        geometry: one of :data:`GEOMETRIES`.

    Returns:
        (B N, 4, h, w) float32 homogeneous, metres.
    """
    directions = inverse_3x3(intrinsics).flatten(0, 1) @ pixels.flatten(1)
    if geometry != "reference":
        directions = torch.tensor(_AXES, device=pixels.device) @ directions
    points = torch.cat((directions, torch.ones_like(directions[:, :1])), dim=1)
    return (poses.flatten(0, 1) @ points).view(-1, 4, *pixels.shape[1:])


def normalised(x: Tensor) -> Tensor:
    """Return (B, C, h, w) float divided by its length over the channels."""
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x / (length + 1e-7)
