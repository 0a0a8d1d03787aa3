"""What a bird's eye network offers to training, scoring and inference."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from fed_core.tasks.bev.loss import VEHICLE_WEIGHT


class BevOutput(NamedTuple):
    """Attributes: logits (B, 2, S, S) float32, background and vehicle; forward is up, right is right."""

    logits: Tensor


class BevNetwork(nn.Module, ABC):
    """Base of the networks that see with several cameras and draw a map around the vehicle.

    Attributes:
        input_size: (H, W) of the images that training and prediction feed.
        map_size: cells S per side of the map.
        extent_m: side of the map in metres.
        vehicle_weight: weight of a vehicle's cells in the loss, a background cell's being 1.
    """

    input_size: tuple[int, int]
    map_size: int
    extent_m: float
    vehicle_weight: float = VEHICLE_WEIGHT

    @abstractmethod
    def forward(self, images: Tensor, intrinsics: Tensor, poses: Tensor) -> BevOutput:
        """Predict the map.

        Args:
            images: (B, N, 3, H, W) float32 normalised, of N cameras; N may change from call to call.
            intrinsics: (B, N, 3, 3) float32, as :meth:`fit_intrinsics` made them.
            poses: (B, N, 4, 4) float32 camera to vehicle in metres; x forward, y right, z up.
        """

    def fit_intrinsics(self, intrinsics: npt.NDArray[np.float64], size: tuple[int, int]) -> npt.NDArray[np.float64]:
        """Return a pinhole matrix (3, 3) of an image of ``size`` (H, W) for the image in the network's size."""
        scale = np.array([self.input_size[1] / size[1], self.input_size[0] / size[0], 1.0])
        fitted: npt.NDArray[np.float64] = np.asarray(intrinsics, np.float64) * scale[:, None]
        return fitted

    @abstractmethod
    def head_modules(self) -> tuple[str, ...]:
        """Return the paths of the modules after the shared representation (FedRep keeps them on the robot)."""

    @abstractmethod
    def camera_modules(self) -> tuple[str, ...]:
        """Return the paths of the modules that embed where the cameras are (FedBEVT keeps them on the robot)."""

    @abstractmethod
    def bev_modules(self) -> tuple[str, ...]:
        """Return the paths of the modules that embed where the map's cells are (FedBEVT may keep them, too)."""

    @abstractmethod
    def attention_modules(self) -> tuple[str, ...]:
        """Return the paths of the linear layers that make queries, keys and values (FedTP personalises the weights)."""
