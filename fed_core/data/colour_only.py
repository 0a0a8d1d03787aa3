"""Pictures without depth, from a bag or a folder of images: what can be played to a network, though not trained on."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fed_core.data.bag_files import BagFile, is_bag
from fed_core.data.bag_topics import choose_colour_topics
from fed_core.data.bags import Cursor, Key, numbered
from fed_core.data.image_files import COLOUR_SUFFIXES, list_images, read_rgb
from fed_core.data.images import colour_of
from fed_core.data.intrinsics import pinhole
from fed_core.data.options import OpenOptions
from fed_core.data.readers.base import stamps_from_names
from fed_core.data.sequence import DepthSequence
from fed_core.errors import DataError
from fed_core.types import DepthFrame

#: Name of this way to read a recording, where a layout may be named.
COLOUR = "colour"


def open_colour(path: Path, options: OpenOptions) -> DepthSequence:
    """Open the pictures of a bag or of a folder of images; no frame has any depth.

    Raises:
        DataError: there are none, or several topics fit.
    """
    return ColourBag(path, options) if is_bag(path) else ColourFolder(path, options)


def has_pictures(path: Path) -> bool:
    """Tell whether a path is a bag or a folder of images; looks at names only."""
    return is_bag(path) or bool(list_images(path))


def _frame(rgb: npt.NDArray[np.uint8], stamp_ns: int, intrinsics: npt.NDArray[np.float64], frame_id: str) -> DepthFrame:
    """Return a frame whose depth is unknown everywhere."""
    return DepthFrame(rgb, np.full(rgb.shape[:2], np.nan, np.float32), stamp_ns, intrinsics.copy(), frame_id)


def _camera(options: OpenOptions, known: npt.NDArray[np.float64] | None = None) -> npt.NDArray[np.float64]:
    """Return the (3, 3) matrix in pixels; zeros, as in ROS, where the camera is not calibrated."""
    if options.intrinsics:
        return pinhole(options.intrinsics)
    return np.zeros((3, 3)) if known is None else known


class ColourBag:
    """The images of one topic of a bag, in order of their record time.

    Args:
        path: .bag, .db3, .mcap, or a rosbag2 folder.
        options: topics, intrinsics and names; see :class:`OpenOptions`.

    Attributes:
        topics: the topics that are read.
    """

    def __init__(self, path: Path, options: OpenOptions) -> None:
        self.source, self._path = str(path), path
        self.name = options.name or (path.stem if path.is_file() else path.resolve().name)
        with BagFile(path) as bag:
            self.topics = choose_colour_topics(bag, options)
            known = None
            if self.topics.info:
                info = bag.first(self.topics.info)
                known = np.asarray(info.k if hasattr(info, "k") else info.K, np.float64).reshape(3, 3)
            raws = numbered(bag, self.topics.colour, None, None)
            self._keys = [Key(key.log_ns, key.rank, bag.stamp_ns(raw)) for key, raw in raws]
        self._intrinsics, self._frame_id = _camera(options, known), options.frame_id
        self._cursor = Cursor(path, self.topics.colour)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._keys)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read image ``index``; a broken one raises :class:`DataError` with its time."""
        key = self._keys[index]
        msg = self._cursor.read(key)
        try:
            rgb = colour_of(msg)
        except DataError as err:
            raise type(err)(f"{self._path}, image {index} at {key.stamp_ns} ns: {err}") from err
        frame_id = self._frame_id or msg.header.frame_id or DepthFrame.frame_id
        return _frame(rgb, key.stamp_ns, self._intrinsics, frame_id)


class ColourFolder:
    """The image files of a folder, by name."""

    def __init__(self, path: Path, options: OpenOptions) -> None:
        self.source, self.name = str(path), options.name or path.resolve().name
        self._files = list_images(path)
        if not self._files:
            raise DataError(f"{path} is no bag and no folder of images ({', '.join(COLOUR_SUFFIXES)})")
        self._stamps_ns = stamps_from_names(self._files, options)
        self._intrinsics = _camera(options)
        self._frame_id = options.frame_id or DepthFrame.frame_id

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._files)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read image ``index``; a broken file raises :class:`DataError`."""
        return _frame(read_rgb(self._files[index]), self._stamps_ns[index], self._intrinsics, self._frame_id)
