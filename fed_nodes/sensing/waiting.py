"""How many messages or frames may wait for their partners: fewer where they are large, so that memory is bounded."""

from collections import OrderedDict
from typing import TypeVar

#: So many wait, fewer where they are large, but never fewer than a few.
MOST, MOST_BYTES, FEWEST = 30, 100_000_000, 4

T = TypeVar("T")


def most_waiting(size_bytes: int) -> int:
    """Return how many may wait that have this size each."""
    return max(FEWEST, min(MOST, MOST_BYTES // max(1, size_bytes)))


def shorten(waiting: "OrderedDict[int, T]", most: int = MOST) -> int:
    """Drop the oldest of more than ``most``; returns how many went."""
    many = max(0, len(waiting) - most)
    for _ in range(many):
        waiting.popitem(last=False)
    return many
