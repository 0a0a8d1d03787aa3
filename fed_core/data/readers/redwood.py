"""Redwood and Open3D: color/ (or image/) and depth/ with a camera JSON or rgbd.match (millimetres)."""

import re
from pathlib import Path

from fed_core.data.image_files import DEPTH_SUFFIXES, list_images, read_text
from fed_core.data.intrinsics import Matrix, from_camera_json, pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.pairing import pair_by_key
from fed_core.data.readers.base import FolderReader, FolderSequence, folder_sequence, readers
from fed_core.errors import DataError

# PrimeSense default, used by the data set.
_INTRINSICS = (525.0, 525.0, 319.5, 239.5)
# "000001-000000033369": frame number, then microseconds since the start.
_NAME = re.compile(r"(\d+)-(\d{12})")


@readers.register("redwood")
class Redwood(FolderReader):
    """PrimeSense recordings of rooms and objects."""

    layout = "color/ (or image/) and depth/ with camera*.json, rgbd.match, or names like 000001-000000033369.png"

    def matches(self, path: Path) -> bool:
        """Tell whether the two folders and one of the marks are there."""
        colour = _colour_folder(path)
        if colour is None or not (path / "depth").is_dir():
            return False
        if (path / "rgbd.match").exists() or any(path.glob("camera*.json")):
            return True
        return any(_NAME.fullmatch(file.stem) for file in list_images(path / "depth", DEPTH_SUFFIXES)[:1])

    def open(self, path: Path, options: OpenOptions) -> FolderSequence:
        """Return the recording, paired by ``rgbd.match`` where it is there, else by frame number."""
        match = path / "rgbd.match"
        files = _pairs_of_match(match) if match.exists() else _pairs_by_number(path)
        return folder_sequence(
            path, files, options, unit="mm", intrinsics=_intrinsics(path), stamps_ns=_stamps(files, options)
        )


def _colour_folder(path: Path) -> Path | None:
    return next((path / name for name in ("color", "image") if (path / name).is_dir()), None)


def _intrinsics(path: Path) -> Matrix:
    cameras = sorted(path.glob("camera*.json"))
    return from_camera_json(cameras[0]) if cameras else pinhole(_INTRINSICS)


def _pairs_of_match(match: Path) -> list[tuple[Path, Path]]:
    pairs: list[tuple[Path, Path]] = []
    for number, line in enumerate(read_text(match).splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2:
            raise DataError(f"{match}, line {number}: expected 'depth/FILE color/FILE', got {line!r}")
        depth, colour = (match.parent / word for word in words)
        missing = next((file for file in (depth, colour) if not file.exists()), None)
        if missing is not None:
            raise DataError(f"{match}, line {number}: {missing} is missing")
        pairs.append((colour, depth))
    return pairs


def _pairs_by_number(path: Path) -> list[tuple[Path, Path]]:
    colour = {_number(file): file for file in list_images(_colour_folder(path) or path)}
    depth = {_number(file): file for file in list_images(path / "depth", DEPTH_SUFFIXES)}
    return pair_by_key(colour, depth, path)


def _number(file: Path) -> tuple[int, str]:
    digits = file.stem.split("-")[0]
    return (int(digits), "") if digits.isascii() and digits.isdigit() else (-1, file.stem)


def _stamps(files: list[tuple[Path, Path]], options: OpenOptions) -> list[int] | None:
    found = [_NAME.fullmatch(colour.stem) for colour, _ in files]
    times = [options.epoch_ns + int(match[2]) * 1_000 for match in found if match]
    return times if len(times) == len(files) else None
