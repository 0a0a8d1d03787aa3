"""Images that a report shows: what the cameras saw, where vehicles were, and where each run puts them."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fed_core.study.png import write_png
from fed_core.types import BevFrame

#: Grey values of a true map.
BACKGROUND, UNKNOWN, VEHICLE = 0, 128, 255


def save_map(path: Path, probability: npt.NDArray[np.float32]) -> None:
    """Write a map (S, S) of probabilities as grey, 255 = 1; forward is up."""
    write_png(path, np.rint(255.0 * np.clip(probability, 0.0, 1.0)).astype(np.uint8))


def save_truth(
    folder: Path, client: str, frame: BevFrame, mask: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]
) -> None:
    """Write ``<client>_camera<id>.png`` and ``<client>_mask.png`` of a frame, once.

    Args:
        folder: where to.
        client: whose frame it is.
        frame: its pictures.
        mask: (S, S) bool, vehicles.
        known: (S, S) bool, where a camera looks.
    """
    shown = {f"camera{k}": image[..., ::-1] for k, image in zip(frame.cameras, frame.images, strict=True)}
    grey = np.where(known, np.where(mask, VEHICLE, BACKGROUND), UNKNOWN).astype(np.uint8)
    for name, image in {**shown, "mask": grey}.items():
        path = folder / f"{client}_{name}.png"
        if not path.exists():
            write_png(path, image)
