"""Augmentation of depth batches (fedepth spec 12), seeded by the caller's generator."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def augment(rgb: Floats, depth_m: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Flip half of the images; recolour half of them: gamma, brightness and each channel by U(0.9, 1.1).

    Args:
        rgb: (B, H, W, 3) float32 in 0..1.
        depth_m: (B, H, W) float32 metres.
        rng: generator; the same state gives the same result.

    Returns:
        New arrays of the same shapes.
    """
    rgb, depth_m = rgb.copy(), depth_m.copy()
    for image, depth in zip(rgb, depth_m, strict=True):
        flips, recolours = rng.random(2) < 0.5
        gamma, brightness = rng.uniform(0.9, 1.1, 2)
        colour = rng.uniform(0.9, 1.1, 3)
        if flips:
            image[:] = image[:, ::-1].copy()
            depth[:] = depth[:, ::-1].copy()
        if recolours:
            image[:] = np.clip(image**gamma * brightness * colour, 0.0, 1.0)
    return rgb, depth_m
