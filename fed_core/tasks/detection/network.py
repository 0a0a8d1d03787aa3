"""What the task asks of a 3D detector, so that our own and those of mmdet3d federate alike."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from fed_core.types import Boxes3D


class DetectionBatch(NamedTuple):
    """B scans in the network's size.

    Attributes:
        images: (B, N, 3, H, W) float32 RGB, normalised by ``IMAGE_MEAN`` and ``IMAGE_STD``; N = 0 without cameras.
        lidar_to_pixel: (B, N, 4, 4) float32, a point (x, y, z, 1) [m] of the LiDAR frame to (u d, v d, d, 1) in pixels
            of ``images``, d the depth [m].
        points: B clouds (P_b, 5) float32 x, y, z [m], intensity, time lag [s].
        boxes: B sets of true boxes in the LiDAR frame; empty ones where nothing is known or there.
    """

    images: Tensor
    lidar_to_pixel: Tensor
    points: tuple[Tensor, ...]
    boxes: tuple[Boxes3D, ...]


class DetectionNetwork(Protocol):
    """A detector. It is a ``torch.nn.Module`` that also has the following.

    Attributes:
        image_size: (H, W) of its pictures in pixels, None where it takes none.
        num_cameras: pictures of a scan that it takes, the first ones; 0 = all.
        point_range: (x_min, y_min, z_min, x_max, y_max, z_max) [m] of the LiDAR frame that it looks at.
        max_points: points that are kept of a scan, drawn at random where there are more; 0 = all.
        augmentation: how training samples are varied, a name of ``fed_core.tasks.detection.augment``.
    """

    image_size: tuple[int, int] | None
    num_cameras: int
    point_range: tuple[float, float, float, float, float, float]
    max_points: int
    augmentation: str

    def forward(self, batch: DetectionBatch) -> Any:
        """Return what :meth:`loss` and :meth:`decode` take.

        In train mode it may look at ``batch.boxes`` (denoising); in eval mode it must not.
        """

    def loss(self, batch: DetectionBatch, outputs: Any) -> Tensor:
        """Return the loss, () float32."""

    def decode(self, batch: DetectionBatch, outputs: Any) -> Sequence[Boxes3D]:
        """Return the predicted boxes of each scan in the LiDAR frame, best score first; in eval mode."""
