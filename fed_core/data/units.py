"""Units of depth images: a number in a file means nothing until its unit is stated."""

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError, UnitsError
from fed_core.types import Array

_NAMED = {"m": 1.0, "cm": 0.01, "mm": 0.001}
_FRACTION = re.compile(r"1/(\d+)\s*m")
_HOW = 'state it as "mm", "cm", "m" or a fraction of a metre such as "1/256 m"'


def metres_per_count(unit: object, where: str) -> float:
    """Return the metres of one count of a unit ("mm" 0.001, "1/256 m" 0.00390625).

    Args:
        unit: what a person wrote.
        where: file and key, for the message.

    Raises:
        UnitsError: the unit is not known; says how to state it.
    """
    if isinstance(unit, str):
        text = unit.strip()
        if text in _NAMED:
            return _NAMED[text]
        fraction = _FRACTION.fullmatch(text)
        if fraction and int(fraction[1]) > 0:
            return 1.0 / int(fraction[1])
    raise UnitsError(f"{where}: depth unit {unit!r} is not known; {_HOW}")


@dataclass(frozen=True)
class DepthCoding:
    """How numbers of a depth image become metres.

    Attributes:
        unit: as a person writes it ("mm", "1/256 m").
        invalid: numbers that mean "no depth", beside zero, negative and non-finite ones.
        far_m: from here on there is no surface (sky of a simulator) [m].
    """

    unit: str
    invalid: tuple[float, ...] = ()
    far_m: float = float("inf")

    def decode(self, raw: Array) -> npt.NDArray[np.float32]:
        """Return depth in metres, NaN where unknown.

        Args:
            raw: (H, W) integers or floats as stored.

        Returns:
            (H, W) float32 metres.
        """
        # Live cameras give nothing but these two, thirty times a second; the results are the same.
        if raw.dtype == np.uint16:
            return np.take(_metres_of_counts(self), raw)
        if raw.dtype == np.float32 and self == _PLAIN_METRES:
            return np.where((raw > 0) & (raw < np.inf), raw, np.float32(np.nan))
        return self._decode(raw)

    def _decode(self, raw: Array) -> npt.NDArray[np.float32]:
        values = np.asarray(raw, dtype=np.float64)
        depth_m = values * metres_per_count(self.unit, "depth image")
        known = np.isfinite(values) & (values > 0) & (depth_m < self.far_m)
        for number in self.invalid:
            known &= values != number
        return np.where(known, depth_m, np.nan).astype(np.float32)


_PLAIN_METRES = DepthCoding("m")


@lru_cache(maxsize=8)
def _metres_of_counts(coding: DepthCoding) -> npt.NDArray[np.float32]:
    """Return the depth of each count of 16 bits."""
    return coding._decode(np.arange(2**16))


def valid_share(depth_m: npt.NDArray[np.float32]) -> float:
    """Return the share of pixels with a depth; ``depth_m`` is (H, W) float32 metres."""
    return float(np.isfinite(depth_m).mean()) if depth_m.size else 0.0


def require_some_depth(depth_m: npt.NDArray[np.float32], where: str) -> None:
    """Raise :class:`DataError` where no pixel of ``depth_m`` ((H, W) float32 metres) has a depth."""
    if not np.isfinite(depth_m).any():
        raise DataError(f"{where}: no pixel has a valid depth; leave this frame out")


def require_same_size(rgb: Array, depth_m: Array, where: str) -> None:
    """Raise :class:`DataError` where colour (H, W, 3) and depth (H, W) differ in size."""
    if rgb.shape[:2] != depth_m.shape[:2]:
        colour = f"{rgb.shape[1]}x{rgb.shape[0]}"
        depth = f"{depth_m.shape[1]}x{depth_m.shape[0]}"
        raise DataError(f"{where}: colour is {colour} but depth is {depth}; both must be of one size and registered")
