"""What a colour camera makes of the light: exposure, glare, vignette, tone curve and noise."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.scenes.meshes import Floats

F32 = npt.NDArray[np.float32]
MIDDLE = 0.22  # mean light that automatic exposure aims at
_GAMMA = np.clip(np.round(255 * (np.arange(4097) / 4096) ** (1 / 2.2)), 0, 255).astype(np.uint8)


@dataclass(frozen=True)
class Sensor:
    """One camera with its own small faults.

    Attributes:
        balance: (3,) white balance.
        vignette: loss of light in the corners, 0..1.
        read_noise: standard deviation in the dark, of full scale.
        shot_noise: standard deviation at full scale.
        gain: factor on the exposure.
    """

    balance: Floats
    vignette: float
    read_noise: float
    shot_noise: float
    gain: float

    @classmethod
    def drawn(cls, rng: np.random.Generator, noise: float) -> "Sensor":
        """Return a camera whose faults are drawn from ``rng``; ``noise`` scales its noise."""
        warm = rng.normal(0, 0.025)
        balance = np.array([1 + warm, 1.0, 1 - warm])
        gain = float(np.exp(rng.normal(0, 0.06)))
        return cls(balance, float(rng.uniform(0.12, 0.28)), 0.0013 * noise, 0.010 * noise, gain)

    def develop(self, light: F32, exposure: float, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
        """Return the picture, (H, W, 3) uint8, of linear ``light`` (H, W, 3) float32."""
        mean = float(np.minimum(light * exposure, 1.5).mean())
        adapted = exposure * self.gain * float(np.clip((MIDDLE / max(mean, 1e-4)) ** 0.5, 0.6, 1.5))
        value = light * (self.balance * adapted).astype(np.float32)
        value += _glare(value)
        value *= self._falloff(light.shape[0], light.shape[1])[..., None]
        value = _tone(value)
        # Neighbouring colours are interpolated from one another, so most of the noise is grey.
        grain = np.float32(0.45) * rng.standard_normal(value.shape, dtype=np.float32)
        grain += np.float32(0.8) * rng.standard_normal((*value.shape[:2], 1), dtype=np.float32)
        value += grain * np.sqrt(np.float32(self.read_noise**2) + np.float32(self.shot_noise**2) * value)
        rgb: npt.NDArray[np.uint8] = _GAMMA[(np.clip(value, 0, 1) * 4096).astype(np.int32)]
        return rgb

    def _falloff(self, height: int, width: int) -> F32:
        y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
        result: F32 = (1 - self.vignette * ((x * x + y * y) / 2) ** 1.2).astype(np.float32)
        return result


def _tone(value: F32) -> F32:
    """Return light pressed into 0..1 with a soft shoulder and a little contrast in the dark."""
    v = value * np.float32(0.72)
    result: F32 = v * (np.float32(2.51) * v + np.float32(0.03))
    result /= v * (np.float32(2.43) * v + np.float32(0.59)) + np.float32(0.14)
    return result


def _glare(value: F32) -> F32:
    """Return the halo of light brighter than the sensor's full scale."""
    height, width = value.shape[:2]
    cell = max(1, width // 40)
    rows, columns = height // cell, width // cell
    bright = np.clip(value[: rows * cell, : columns * cell] - 1, 0, 6)
    small = bright.reshape(rows, cell, columns, cell, 3).mean((1, 3))
    if not small.any():
        return np.zeros_like(value)
    for axis in (0, 1):
        for _ in range(2):
            small = _blurred(small, axis)
    row = np.clip((np.arange(height) + 0.5) / cell - 0.5, 0, rows - 1)
    column = np.clip((np.arange(width) + 0.5) / cell - 0.5, 0, columns - 1)
    grown = _stretched(_stretched(small, row), column, axis=1)
    return grown * np.float32(0.35)


def _blurred(image: F32, axis: int) -> F32:
    pad = [(2, 2) if k == axis else (0, 0) for k in range(3)]
    wide = np.pad(image, pad)
    count = image.shape[axis]
    parts = [np.take(wide, np.arange(k, k + count), axis=axis) * np.float32(w) for k, w in enumerate((1, 4, 6, 4, 1))]
    result: F32 = (parts[0] + parts[1] + parts[2] + parts[3] + parts[4]) / np.float32(16)
    return result


def _stretched(image: F32, place: Floats, axis: int = 0) -> F32:
    """Return ``image`` read at fractional positions along ``axis``."""
    low = place.astype(int)
    high = np.minimum(low + 1, image.shape[axis] - 1)
    f = (place - low).astype(np.float32)[:, None] if axis == 1 else (place - low).astype(np.float32)[:, None, None]
    result: F32 = np.take(image, low, axis=axis) * (1 - f) + np.take(image, high, axis=axis) * f
    return result
