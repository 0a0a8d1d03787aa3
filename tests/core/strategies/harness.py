"""The federation in memory of :mod:`fed_core.testing`, under the name that the tests use."""

from fed_core.testing.fleet import (
    SIGNATURE,
    Fleet,
    Weights,
    assert_same,
    descriptor,
    initial,
    line,
    robots,
    through_disk,
    train,
)

__all__ = [
    "SIGNATURE",
    "Fleet",
    "Weights",
    "assert_same",
    "descriptor",
    "initial",
    "line",
    "robots",
    "through_disk",
    "train",
]
