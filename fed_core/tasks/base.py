"""What a task plugs in: how samples become batches, the loss, the prediction and its score.

PyTorch is imported here; nodes import this package only where a model is loaded.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from fed_core.registry import Registry
from fed_core.types import Array


class Dataset(ABC):
    """Training samples in the size that the network takes, held compactly in memory."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Memory that the samples take."""


class Task(ABC):
    """One kind of perception. Batches and outputs mean something to the task and its networks only."""

    @abstractmethod
    def prepare(self, samples: Iterable[Any], network: nn.Module) -> Dataset:
        """Return the samples in the network's size; what cannot train is left out."""

    @abstractmethod
    def batch(self, dataset: Any, indexes: Sequence[int], rng: np.random.Generator | None = None) -> Any:
        """Return a batch on the CPU; with ``rng`` augmented, the same for the same generator state."""

    @abstractmethod
    def move(self, batch: Any, device: Any) -> Any:
        """Return the batch on a device."""

    @abstractmethod
    def forward(self, network: nn.Module, batch: Any) -> Any:
        """Return what the network makes of a batch."""

    @abstractmethod
    def loss(self, network: nn.Module, batch: Any, outputs: Any) -> Tensor:
        """Return the task's loss, () float32."""

    @abstractmethod
    def predict(self, network: nn.Module, rgb: Array) -> Array:
        """Return the prediction for one image (H, W, 3) uint8 RGB, at its size; the network is in eval mode."""

    @abstractmethod
    def metrics(self, prediction: Any, sample: Any, **options: Any) -> Mapping[str, float] | None:
        """Return the scores of one prediction, None where the sample holds no truth; options are the task's own."""


tasks: Registry[type[Task]] = Registry("task", "fed_core.tasks")
