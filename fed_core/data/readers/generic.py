"""Any RGB-D folder whose ``sequence.yaml`` states what the files do not: unit, invalid values, intrinsics.

::

    depth_unit: mm                 # mm | cm | m | 1/256 m | 1/5000 m ...
    intrinsics: [525.0, 525.0, 319.5, 239.5]   # fx fy cx cy, pixels of the colour image
    invalid: [65535]               # numbers without depth, beside 0
    rgb: rgb                       # folder of colour images
    depth: depth                   # folder of depth images (16 bit PNG, TIFF, .npy)
    registered: false              # true: depth is of another resolution, but of the colour camera's view
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from fed_core.config import check, from_tree, option, read_yaml
from fed_core.data.image_files import DEPTH_SUFFIXES, list_images
from fed_core.data.intrinsics import pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.pairing import pair_by_key
from fed_core.data.readers.base import FolderReader, FolderSequence, folder_sequence, readers
from fed_core.data.units import metres_per_count
from fed_core.errors import ConfigError, DataError, UnitsError

FILE_NAME = "sequence.yaml"


@dataclass(frozen=True)
class SequenceFile:
    """Content of ``sequence.yaml``."""

    depth_unit: str = option(help='unit of the depth files: "mm", "cm", "m", "1/256 m"')
    intrinsics: tuple[float, ...] = option((), help="fx fy cx cy of the colour images", unit="px")
    invalid: tuple[float, ...] = option((), help="numbers that mean no depth, beside 0")
    rgb: str = option("rgb", help="folder of colour images")
    depth: str = option("depth", help="folder of depth images")
    registered: bool = option(False, help="depth may be of another resolution")
    frame_id: str = option("", help="optical frame")

    def __post_init__(self) -> None:
        """Check the values."""
        check(self)
        if self.intrinsics and len(self.intrinsics) != 4:
            raise ConfigError(f"intrinsics needs fx, fy, cx, cy; got {len(self.intrinsics)} values")


@readers.register("generic")
class Generic(FolderReader):
    """Colour and depth folders, described by a small YAML file."""

    layout = "sequence.yaml beside rgb/ and depth/"

    def matches(self, path: Path) -> bool:
        """Tell whether sequence.yaml is there."""
        return (path / FILE_NAME).exists()

    def open(self, path: Path, options: OpenOptions) -> FolderSequence:
        """Return the recording; images are paired by name, or by the last number in their names."""
        stated = _read(path)
        colour = list_images(path / stated.rgb)
        depth = list_images(path / stated.depth, DEPTH_SUFFIXES)
        sequence = folder_sequence(
            path,
            _pairs(colour, depth, path),
            replace(options, frame_id=options.frame_id or stated.frame_id),
            unit=stated.depth_unit,
            invalid=stated.invalid,
            intrinsics=pinhole(stated.intrinsics) if stated.intrinsics else None,
        )
        return replace(sequence, registered=stated.registered)


def _read(path: Path) -> SequenceFile:
    file = path / FILE_NAME
    tree = read_yaml(file) if file.exists() else {}
    if isinstance(tree, dict):
        if "depth_unit" not in tree:
            raise no_unit(path)
        # Before the types are checked: a bare number needs the longer answer.
        metres_per_count(tree["depth_unit"], str(file))
    return from_tree(SequenceFile, tree, str(file))


def no_unit(path: Path) -> UnitsError:
    """Return the error for a folder of depth images whose unit is stated nowhere."""
    return UnitsError(
        f"{path}: the unit of the depth images is not known; state it in {path / FILE_NAME}, for example "
        f'"depth_unit: mm" (or cm, m, 1/256 m) and "intrinsics: [fx, fy, cx, cy]"'
    )


def _pairs(colour: list[Path], depth: list[Path], path: Path) -> list[tuple[Path, Path]]:
    stems = {f.stem: f for f in colour}, {f.stem: f for f in depth}
    if stems[0].keys() == stems[1].keys():
        return pair_by_key(*stems, path)
    numbers = _by_number(colour), _by_number(depth)
    if None in numbers:
        return pair_by_key(*stems, path)
    return pair_by_key(numbers[0] or {}, numbers[1] or {}, path)


def _by_number(files: list[Path]) -> dict[int, Path] | None:
    """Return the files by the last number in their names; None where a name has none or two share one."""
    found = [re.findall(r"\d+", f.stem) for f in files]
    if not all(found):
        return None
    keyed = {int(numbers[-1]): file for numbers, file in zip(found, files, strict=True)}
    if len(keyed) != len(files):
        raise DataError(f"{files[0].parent}: two images have the same number; give pairs equal names")
    return keyed
