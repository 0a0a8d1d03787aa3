"""7-Scenes: frame-000000.color.jpg|png, .depth.png and .pose.txt in one folder (millimetres)."""

from pathlib import Path

from fed_core.data.image_files import COLOUR_SUFFIXES
from fed_core.data.intrinsics import from_matrix_text, pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.pairing import pair_by_key
from fed_core.data.readers.base import FolderReader, FolderSequence, folder_sequence, readers

# Published with the data set for the depth camera, to which both images are close.
_INTRINSICS = (585.0, 585.0, 320.0, 240.0)


@readers.register("seven_scenes")
class SevenScenes(FolderReader):
    """Kinect recordings of rooms; 0 and 65535 mean "no depth"."""

    layout = "frame-*.color.jpg|png with frame-*.depth.png"

    def matches(self, path: Path) -> bool:
        """Tell whether frame-*.color.* or frame-*.depth.png lie in the folder."""
        return any(path.glob("frame-*.color.*")) or any(path.glob("frame-*.depth.png"))

    def open(self, path: Path, options: OpenOptions) -> FolderSequence:
        """Return the recording; ``camera-intrinsics.txt`` (3x3) beats the published intrinsics."""
        colour = {f.name.split(".")[0]: f for f in path.glob("frame-*.color.*") if f.suffix.lower() in COLOUR_SUFFIXES}
        depth = {f.name.split(".")[0]: f for f in path.glob("frame-*.depth.png")}
        camera = path / "camera-intrinsics.txt"
        return folder_sequence(
            path,
            pair_by_key(colour, depth, path),
            options,
            unit="mm",
            invalid=(65535,),
            intrinsics=from_matrix_text(camera) if camera.exists() else pinhole(_INTRINSICS),
        )
