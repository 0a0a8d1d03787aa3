"""M3ED: HDF5 files of a multi-robot event-camera data set (https://m3ed.io)."""

from pathlib import Path

from fed_core.data.m3ed.files import DATA, DEPTH, VIDEO, holds_m3ed
from fed_core.data.options import OpenOptions
from fed_core.data.readers.base import FolderReader, readers
from fed_core.data.sequence import DepthSequence
from fed_core.errors import ConfigError


@readers.register("m3ed")
class M3ed(FolderReader):
    """Car, drone and legged robot with colour images and LiDAR depth, at the default choices of M3edOptions."""

    layout = f"NAME{DATA} and NAME{DEPTH} (NAME{VIDEO} is used for the images where it is there)"

    def matches(self, path: Path) -> bool:
        """Tell whether one of the two files is there."""
        return holds_m3ed(path)

    def open(self, path: Path, options: OpenOptions) -> DepthSequence:
        """Return the recording; where the folder holds several, the option ``name`` chooses."""
        # Imported on use: poses need SciPy, which the readers of images do not.
        from fed_core.data.m3ed.sequence import open_m3ed

        if options.intrinsics:
            raise ConfigError(f"{path}: M3ED recordings carry their calibration; leave intrinsics out")
        sequence = open_m3ed(path, name=options.name)
        sequence.name = options.name or sequence.name
        sequence.frame_id = options.frame_id or sequence.frame_id
        return sequence
