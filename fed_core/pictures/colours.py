"""Colours of depth images and of maps, the same in every picture of ours; Matplotlib is loaded when one is drawn."""

import numpy as np
import numpy.typing as npt

from fed_core.types import DETECTION_CLASSES, Array

Picture = npt.NDArray[np.uint8]

#: Matplotlib's colours of depth (near is red), of a map's probabilities, and of the classes of boxes by index.
DEPTH_COLOURS, MAP_COLOURS, CLASS_COLOURS = "turbo_r", "magma", "tab10"
#: What is not known.
UNKNOWN = "#9a9a9a"


def depth_range(depth: Array) -> tuple[float, float]:
    """Return the nearest and the farthest depth of the colours [m], for a depth image (H, W) [m]."""
    valid = depth[np.isfinite(depth) & (depth > 0)]
    if valid.size == 0:
        return 0.1, 10.0
    near, far = np.percentile(valid, [1, 99])
    return float(near), float(max(far, near * 1.01))


def colour_depth(depth: Array) -> Picture:
    """Return a depth image (H, W) [m] in colours (H, W, 3) uint8 RGB, by its logarithm within its own range.

    What is not finite, or not above 0, has the colour of the unknown.
    """
    near, far = np.log(depth_range(depth))
    known = np.isfinite(depth) & (depth > 0)
    logs = np.log(np.where(known, depth, 1.0).astype(np.float64))
    return _coloured(np.where(known, np.clip((logs - near) / (far - near), 0.0, 1.0), np.nan), DEPTH_COLOURS)


def colour_map(cells: Array) -> Picture:
    """Return a map (S, S) of probabilities, NaN = unknown, in colours (S, S, 3) uint8 RGB."""
    return _coloured(np.clip(cells, 0.0, 1.0), MAP_COLOURS)


def class_colours() -> list[tuple[int, int, int]]:
    """Return red, green and blue, 0 to 255, of each class of boxes by index."""
    from matplotlib import colormaps

    rows = colormaps[CLASS_COLOURS](np.arange(len(DETECTION_CLASSES)), bytes=True)
    return [(int(r), int(g), int(b)) for r, g, b, _ in rows]


def _coloured(values: Array, name: str) -> Picture:
    from matplotlib import colormaps

    known = np.isfinite(values)
    shown: Picture = colormaps[name](np.where(known, values, 0.0), bytes=True)[..., :3]
    shown[~known] = list(bytes.fromhex(UNKNOWN[1:]))
    return np.ascontiguousarray(shown)
