"""What the folder layouts share: the reader interface, the sequence type, stamps from file names."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.image_files import read_depth_counts, read_rgb
from fed_core.data.intrinsics import pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.sequence import DepthSequence
from fed_core.data.units import DepthCoding, require_same_size, require_some_depth
from fed_core.errors import DataError
from fed_core.registry import Registry
from fed_core.types import Array, DepthFrame

DEFAULT_FRAME_ID = "camera_optical_frame"

_SECONDS = re.compile(r"[1-9]\d{8,9}\.\d{1,9}")
_INTEGER_NS = {19: 1, 16: 1_000}  # digits -> nanoseconds of one count (ns, us), for times after 2001


class FolderReader(ABC):
    """One layout of RGB-D folders."""

    #: The files that make a folder this layout, in one line; shown when no layout fits.
    layout: str = ""

    @abstractmethod
    def matches(self, path: Path) -> bool:
        """Tell whether the folder has this layout; looks at names only."""

    @abstractmethod
    def open(self, path: Path, options: OpenOptions) -> DepthSequence:
        """Return the recording in ``path``; missing files raise :class:`fed_core.errors.DataError`."""


readers: Registry[type[FolderReader]] = Registry("reader", "fed_core.data.readers")


@dataclass(frozen=True)
class FramePair:
    """Files of one frame.

    Attributes:
        rgb: colour image.
        depth: depth image.
        stamp_ns: time in nanoseconds.
    """

    rgb: Path
    depth: Path
    stamp_ns: int


@dataclass
class FolderSequence:
    """RGB-D image files on disk.

    Attributes:
        name: short name.
        source: the folder.
        pairs: files in time order.
        coding: unit and invalid values of the depth files.
        intrinsics: (3, 3) float64 pixels, of the colour images.
        frame_id: optical frame.
        registered: depth belongs to the colour camera though its resolution may differ; it is then brought to
            the size of the colour image by nearest neighbour (depth is never interpolated).
        read_counts: reads a depth file as stored.
    """

    name: str
    source: str
    pairs: tuple[FramePair, ...]
    coding: DepthCoding
    intrinsics: npt.NDArray[np.float64]
    frame_id: str = DEFAULT_FRAME_ID
    registered: bool = False
    read_counts: Callable[[Path], Array] = field(default=read_depth_counts, repr=False)

    def __post_init__(self) -> None:
        """Refuse a folder without frames."""
        if not self.pairs:
            raise DataError(f"{self.source} holds no frames")

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.pairs)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read frame ``index``; broken files, differing sizes or no depth at all raise :class:`DataError`."""
        pair = self.pairs[index]
        rgb = read_rgb(pair.rgb)
        depth_m = self.coding.decode(self.read_counts(pair.depth))
        if self.registered and depth_m.shape != rgb.shape[:2]:
            size = (rgb.shape[1], rgb.shape[0])
            depth_m = np.asarray(cv2.resize(depth_m, size, interpolation=cv2.INTER_NEAREST), dtype=np.float32)
        require_same_size(rgb, depth_m, str(pair.depth))
        require_some_depth(depth_m, str(pair.depth))
        return DepthFrame(rgb, depth_m, pair.stamp_ns, self.intrinsics.copy(), self.frame_id)


def folder_sequence(
    path: Path,
    files: Sequence[tuple[Path, Path]],
    options: OpenOptions,
    *,
    unit: str,
    intrinsics: npt.NDArray[np.float64] | None,
    invalid: tuple[float, ...] = (),
    stamps_ns: Sequence[int] | None = None,
) -> FolderSequence:
    """Return the sequence of ``files`` with the caller's options laid over what was found.

    Args:
        path: the folder.
        files: (colour, depth) in time order.
        options: what the caller wants.
        unit: of the depth files.
        intrinsics: (3, 3) pixels; None where the recording has none, then ``options`` must have them.
        invalid: depth numbers that mean "none".
        stamps_ns: times; default: from the names of the colour files, else by index.
    """
    if options.intrinsics:
        intrinsics = pinhole(options.intrinsics)
    if intrinsics is None:
        raise DataError(f"{path} has no intrinsics; state them with intrinsics: fx fy cx cy")
    times = stamps_from_names([rgb for rgb, _ in files], options) if stamps_ns is None else list(stamps_ns)
    return FolderSequence(
        name=options.name or path.resolve().name,
        source=str(path),
        pairs=tuple(FramePair(rgb, depth, ns) for (rgb, depth), ns in zip(files, times, strict=True)),
        coding=DepthCoding(unit, invalid),
        intrinsics=intrinsics,
        frame_id=options.frame_id or DEFAULT_FRAME_ID,
    )


def stamps_from_names(files: Sequence[Path], options: OpenOptions) -> list[int]:
    """Return the times of files in nanoseconds.

    Names that are a time (19 digits: ns; 16 digits: us; seconds with a point) give it. Where one name is none,
    all are counted by index at ``options.rate_hz`` from ``options.epoch_ns``.
    """
    named = [_stamp_of(file.stem) for file in files]
    known = [ns for ns in named if ns is not None]
    if len(known) == len(named):
        return known
    return [options.epoch_ns + round(index * 1e9 / options.rate_hz) for index in range(len(files))]


def _stamp_of(stem: str) -> int | None:
    if _SECONDS.fullmatch(stem):
        return seconds_to_ns(stem)
    scale = _INTEGER_NS.get(len(stem))
    return int(stem) * scale if scale and stem.isascii() and stem.isdigit() and stem[0] != "0" else None


def seconds_to_ns(text: str) -> int:
    """Return the nanoseconds of a decimal number of seconds, exactly (a float of today's time loses 100 ns)."""
    return int((Decimal(text) * 1_000_000_000).to_integral_value())
