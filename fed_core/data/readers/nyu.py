"""NYU Depth v2: rgb_00000.jpg with sync_depth_00000.png, side by side or in rgb/ and depth/ (millimetres)."""

from pathlib import Path

from fed_core.data.image_files import list_images
from fed_core.data.intrinsics import pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.pairing import pair_by_key
from fed_core.data.readers._annotations import read_annotation
from fed_core.data.readers.base import FolderReader, FolderSequence, folder_sequence, readers

#: fx fy cx cy in pixels, published with the data set for its 640x480 colour camera.
INTRINSICS = (518.8579, 519.46961, 325.58245, 253.73617)
_DEPTH = "sync_depth_"
_COLOUR = "rgb_"


@readers.register("nyu")
class Nyu(FolderReader):
    """Kinect recordings of rooms, depth registered to colour and filled in part."""

    layout = "rgb_*.jpg with sync_depth_*.png, in one folder or in rgb/ and depth/"

    def matches(self, path: Path) -> bool:
        """Tell whether sync_depth_*.png lie in the folder or in depth/."""
        return any(path.glob(f"{_DEPTH}*.png")) or any(path.glob(f"depth/{_DEPTH}*.png"))

    def open(self, path: Path, options: OpenOptions) -> FolderSequence:
        """Return the recording; ``test_annotations.json`` beats the published intrinsics."""
        side_by_side = any(path.glob(f"{_DEPTH}*.png"))
        colour_folder, depth_folder = (path, path) if side_by_side else (path / "rgb", path / "depth")
        colour = {f.stem[len(_COLOUR) :]: f for f in list_images(colour_folder) if f.name.startswith(_COLOUR)}
        depth = {f.stem[len(_DEPTH) :]: f for f in depth_folder.glob(f"{_DEPTH}*.png")}
        stated = read_annotation(path, "mm")
        return folder_sequence(
            path,
            pair_by_key(colour, depth, path),
            options,
            unit=stated.unit if stated else "mm",
            intrinsics=stated.intrinsics if stated else pinhole(INTRINSICS),
        )
