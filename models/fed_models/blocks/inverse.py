"""Inverses of the small matrices of cameras in closed form: sums and products, which every export format knows."""

import torch
from torch import Tensor


def inverse_3x3(matrix: Tensor) -> Tensor:
    """Return the inverse (..., 3, 3) of matrices (..., 3, 3) that have one, in their dtype.

    Columns are the cross products of pairs of rows over the determinant.
    """
    a, b, c = matrix.unbind(-2)
    columns = torch.stack((_cross(b, c), _cross(c, a), _cross(a, b)), -1)
    return columns / (a * columns[..., 0]).sum(-1)[..., None, None]


def inverse_affine(matrix: Tensor) -> Tensor:
    """Return the inverse (..., 4, 4) of matrices (..., 4, 4) whose last row is 0, 0, 0, 1, in their dtype."""
    turned = inverse_3x3(matrix[..., :3, :3])
    moved = -(turned @ matrix[..., :3, 3:])
    return torch.cat((torch.cat((turned, moved), -1), matrix[..., 3:, :]), -2)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    """Return the cross products (..., 3); ``torch.linalg.cross`` is in no export format either."""
    ax, ay, az = a.unbind(-1)
    bx, by, bz = b.unbind(-1)
    return torch.stack((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx), -1)
