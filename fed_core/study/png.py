"""Pictures on disk that a report reads."""

from pathlib import Path

import cv2
import numpy as np

from fed_core.errors import StoreError
from fed_core.types import Array


def write_png(path: Path, image: Array) -> None:
    """Write a PNG, (H, W) uint8 or uint16, or (H, W, 3) uint8 blue first; a full disk is a :class:`StoreError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not cv2.imwrite(str(path), np.ascontiguousarray(image)):
        raise StoreError(f"cannot write {path}; is the disk full?")
