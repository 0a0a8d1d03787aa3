"""Descriptors made once: all runs of a seed describe the same images."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fed_core.types import Array, Descriptor

Describe = Callable[[Any, str], Descriptor]


class DescriptorCache:
    """Describes images through ``describe`` and remembers the answers, by the images' bytes.

    Args:
        describe: images (H, W, 3) uint8 and kind to a descriptor.
    """

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._known: dict[tuple[str, str], Descriptor] = {}

    def __call__(self, images: Iterable[Array], kind: str) -> Descriptor:
        """Return the descriptor of the images; they are read once, and held until it is there."""
        held = list(images)
        key = (_digest(held), kind)
        if key not in self._known:
            self._known[key] = self._describe(held, kind)
        return self._known[key]


def at_most(describe: Describe, most: int) -> Describe:
    """Return ``describe`` on no more than ``most`` of the images, spread evenly; 0 = on all."""
    if most == 0:
        return describe

    def fewer(images: Iterable[Array], kind: str) -> Descriptor:
        held = list(images)
        places = np.linspace(0, len(held) - 1, min(most, len(held))).round().astype(int)
        return describe([held[place] for place in places], kind)

    return fewer


def _digest(images: list[Array]) -> str:
    hasher = hashlib.sha256()
    for image in images:
        hasher.update(repr((image.shape, image.dtype.str)).encode())
        hasher.update(np.ascontiguousarray(image).tobytes())
    return hasher.hexdigest()
