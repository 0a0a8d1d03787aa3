"""TartanAir V2: image_CAMERA/ and depth_CAMERA/ with float depth packed in RGBA PNG (metres)."""

from dataclasses import replace
from pathlib import Path

from fed_core.data.image_files import list_images, read_packed_depth
from fed_core.data.intrinsics import pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.pairing import pair_by_key
from fed_core.data.readers.base import FolderReader, FolderSequence, folder_sequence, readers
from fed_core.data.units import DepthCoding
from fed_core.errors import DataError

# Every camera of the data set: 640x640 pixels, 90 degrees.
_INTRINSICS = (320.0, 320.0, 320.0, 320.0)
# The sky is written as tens of kilometres.
_SKY_M = 1000.0


@readers.register("tartanair")
class TartanAir(FolderReader):
    """Simulated recordings with exact depth; the sky counts as unknown."""

    layout = "image_lcam_front/ and depth_lcam_front/ (or another camera)"

    def matches(self, path: Path) -> bool:
        """Tell whether a depth_* folder has its image_* folder."""
        return bool(_cameras(path))

    def open(self, path: Path, options: OpenOptions) -> FolderSequence:
        """Return the recording of the front left camera, or of the first one that has depth."""
        cameras = _cameras(path)
        if not cameras:
            raise DataError(f"{path} is not of the layout tartanair: {self.layout}")
        camera = "lcam_front" if "lcam_front" in cameras else cameras[0]
        colour = {f.stem: f for f in list_images(path / f"image_{camera}")}
        depth = {f.stem.removesuffix("_depth"): f for f in list_images(path / f"depth_{camera}")}
        files = pair_by_key(colour, depth, path)
        sequence = folder_sequence(path, files, options, unit="m", intrinsics=pinhole(_INTRINSICS))
        return replace(sequence, coding=DepthCoding("m", far_m=_SKY_M), read_counts=read_packed_depth)


def _cameras(path: Path) -> list[str]:
    names = sorted(f.name.removeprefix("depth_") for f in path.glob("depth_?cam_*") if f.is_dir())
    return [name for name in names if (path / f"image_{name}").is_dir()]
