"""Folders and files of OPV2V: scenario / vehicle / frame number with ``.yaml``, ``_camera0.png``, ``_bev_*.png``."""

import os
import re
from pathlib import Path

from fed_core.errors import DataError

#: Scenarios whose camera data is faulty.
FAULTY = frozenset({"2021_09_09_13_20_58"})
#: Label -> end of the file name.
LABELS = {
    "visible": "bev_visibility",
    "dynamic": "bev_dynamic",
    "static": "bev_static",
    "lane": "bev_lane",
}
#: Year in the names of generated scenarios.
GENERATED_YEAR = 2000
SPLITS = ("train", "test")

_SCENARIO = re.compile(r"\d{4}(_\d{2}){5}")
_VEHICLE = re.compile(r"\d+")  # roadside units have negative ids
_FRAME = re.compile(r"(\d{1,18})\.yaml")
#: scenario folders lie at most this deep: use case / split / client / scenario.
_DEPTH = 3


def is_scenario(name: str) -> bool:
    """Tell whether a name is that of a usable scenario (``yyyy_mm_dd_hh_mm_ss``, camera data not faulty)."""
    return bool(_SCENARIO.fullmatch(name)) and name not in FAULTY


def list_scenarios(folder: Path) -> list[Path]:
    """Return the scenario folders in ``folder``, sorted; the folder itself where it is a scenario."""
    if is_scenario(folder.name):
        return [folder]
    return [child for child in _folders(folder) if is_scenario(child.name)]


def find_scenarios(root: Path) -> dict[str, Path]:
    """Return the scenario folders below ``root`` by name, however they are grouped (splits, clients).

    Raises:
        DataError: a scenario is there twice.
    """
    found: dict[str, Path] = {}
    level = [root]
    for _ in range(_DEPTH + 1):
        children = [child for folder in level for child in _folders(folder)]
        for scenario in (child for child in children if is_scenario(child.name)):
            if scenario.name in found:
                raise DataError(f"scenario {scenario.name} is in {found[scenario.name].parent} and {scenario.parent}")
            found[scenario.name] = scenario
        level = [child for child in children if not _SCENARIO.fullmatch(child.name)]
    return found


def is_generated(scenario: str) -> bool:
    """Tell whether a scenario's name is one that `fedperc generate` gives: no recording is of the year 2000."""
    return scenario.startswith(f"{GENERATED_YEAR}_")


def list_vehicles(scenario: Path) -> list[Path]:
    """Return the folders of the vehicles, sorted by id as text; roadside units (negative ids) are left out."""
    return [child for child in _folders(scenario) if _VEHICLE.fullmatch(child.name)]


def list_frames(vehicle: Path) -> list[str]:
    """Return the frame numbers of a vehicle as they are written, in order; "additional" files are left out."""
    names = (_FRAME.fullmatch(name) for name in _names(vehicle))
    return sorted((match[1] for match in names if match), key=lambda number: (int(number), number))


def pose_file(vehicle: Path, frame: str) -> Path:
    """Return the file with the poses of a frame."""
    return vehicle / f"{frame}.yaml"


def image_file(vehicle: Path, frame: str, camera: int) -> Path:
    """Return the picture of one camera."""
    return vehicle / f"{frame}_camera{camera}.png"


def mask_file(vehicle: Path, frame: str, label: str) -> Path:
    """Return the mask of a label, one of :data:`LABELS`."""
    return vehicle / f"{frame}_{LABELS[label]}.png"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, and its folder; :class:`DataError` where that fails."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as err:
        raise DataError(f"cannot write {path}: {err.strerror}") from err


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError as err:
        raise DataError(f"cannot read {folder}: {err.strerror}") from err


def _folders(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder) if not name.startswith(".") and (folder / name).is_dir()]
