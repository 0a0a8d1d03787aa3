"""The published lists of frames: one line per frame, ``colour depth focal``, paths relative to the data set."""

from dataclasses import dataclass
from pathlib import Path

from fed_core.data.image_files import read_text
from fed_core.errors import DataError

#: What a list writes instead of the depth file of a frame that has none.
NO_DEPTH = "None"
_FORM = 'expected "COLOUR DEPTH FOCAL", three words with blanks between them'


@dataclass(frozen=True)
class SplitLine:
    """One frame of a list.

    Attributes:
        rgb: colour file as listed, without a leading slash.
        depth: depth file as listed, without a leading slash; "" where the frame has none.
        focal_px: focal length in pixels.
        where: file and line, for messages.
    """

    rgb: str
    depth: str
    focal_px: float
    where: str


def read_split(path: Path) -> list[SplitLine]:
    """Return the lines of a list in their order; a wrong line or an empty list raises :class:`DataError`."""
    numbered = enumerate(read_text(path).splitlines(), start=1)
    lines = [_parse(text, f"{path}, line {number}") for number, text in numbered if text.strip()]
    if not lines:
        raise DataError(f"{path} lists no frames")
    return lines


def _parse(text: str, where: str) -> SplitLine:
    words = text.split()
    if len(words) != 3:
        raise DataError(f"{where} is {text.strip()!r}; {_FORM}")
    rgb, depth, focal = words
    try:
        focal_px = float(focal)
    except ValueError as err:
        raise DataError(f"{where}: focal length is {focal!r}; {_FORM}") from err
    if not 0.0 < focal_px < float("inf"):
        raise DataError(f"{where}: focal length is {focal}; it must be a positive number of pixels")
    return SplitLine(rgb.lstrip("/"), "" if depth == NO_DEPTH else depth.lstrip("/"), focal_px, where)
