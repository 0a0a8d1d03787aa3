"""What our own detectors offer to training, scoring and inference."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from fed_core.tasks.detection.network import DetectionBatch
from fed_core.types import Boxes3D


class DetectionModel(nn.Module, ABC):
    """Base of the networks that find boxes in space: :class:`fed_core.tasks.detection.network.DetectionNetwork`."""

    image_size: tuple[int, int] | None
    num_cameras: int
    point_range: tuple[float, float, float, float, float, float]
    max_points: int
    augmentation: str

    @abstractmethod
    def forward(self, batch: DetectionBatch) -> Any:
        """Return what :meth:`loss` and :meth:`decode` take; in eval mode true boxes are not looked at."""

    @abstractmethod
    def loss(self, batch: DetectionBatch, outputs: Any) -> Tensor:
        """Return the loss, () float32."""

    @abstractmethod
    def decode(self, batch: DetectionBatch, outputs: Any) -> Sequence[Boxes3D]:
        """Return the boxes found in each scan, best score first."""

    @abstractmethod
    def head_modules(self) -> tuple[str, ...]:
        """Return the paths of the task heads (FedRep keeps them on the robot)."""

    @abstractmethod
    def image_backbone_modules(self) -> tuple[str, ...]:
        """Return the paths of the image backbone (it learns at a lower rate)."""

    @abstractmethod
    def image_neck_modules(self) -> tuple[str, ...]:
        """Return the paths of the image neck (it learns at a lower rate)."""
