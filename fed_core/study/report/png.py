"""Matplotlib figures as small PNGs, without pyplot: no window, no state that outlives a figure."""

import io
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BYTES = 200_000


def new_figure(width_in: float, height_in: float) -> "Figure":
    """Return an empty white figure whose parts are laid out without overlap."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), layout="constrained", facecolor="white")


def encode(figure: "Figure", dpi: int = 120, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the figure as PNG, with fewer colours and then fewer pixels until it fits ``max_bytes``."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return shrink(buffer.getvalue(), max_bytes)


def shrink(png: bytes, max_bytes: int) -> bytes:
    """Return a PNG with fewer colours and then fewer pixels until it fits ``max_bytes``; one that fits as it is.

    Raises:
        OSError: it is no picture.
    """
    if len(png) <= max_bytes:
        return png
    image = Image.open(io.BytesIO(png)).convert("RGB")
    data = _save(image)
    while len(data) > max_bytes and min(image.size) > 64:
        image = image.resize((image.width * 5 // 6, image.height * 5 // 6), Image.Resampling.LANCZOS)
        data = _save(image)
    return data


def _save(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    return buffer.getvalue()
