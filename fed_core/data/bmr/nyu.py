"""NYU Depth v2 by scene type: ``<scene>/rgb_00045.jpg`` with ``<scene>/sync_depth_00045.png`` (millimetres)."""

import re
from collections import defaultdict
from pathlib import Path

from fed_core.data.bmr.folders import Listing, require_root
from fed_core.data.bmr.splits import read_split
from fed_core.data.options import DEFAULT_EPOCH_NS
from fed_core.data.readers.base import FramePair
from fed_core.errors import DataError

NAME = "NYU Depth v2"
#: List of each part, and the folders in which the part's scenes may lie.
LISTS = {"train": "nyudepthv2_train_files_with_gt.txt", "test": "nyudepthv2_test_files_with_gt.txt"}
_BASES = {"train": ("sync", "train", "."), "test": ("official_splits/test", "test", ".")}
_SCENE_NUMBER = re.compile(r"_\d+[a-z]?$")
_COLOUR = re.compile(r"rgb_(\d+)\.(?:jpg|png)")
#: The lists carry no times; frames of a scene type follow each other at this distance.
_STEP_NS = 100_000_000

Files = tuple[Path, Path]


def scene_type(scene: str) -> str:
    """Return the type of a scene: "living_room" of "living_room_0019" and "kitchen" of "kitchen_0028b"."""
    return _SCENE_NUMBER.sub("", scene)


def nyu_frames(root: Path, part: str, splits: Path | None = None) -> dict[str, tuple[FramePair, ...]]:
    """Return the frames of each scene type, scene by scene and in time order within a scene.

    Args:
        root: folder of the data set.
        part: "train" or "test".
        splits: folder with the published lists; None = every frame in the part's tree.

    Raises:
        DataError: empty folder, wrong line, or a frame without its colour or depth file.
    """
    require_root(root, NAME)
    files = _in_tree(root, part) if splits is None else _in_list(root, part, splits / LISTS[part])
    types: dict[str, list[Files]] = defaultdict(list)
    for rgb, depth in sorted(files):
        types[scene_type(rgb.parent.name)].append((rgb, depth))
    return {name: tuple(_stamped(pairs)) for name, pairs in types.items()}


def _stamped(files: list[Files]) -> list[FramePair]:
    return [FramePair(rgb, depth, DEFAULT_EPOCH_NS + place * _STEP_NS) for place, (rgb, depth) in enumerate(files)]


def _in_list(root: Path, part: str, path: Path) -> list[Files]:
    lines, listing = read_split(path), Listing()
    bases = [root / base for base in _BASES[part]]
    base = next((base for base in bases if listing.has(base / lines[0].rgb)), None)
    if base is None:
        raise DataError(f"{lines[0].where}: {lines[0].rgb} is in none of {', '.join(map(str, bases))}")
    files = []
    for line in lines:
        if not line.depth:
            continue
        rgb, depth = base / line.rgb, base / line.depth
        for file, kind in ((rgb, "colour"), (depth, "depth")):
            if not listing.has(file):
                raise DataError(f"{line.where}: {kind} image {file} is not there; complete the data set")
        files.append((rgb, depth))
    return files


def _in_tree(root: Path, part: str) -> list[Files]:
    listing = Listing()
    for name in _BASES[part][:-1]:
        scenes = sorted(folder for folder in (root / name).glob("*") if folder.is_dir())
        if scenes:
            return [files for scene in scenes for files in _of_scene(scene, listing)]
    tried = " or ".join(_BASES[part][:-1])
    raise DataError(f"{root} has no scenes in {tried}; it is not laid out as {NAME}'s {part} part")


def _of_scene(scene: Path, listing: Listing) -> list[Files]:
    files = []
    for name in sorted(listing.names(scene)):
        number = _COLOUR.fullmatch(name)
        if number is None:
            continue
        depth = scene / f"sync_depth_{number[1]}.png"
        if not listing.has(depth):
            raise DataError(f"{scene / name} has no depth image; {depth.name} is not there")
        files.append((scene / name, depth))
    return files
