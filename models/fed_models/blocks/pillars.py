"""Pillars (arXiv:1812.05784): points to a map of columns. They stand for the voxels of the paper (fedcka spec 8.3)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

#: x, y, z, intensity, time lag; way to the mean point (3) and to the centre (2) of the pillar.
NUM_FEATURES = 10
BN_EPS = 1e-3
#: Intensities go from 0 to this.
_BRIGHTEST = 255.0


class Pillars(nn.Module):
    """Linear, batch normalisation and ReLU of every point, then the maximum of every column.

    Args:
        channels: of the map.
        cells: cells per side.
        point_range: (x_min, y_min, z_min, x_max, y_max, z_max) [m]; points outside do not count.
        momentum: of the batch normalisation.
    """

    def __init__(self, channels: int, cells: int, point_range: tuple[float, ...], momentum: float) -> None:
        super().__init__()
        self.channels, self.cells, self.point_range = channels, cells, point_range
        self.linear = nn.Linear(NUM_FEATURES, channels, bias=False)
        self.norm = nn.BatchNorm1d(channels, eps=BN_EPS, momentum=momentum)

    def forward(self, points: Sequence[Tensor]) -> Tensor:
        """Map B clouds (P_b, 5) float32 to (B, channels, cells, cells) float32; rows go along y, columns along x."""
        cloud, pillar = self._placed(points)
        count = len(points) * self.cells**2
        # Points out of range fall into a spare pillar: no size depends on the data then, as export formats want it.
        if self.training:  # but they must not count in the statistics of the normalisation
            inside = pillar < count
            cloud, pillar = cloud[inside], pillar[inside]
        # Zeros are a neutral start: after the ReLU nothing is smaller.
        canvas = cloud.new_zeros(count + 1, self.channels)
        # In training, a normalisation over a single point is not defined.
        if not self.training or len(cloud) > 1:
            with torch.autocast(cloud.device.type, enabled=False):  # metres need more digits than halves have
                inner = self.linear(pillar_features(cloud, pillar, self.point_range, self.cells, len(points)))
                inner = functional.relu(self.norm(inner), inplace=True)
            canvas = canvas.scatter_reduce_(0, pillar[:, None].expand_as(inner), inner, "amax")
        view = canvas[:count].view(len(points), self.cells, self.cells, self.channels)
        return view.permute(0, 3, 1, 2).contiguous()

    def _placed(self, points: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return all points (P, 5) and the number of each one's pillar, (P,) int64; one too high: out of range."""
        low, high = (points[0].new_tensor(part) for part in (self.point_range[:3], self.point_range[3:]))
        cloud = torch.cat(tuple(points))
        owner = torch.cat([torch.full_like(p[:, 0], scan, dtype=torch.int64) for scan, p in enumerate(points)])
        inside = ((cloud[:, :3] >= low) & (cloud[:, :3] < high)).all(1)
        cell = ((cloud[:, :2] - low[:2]) / (high - low)[:2] * self.cells).long().clamp(0, self.cells - 1)
        pillar = (owner * self.cells + cell[:, 1]) * self.cells + cell[:, 0]
        return cloud, pillar.where(inside, len(points) * self.cells**2)


def pillar_features(
    points: Tensor, pillar: Tensor, point_range: tuple[float, ...], cells: int, scans: int = 1
) -> Tensor:
    """Return the ten features (P, 10) float32 of points (P, 5).

    Positions are shares of half the range, intensities shares of 255 and ways metres, so that all are of like size;
    the linear layer after them could undo that.

    Args:
        points: (P, 5) float32 x, y, z [m], intensity, time lag [s].
        pillar: (P,) int64, number of the pillar, ``row * cells + column`` in its scan; the last one plus 1: a spare.
        point_range: range [m].
        cells: cells per side.
        scans: that the points are of.
    """
    low, high = (points.new_tensor(part) for part in (point_range[:3], point_range[3:]))
    counted = torch.cat((points[:, :3], torch.ones_like(points[:, :1])), 1)
    sums = points.new_zeros(scans * cells**2 + 1, 4).index_add_(0, pillar, counted)
    means = (sums[:, :3] / sums[:, 3:])[pillar]
    column, row = pillar % cells, pillar // cells % cells
    centres = (torch.stack((column, row), 1) + 0.5) / cells * (high - low)[:2] + low[:2]
    scale = torch.cat(((high - low) / 2.0, points.new_tensor([_BRIGHTEST, 1.0])))
    return torch.cat((points / scale, points[:, :3] - means, points[:, :2] - centres), 1)
