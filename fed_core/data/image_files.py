"""Colour and depth images from files, through OpenCV."""

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.images import decode_file
from fed_core.errors import DataError
from fed_core.types import Array

COLOUR_SUFFIXES = (".png", ".jpg", ".jpeg", ".ppm", ".bmp", ".webp")
DEPTH_SUFFIXES = (".png", ".tif", ".tiff", ".npy", ".pgm")


def list_images(folder: Path, suffixes: tuple[str, ...] = COLOUR_SUFFIXES) -> list[Path]:
    """Return the image files in a folder, sorted by name; hidden files are left out."""
    if not folder.is_dir():
        return []
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in suffixes and not f.name.startswith("."))


def read_rgb(path: Path) -> npt.NDArray[np.uint8]:
    """Return a colour image file as (H, W, 3) uint8 RGB; grey files are repeated over the channels."""
    # The EXIF turn is ignored: the depth image knows nothing of it.
    image = decode_file(read_bytes(path), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None:
        raise DataError(f"{path} cannot be read as an image; the file is broken or cut off")
    return np.ascontiguousarray(image[..., ::-1], dtype=np.uint8)


def read_depth_counts(path: Path) -> Array:
    """Return a depth image file as stored: (H, W) 16 bits or float (PNG, TIFF, PGM, or .npy)."""
    image = _read_npy(path) if path.suffix == ".npy" else decode_file(read_bytes(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise DataError(f"{path} cannot be read as an image; the file is broken or cut off")
    if image.ndim != 2 or image.dtype.itemsize < 2 or image.dtype.kind not in "uif":
        channels = image.shape[-1] if image.ndim == 3 else 1
        raise DataError(
            f"{path} has {channels} channel(s) of {image.dtype}; a depth image has one channel of 16 bits or float"
        )
    return image


def read_packed_depth(path: Path) -> Array:
    """Return a depth image whose four 8 bit channels are one little-endian float32: (H, W) float32 metres.

    The bytes are in OpenCV's channel order (blue first), which is how TartanAir writes them.
    """
    image = decode_file(read_bytes(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        raise DataError(f"{path} cannot be read as an image; the file is broken or cut off")
    if image.ndim != 3 or image.shape[2] != 4 or image.dtype != np.uint8:
        raise DataError(f"{path} is no packed depth image; it needs four channels of 8 bits")
    return np.ascontiguousarray(image).view("<f4")[..., 0]


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file; a missing or empty file raises :class:`DataError`."""
    try:
        data = path.read_bytes()
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror}") from err
    if not data:
        raise DataError(f"{path} is empty")
    return data


def read_text(path: Path) -> str:
    """Return the text of a file; what is not UTF-8 text raises :class:`DataError`."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as err:
        raise DataError(f"{path} is not a text file") from err


def _read_npy(path: Path) -> Array | None:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except FileNotFoundError as err:
        raise DataError(f"cannot read {path}: {err.strerror}") from err
    except (OSError, ValueError, EOFError):
        return None


def encode_png(image: Array, compression: int) -> bytes:
    """Return a PNG of an image as OpenCV has it, (H, W) or (H, W, 3) blue first.

    Args:
        image: uint8 or uint16.
        compression: 0 (fast) to 9 (small).
    """
    done, data = cv2.imencode(".png", np.ascontiguousarray(image), [cv2.IMWRITE_PNG_COMPRESSION, compression])
    if not done:
        raise DataError(f"an image {image.dtype} {image.shape} cannot be written as PNG")
    return bytes(data.tobytes())


def encode_jpeg(image: Array, quality: int) -> bytes:
    """Return a JPEG of an image as OpenCV has it, (H, W) or (H, W, 3) uint8 blue first.

    Args:
        image: uint8.
        quality: 1 (small) to 100.
    """
    done, data = cv2.imencode(".jpg", np.ascontiguousarray(image), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise DataError(f"an image {image.dtype} {image.shape} cannot be written as JPEG")
    return bytes(data.tobytes())
