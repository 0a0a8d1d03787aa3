"""TUM RGB-D: rgb.txt and depth.txt list files by time; depth counts are 1/5000 m."""

import re
from decimal import InvalidOperation
from pathlib import Path

from fed_core.data.image_files import read_text
from fed_core.data.intrinsics import pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.pairing import pair_by_stamp
from fed_core.data.readers.base import FolderReader, FolderSequence, folder_sequence, readers, seconds_to_ns
from fed_core.errors import DataError

# Published colour calibrations by the camera in the folder's name, else the driver's default.
_INTRINSICS = {
    "1": (517.306408, 516.469215, 318.643040, 255.313989),
    "2": (520.908620, 521.007327, 325.141442, 249.701764),
    "3": (535.4, 539.2, 320.1, 247.6),
}
_DEFAULT = (525.0, 525.0, 319.5, 239.5)


@readers.register("tum")
class Tum(FolderReader):
    """Kinect recordings with real times; colour and depth are paired by time within ``slop_s``."""

    layout = "rgb.txt and depth.txt ('seconds file' per line)"

    def matches(self, path: Path) -> bool:
        """Tell whether both lists are there."""
        return (path / "rgb.txt").exists() and (path / "depth.txt").exists()

    def open(self, path: Path, options: OpenOptions) -> FolderSequence:
        """Return the recording; raises :class:`DataError` where no pair is near enough in time."""
        colour, depth = _read_list(path / "rgb.txt"), _read_list(path / "depth.txt")
        pairs = pair_by_stamp([ns for ns, _ in colour], [ns for ns, _ in depth], round(options.slop_s * 1e9))
        if not pairs:
            raise DataError(
                f"{path}: none of {len(colour)} colour and {len(depth)} depth images are within "
                f"{options.slop_s} s of each other; raise slop_s"
            )
        camera = re.search(r"freiburg([123])", path.resolve().name)
        return folder_sequence(
            path,
            [(colour[i][1], depth[j][1]) for i, j in pairs],
            options,
            unit="1/5000 m",
            intrinsics=pinhole(_INTRINSICS[camera[1]] if camera else _DEFAULT),
            stamps_ns=[colour[i][0] for i, _ in pairs],
        )


def _read_list(file: Path) -> list[tuple[int, Path]]:
    """Return (time in ns, image) per line; '#' starts a comment."""
    rows: list[tuple[int, Path]] = []
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            rows.append((seconds_to_ns(words[0]), file.parent / words[1]))
        except (IndexError, InvalidOperation) as err:
            raise DataError(f"{file}, line {number}: expected 'seconds file', got {line!r}") from err
        if not rows[-1][1].exists():
            raise DataError(f"{file}, line {number}: {rows[-1][1]} is missing")
    return rows
