"""Sizes that encoded images declare, read before anything is decoded: a few bytes can declare gigabytes."""

from fed_core.errors import DataError

#: Most pixels of an encoded image: more than any camera of a robot has, and 100 MB of colour.
MAX_PIXELS = 2**25

# More segments than any camera writes before the size.
_MAX_SEGMENTS = 1000
#: Starts of frames; C4, C8 and CC lie between them and are tables.
_FRAME_STARTS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Markers without a length: TEM, RST0-7 and SOI.
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
_ENDS = (0xD9, 0xDA)  # EOI, SOS


def declared_size(data: memoryview) -> tuple[int, int] | None:
    """Return the (width, height) that a JPEG or PNG declares, None where it is neither or its header is broken."""
    if bytes(data[:8]) == b"\x89PNG\r\n\x1a\n" and bytes(data[12:16]) == b"IHDR" and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    return _jpeg_size(data) if bytes(data[:2]) == b"\xff\xd8" else None


def require_sane_size(size: tuple[int, int]) -> None:
    """Raise :class:`DataError` where an image of (width, height) would be too large, or empty."""
    width, height = size
    if width < 1 or height < 1 or width * height > MAX_PIXELS:
        raise DataError(f"compressed image declares {width}x{height} pixels; from 1 to {MAX_PIXELS} are decoded")


def _jpeg_size(data: memoryview) -> tuple[int, int] | None:
    """Follow the segments up to the start of the frame."""
    place = 2
    for _ in range(_MAX_SEGMENTS):
        if place + 9 > len(data) or data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if marker in _FRAME_STARTS:
            return int.from_bytes(data[place + 7 : place + 9], "big"), int.from_bytes(
                data[place + 5 : place + 7], "big"
            )
        if marker in _ENDS:
            return None
        if marker == 0xFF:  # padding
            place += 1
        elif marker in _BARE:
            place += 2
        else:
            place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return None
