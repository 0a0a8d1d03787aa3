"""``test_annotations.json`` of RGB-D demo folders: camera and depth scale of each image pair."""

from dataclasses import dataclass
from pathlib import Path

from fed_core.data.intrinsics import Matrix, pinhole, read_json
from fed_core.errors import DataError, UnitsError

FILE_NAME = "test_annotations.json"


@dataclass(frozen=True)
class Annotation:
    """What the file states for all images of the folder.

    Attributes:
        intrinsics: (3, 3) float64 pixels.
        unit: "1/256 m".
    """

    intrinsics: Matrix
    unit: str


def read_annotation(path: Path, default_unit: str) -> Annotation | None:
    """Return camera and unit stated in a folder, None where it has no such file; all images must share them."""
    file = path / FILE_NAME
    if not file.exists():
        return None
    tree = read_json(file)
    rows = tree.get("files") if isinstance(tree, dict) else None
    if not rows or not all(isinstance(row, dict) and len(row.get("cam_in", ())) == 4 for row in rows):
        raise DataError(f"{file}: expected 'files', each with 'cam_in': [fx, fy, cx, cy]")
    cameras = {tuple(float(v) for v in row["cam_in"]) for row in rows}
    scales = {row.get("depth_scale") for row in rows}
    if len(cameras) > 1 or len(scales) > 1:
        raise DataError(f"{file}: the images are of several cameras; give each its own folder")
    scale = scales.pop()
    if scale is None:
        return Annotation(pinhole(cameras.pop()), default_unit)
    if not isinstance(scale, int | float) or scale < 1 or scale != int(scale):
        raise UnitsError(f"{file}: depth_scale {scale!r} is not a whole number of counts in a metre")
    return Annotation(pinhole(cameras.pop()), f"1/{int(scale)} m")
