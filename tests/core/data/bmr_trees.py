"""Miniature trees of NYU Depth v2 and KITTI in their published layouts; files are empty unless a test fills them."""

from collections.abc import Mapping
from pathlib import Path

TYPES = ("bedroom", "living_room", "kitchen", "dining_room", "bookstore", "bathroom")
TYPES = (*TYPES, "furniture_store", "office", "home_office", "classroom", "playroom")
DRIVES = tuple(f"2011_09_26_drive_{number:04d}_sync" for number in range(1, 12))


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def nyu_scene(scene: Path, numbers: range) -> None:
    for number in numbers:
        touch(scene / f"rgb_{number:05d}.jpg")
        touch(scene / f"sync_depth_{number:05d}.png")


def kitti_drive(root: Path, drive: str, numbers: range, *, tree: str = "train", lead_in: int = 5) -> None:
    """Colour has frames before and after those with depth, as KITTI has."""
    data = root / drive[:10] / drive / "image_02" / "data"
    for number in range(numbers.start - lead_in, numbers.stop + lead_in):
        touch(data / f"{number:010d}.png")
    for number in numbers:
        touch(root / tree / drive / "proj_depth" / "groundtruth" / "image_02" / f"{number:010d}.png")


def nyu_tree(root: Path) -> Path:
    """Eleven types of 12, 11, ... 2 frames; each type's frames are in two scenes, one with a letter."""
    for place, name in enumerate(TYPES):
        count = len(TYPES) + 1 - place
        nyu_scene(root / "sync" / f"{name}_0001", range(1, count))
        nyu_scene(root / "sync" / f"{name}_0002b", range(7, 8))
    for name in ("office", "kitchen", "foyer"):
        nyu_scene(root / "official_splits" / "test" / name, range(1, 3))
    return root


def kitti_tree(root: Path) -> Path:
    """Eleven drives of 11, 10, ... 1 frames for training and two for tests."""
    for place, drive in enumerate(DRIVES):
        kitti_drive(root, drive, range(5, 5 + len(DRIVES) - place))
    for number in (20, 9):
        kitti_drive(root, f"2011_09_29_drive_{number:04d}_sync", range(5, 8), tree="val")
    return root


def write_lists(folder: Path, lists: Mapping[str, list[str]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in lists.items():
        (folder / name).write_text("".join(line + "\n" for line in lines))
    return folder


def nyu_line(scene: str, number: int, slash: str = "/") -> str:
    return f"{slash}{scene}/rgb_{number:05d}.jpg {slash}{scene}/sync_depth_{number:05d}.png 518.8579"


def kitti_line(drive: str, number: int, depth: bool = True) -> str:
    truth = f"{drive}/proj_depth/groundtruth/image_02/{number:010d}.png" if depth else "None"
    return f"{drive[:10]}/{drive}/image_02/data/{number:010d}.png {truth} 721.5377"
