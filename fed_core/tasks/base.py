"""What a task plugs in: how samples become batches, the loss, the prediction and its score.

PyTorch is imported here; nodes import this package only where a model is loaded.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from fed_core.errors import ConfigError
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

    def class_balanced(self, rng: np.random.Generator) -> list[int]:
        """Return sample numbers of one epoch in which rare classes come as often as common ones."""
        raise ConfigError("this task has no classes to balance; switch class balance off")


class Task(ABC):
    """One kind of perception. Batches and outputs mean something to the task and its networks only."""

    #: Attributes that a network of the task has.
    needs: ClassVar[tuple[str, ...]] = ()

    def check_network(self, network: nn.Module, name: str) -> None:
        """Refuse a network of another task; ``name`` is what people call it."""
        missing = [need for need in self.needs if not hasattr(network, need)]
        if missing:
            kind = next((known for known in tasks.names() if tasks.get(known) is type(self)), type(self).__name__)
            raise ConfigError(f"network {name!r} does not learn the task {kind!r}: it has no {', '.join(missing)}")

    def open(self, source: Any, base: Path) -> Any:
        """Open an entry of a fleet file.

        Args:
            source: keys and values of :class:`fed_core.data.open.SourceConfig`, or one.
            base: folder of the fleet file; relative paths start here unless ``FED_PERCEPTION_DATA`` is set.

        Returns:
            A sequence of samples; one that is broken raises ``DataError`` when it is asked for.
        """
        raise ConfigError(f"{type(self).__name__} opens no recordings")

    def at_round(self, source: Any, number: int) -> Any:
        """Return the entry of a fleet file as round ``number`` (from 1) opens it; itself, where nothing is drawn."""
        return source

    def usable(self, sample: Any) -> bool:
        """Tell whether a sample holds enough to learn from."""
        return True

    def images(self, sample: Any) -> Sequence[Array]:
        """Return the pictures (H, W, 3) uint8 RGB of a sample, which descriptors are made of."""
        raise ConfigError(f"{type(self).__name__} shows no pictures to describe")

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
    def predict(self, network: nn.Module, inputs: Any) -> Array:
        """Return the prediction for one image (H, W, 3) uint8 RGB, at its size, or for what else the task looks at.

        The network is in eval mode.
        """

    @abstractmethod
    def metrics(self, prediction: Any, sample: Any, **options: Any) -> Mapping[str, float] | None:
        """Return the scores of one prediction, None where the sample holds no truth; options are the task's own."""


tasks: Registry[type[Task]] = Registry("task", "fed_core.tasks")
