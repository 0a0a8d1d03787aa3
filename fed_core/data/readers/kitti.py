"""KITTI depth: 16 bit PNG of 1/256 m, zero where no laser point fell; in three published layouts."""

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from fed_core.data.image_files import list_images, read_text
from fed_core.data.intrinsics import Matrix, from_kitti_calib, from_matrix_text
from fed_core.data.options import OpenOptions
from fed_core.data.pairing import pair_by_key
from fed_core.data.readers._annotations import read_annotation
from fed_core.data.readers.base import FolderReader, FolderSequence, folder_sequence, readers
from fed_core.errors import DataError

_UNIT = "1/256 m"
_NAME_DIGITS = 10


@dataclass(frozen=True)
class _Folders:
    colour: Path
    depth: Path


@readers.register("kitti")
class Kitti(FolderReader):
    """Car recordings with sparse laser depth."""

    layout = (
        "rgb/ and depth/ with names of 10 digits; image/, groundtruth_depth/ and intrinsics/; "
        "or a drive folder with image_02/data and proj_depth/groundtruth/image_02"
    )

    def matches(self, path: Path) -> bool:
        """Tell whether one of the three layouts is there."""
        return _find(path) is not None

    def open(self, path: Path, options: OpenOptions) -> FolderSequence:
        """Return the recording; frames of a drive without laser depth (first and last five) are left out."""
        folders = _find(path)
        if folders is None:
            raise DataError(f"{path} is not of the layout kitti: {self.layout}")
        colour = {_key(file): file for file in list_images(folders.colour)}
        depth = {_key(file): file for file in list_images(folders.depth)}
        if folders.colour.name == "data":
            stamps = drive_stamps(folders.colour, colour)
            colour = {key: file for key, file in colour.items() if key in depth}
        else:
            stamps = {}
        files = pair_by_key(colour, depth, path)
        stated = read_annotation(path, _UNIT)
        return folder_sequence(
            path,
            files,
            options,
            unit=stated.unit if stated else _UNIT,
            intrinsics=stated.intrinsics if stated else _intrinsics(path, files),
            stamps_ns=[stamps[_key(rgb)] for rgb, _ in files] if stamps else None,
        )


def _find(path: Path) -> _Folders | None:
    for camera in ("image_02", "image_03"):
        drive = _Folders(path / camera / "data", path / "proj_depth" / "groundtruth" / camera)
        if drive.colour.is_dir() and drive.depth.is_dir():
            return drive
    selection = _Folders(path / "image", path / "groundtruth_depth")
    if selection.colour.is_dir() and selection.depth.is_dir():
        return selection
    plain = _Folders(path / "rgb", path / "depth")
    first = list_images(plain.depth)[:1]
    if plain.colour.is_dir() and first and len(first[0].stem) == _NAME_DIGITS and first[0].stem.isdigit():
        return plain
    return None


def _key(file: Path) -> str:
    # "..._sync_groundtruth_depth_0000000005_image_02" belongs to "..._sync_image_0000000005_image_02".
    return file.stem.replace("_groundtruth_depth_", "_image_")


def drive_stamps(data: Path, colour: dict[str, Path]) -> dict[str, int]:
    """Return the times of a drive from its ``timestamps.txt``, empty where it is not there."""
    file = data.parent / "timestamps.txt"
    if not file.exists():
        return {}
    lines = read_text(file).split("\n")
    times: dict[str, int] = {}
    for key in colour:
        try:
            times[key] = _to_ns(lines[int(key)])
        except (IndexError, ValueError) as err:
            raise DataError(f"{file} has no time for frame {key}") from err
    return times


def _to_ns(line: str) -> int:
    """Return the nanoseconds of "2011-09-26 13:02:25.964389445" (UTC)."""
    whole, _, fraction = line.strip().partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)


def _intrinsics(path: Path, files: list[tuple[Path, Path]]) -> Matrix | None:
    """Look for intrinsics/NAME.txt of the first frame, then for calibration files here and one folder up."""
    for colour, _ in files[:1]:
        own = path / "intrinsics" / f"{colour.stem}.txt"
        if own.exists():
            return from_matrix_text(own)
    for file in (path / "calib_cam_to_cam.txt", path.resolve().parent / "calib_cam_to_cam.txt", path / "calib.txt"):
        if file.exists():
            camera = "03" if (path / "image_03").is_dir() and not (path / "image_02").is_dir() else "02"
            return from_kitti_calib(file, (f"P_rect_{camera}", f"P{int(camera)}"))
    return None
