import numpy as np
import pytest

from fed_core.data.units import DepthCoding, metres_per_count, valid_share
from fed_core.errors import UnitsError


@pytest.mark.parametrize(
    ("unit", "metres"),
    [("m", 1.0), ("cm", 0.01), ("mm", 0.001), ("1/256 m", 1 / 256), ("1/5000m", 0.0002), (" mm ", 0.001)],
)
def test_known_units(unit: str, metres: float) -> None:
    assert metres_per_count(unit, "here") == metres


@pytest.mark.parametrize("unit", ["inch", "", "1/0 m", "mm/2", 5000, 0.001, None, ["mm"]])
def test_unknown_unit_says_how_to_state_it(unit: object) -> None:
    with pytest.raises(UnitsError) as caught:
        metres_per_count(unit, "sequence.yaml")
    assert str(caught.value) == (
        f"sequence.yaml: depth unit {unit!r} is not known; "
        'state it as "mm", "cm", "m" or a fraction of a metre such as "1/256 m"'
    )


def test_invalid_numbers_become_nan() -> None:
    raw = np.array([[0, 1000, 65535], [1, 65534, 2500]], dtype=np.uint16)
    depth = DepthCoding("mm", (65535,)).decode(raw)
    assert depth.dtype == np.float32
    np.testing.assert_array_equal(depth, np.array([[np.nan, 1, np.nan], [0.001, 65.534, 2.5]], dtype=np.float32))
    np.testing.assert_array_equal(raw[0], [0, 1000, 65535])


def test_float_depth_drops_negative_infinite_and_far() -> None:
    raw = np.array([[-1.0, np.inf, np.nan, 3.5, 999.0, 1000.0]], dtype=np.float32)
    depth = DepthCoding("m", far_m=1000.0).decode(raw)
    np.testing.assert_array_equal(depth, np.array([[np.nan, np.nan, np.nan, 3.5, 999.0, np.nan]], dtype=np.float32))
    assert valid_share(depth) == pytest.approx(2 / 6)


def test_kitti_counts_are_exact() -> None:
    depth = DepthCoding("1/256 m").decode(np.array([[256, 384, 0]], dtype=np.uint16))
    np.testing.assert_array_equal(depth, np.array([[1.0, 1.5, np.nan]], dtype=np.float32))


@pytest.mark.parametrize("unit", ["mm", "1/256 m", "1/5000 m"])
def test_every_count_of_16_bits_is_the_nearest_number_of_its_metres(unit: str) -> None:
    """Whether it is looked up or computed: as a count of 16 bits, of 32 bits, or with the other order of bytes."""
    counts = np.arange(2**16).reshape(256, 256)
    expected = np.array(
        [[np.nan if c == 0 else c * metres_per_count(unit, "") for c in row] for row in counts.tolist()]
    )
    for kind in ("<u2", ">u2", "u4"):
        found = DepthCoding(unit).decode(counts.astype(kind))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_metres_stay_what_they_are_and_are_a_copy() -> None:
    raw = np.array([[-1.0, np.inf, np.nan, 3.1], [-np.inf, -0.0, 1e-40, 3e38]], dtype=np.float32)
    expected = np.array([[np.nan, np.nan, np.nan, 3.1], [np.nan, np.nan, 1e-40, 3e38]], dtype=np.float32)
    for stored in (raw, raw.astype(">f4")):
        depth = DepthCoding("m").decode(stored)
        assert depth.dtype == np.float32 and depth.dtype.isnative and not np.shares_memory(depth, stored)
        np.testing.assert_array_equal(depth, expected)
