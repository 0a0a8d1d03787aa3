"""KITTI by drive, left colour camera: raw drives, and annotated depth in train and val trees (1/256 m).

Colour lies in ``2011_09_26/<drive>/image_02/data`` (raw), or ``data_rgb/train|val/<drive>/image_02/data``; depth in
``[data_depth_annotated/]train|val/<drive>/proj_depth/groundtruth/image_02``, or in the drive's own folder.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from fed_core.data.bmr.folders import Listing, first_folder, require_root
from fed_core.data.bmr.splits import SplitLine, read_split
from fed_core.data.intrinsics import Matrix, from_kitti_calib, pinhole
from fed_core.data.options import DEFAULT_EPOCH_NS
from fed_core.data.readers.base import FramePair
from fed_core.errors import DataError

NAME = "KITTI"
LISTS = {"train": "eigen_train_files_with_gt.txt", "test": "eigen_test_files_with_gt.txt"}
#: Trees of the published split; without lists, val gives the test sequences.
_TREES = {"train": "train", "test": "val"}
_DRIVE = re.compile(r"(\d{4}_\d\d_\d\d)_drive_\d{4}_sync")
_CAMERA = "image_02"
_FRAME = re.compile(r"\d{10}\.png")
#: Focal length and centre of the rectified left colour camera [px], for trees without calibration files.
_CAMERAS = {
    "2011_09_26": (721.5377, 609.5593, 172.854),
    "2011_09_28": (707.0493, 604.0814, 180.5066),
    "2011_09_29": (718.3351, 600.3891, 181.5122),
    "2011_09_30": (707.0912, 601.8873, 183.1104),
    "2011_10_03": (718.856, 607.1928, 185.2157),
}
#: The camera takes 10 images a second; their numbers count from the start of the drive.
_STEP_NS = 100_000_000


@dataclass(frozen=True)
class _Drive:
    """Folders of one drive."""

    colour: Path
    depth: Path


def kitti_frames(root: Path, part: str, splits: Path | None = None) -> dict[str, tuple[FramePair, ...]]:
    """Return the frames of each drive in time order; drives are named "2011_09_26_drive_0001".

    Args:
        root: folder of the data set.
        part: "train" or "test".
        splits: folder with the published lists; None = every frame with depth in the train or val tree.

    Raises:
        DataError: empty folder, wrong line, or a frame without its colour or depth file.
    """
    require_root(root, NAME)
    pairs = _in_tree(root, part) if splits is None else _in_list(root, splits / LISTS[part])
    drives: dict[str, list[FramePair]] = defaultdict(list)
    for rgb, depth in pairs:
        drive = rgb.parents[2].name.removesuffix("_sync")
        drives[drive].append(FramePair(rgb, depth, DEFAULT_EPOCH_NS + int(rgb.stem) * _STEP_NS))
    return {name: tuple(sorted(frames, key=lambda frame: frame.stamp_ns)) for name, frames in drives.items()}


def kitti_camera(rgb: Path) -> Matrix:
    """Return the (3, 3) float64 pinhole matrix in pixels of a colour file: from ``calib_cam_to_cam.txt`` of its date.

    Without that file the published calibration of the date is taken.
    """
    drive = rgb.parents[2]
    for folder in (drive, drive.parent):
        file = folder / "calib_cam_to_cam.txt"
        found = from_kitti_calib(file, ("P_rect_02",)) if file.exists() else None
        if found is not None:
            return found
    date = drive.name[:10]
    if date not in _CAMERAS:
        raise DataError(f"{drive} is of {date}, a date without known calibration; put calib_cam_to_cam.txt there")
    focal, centre_x, centre_y = _CAMERAS[date]
    return pinhole((focal, focal, centre_x, centre_y))


def _folders(root: Path, drive: str, where: str) -> _Drive:
    date = drive[:10]
    trees = (*_TREES.values(), ".")
    homes = [root / date, *(root / "data_rgb" / tree for tree in trees), *(root / tree for tree in trees)]
    colour = first_folder(home / drive / _CAMERA / "data" for home in homes)
    homes = [base / tree for base in (root / "data_depth_annotated", root) for tree in trees] + [root / date]
    depth = first_folder(home / drive / "proj_depth" / "groundtruth" / _CAMERA for home in homes)
    if colour is None or depth is None:
        missing = f"{_CAMERA}/data" if colour is None else f"proj_depth/groundtruth/{_CAMERA}"
        raise DataError(f"{where}: drive {drive} has no {missing} under {root}; complete the data set")
    return _Drive(colour, depth)


def _in_list(root: Path, path: Path) -> list[tuple[Path, Path]]:
    listing, drives = Listing(), dict[str, _Drive]()
    pairs = []
    for line in read_split(path):
        if not line.depth:  # listed by the split's author, but no laser depth was published
            continue
        drive, name = _drive_of(line)
        if drive not in drives:
            drives[drive] = _folders(root, drive, line.where)
        rgb, depth = drives[drive].colour / name, drives[drive].depth / name
        for file, kind in ((rgb, "colour"), (depth, "depth")):
            if not listing.has(file):
                raise DataError(f"{line.where}: {kind} image {file} is not there; complete the data set")
        pairs.append((rgb, depth))
    return pairs


def _drive_of(line: SplitLine) -> tuple[str, str]:
    """Return drive folder and file name of a line; colour and depth must be one frame of the left camera."""
    rgb, depth = Path(line.rgb), Path(line.depth)
    drives = [next((part for part in file.parts if _DRIVE.fullmatch(part)), "") for file in (rgb, depth)]
    if not drives[0] or _CAMERA not in rgb.parts or not _FRAME.fullmatch(rgb.name):
        raise DataError(
            f"{line.where}: {line.rgb} is no frame <date>_drive_<number>_sync/{_CAMERA}/data/<10 digits>.png"
        )
    if drives[0] != drives[1] or rgb.name != depth.name or _CAMERA not in depth.parts:
        raise DataError(f"{line.where}: {line.rgb} and {line.depth} are not of one frame")
    return drives[0], rgb.name


def _in_tree(root: Path, part: str) -> list[tuple[Path, Path]]:
    tree = _TREES[part]
    found = first_folder((root / "data_depth_annotated" / tree, root / tree))
    depths = sorted(found.glob(f"*/proj_depth/groundtruth/{_CAMERA}")) if found else []
    if not depths:
        text = f"{root} has no annotated depth in {tree}/ or data_depth_annotated/{tree}/"
        raise DataError(f"{text}; give the folder of {NAME}, or the lists of frames with --splits")
    listing, pairs = Listing(), []
    for depth in depths:
        drive = depth.parents[2].name
        if not _DRIVE.fullmatch(drive):
            continue
        folders = _folders(root, drive, str(depth))
        for name in sorted(listing.names(depth)):
            if not _FRAME.fullmatch(name):
                continue
            if not listing.has(folders.colour / name):
                raise DataError(f"{depth / name} has no colour image; {folders.colour / name} is not there")
            pairs.append((folders.colour / name, depth / name))
    return pairs
