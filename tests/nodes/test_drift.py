"""When the last frames are compared with those of the choice, and what ends a sequence."""

import numpy as np
import pytest

from fed_core.types import Array, Descriptor
from fed_nodes.live.drift import DriftWatch


def descriptor(mean: float) -> Descriptor:
    tensors: dict[str, Array] = {"mean": np.array([mean], np.float32), "variance": np.ones(1, np.float32)}
    return Descriptor("gaussian", tensors, 8, "e" * 64)


def picture(number: int) -> Array:
    return np.full((1, 1, 3), number, np.uint8)


def wanted(watch: DriftWatch, frames: range) -> list[tuple[int, list[int]]]:
    """Return after which frames a descriptor was wanted, and of which."""
    found = []
    for number in frames:
        asked = watch.add([picture(number)])
        if asked is not None:
            found.append((number, [int(image[0, 0, 0]) for image in asked[1]]))
    return found


def test_every_n_frames_as_many_as_describe_a_sequence_are_compared() -> None:
    watch = DriftWatch(6, 3, 1.0)
    assert wanted(watch, range(10)) == []  # nothing was chosen yet
    watch.chosen_from(descriptor(0.0))
    assert wanted(watch, range(10, 25)) == [(15, [10, 12, 14]), (21, [16, 18, 20])]


def test_off_means_never() -> None:
    watch = DriftWatch(0, 3, 1.0)
    watch.chosen_from(descriptor(0.0))
    assert wanted(watch, range(50)) == []


@pytest.mark.parametrize(
    ("threshold", "mean", "ends"),
    # With variances of 1, a shift of the mean by m is a divergence of m^2.
    [(1.0, 2.0, True), (1.0, 0.5, False), (4.0, 2.0, False), (3.9, 2.0, True), (0.0, 9.0, False)],
)
def test_a_sequence_ends_beyond_the_threshold(threshold: float, mean: float, ends: bool) -> None:
    watch = DriftWatch(6, 3, threshold)
    watch.chosen_from(descriptor(0.0))
    assert watch.ends(descriptor(mean)) is ends
    assert watch.distance == pytest.approx(mean**2)


def test_a_new_sequence_starts_from_nothing() -> None:
    watch = DriftWatch(4, 2, 1.0)
    watch.chosen_from(descriptor(0.0))
    assert wanted(watch, range(3)) == []
    watch.restart()
    assert not watch.ends(descriptor(5.0)) and np.isnan(watch.distance)
    watch.chosen_from(descriptor(0.0))
    assert wanted(watch, range(3, 8)) == [(6, [3, 5])]  # the three frames before do not count
