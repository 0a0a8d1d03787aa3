"""Prepared images: in memory as far as they fit, the rest in a nameless file that ends with the process."""

import tempfile
from functools import cached_property
from typing import IO

import numpy as np
import numpy.typing as npt

from fed_core.errors import DiskFullError

Images = npt.NDArray[np.uint8]

#: Images kept in memory; a paper-size client has forty times as much.
MEMORY_BYTES = 2**30


class Pictures:
    """Images of frames, (N, H, W, 3) uint8 each; N may differ from frame to frame.

    Args:
        memory_bytes: images beyond this go to the folder for temporary files (``TMPDIR``).
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._left = memory_bytes
        self._held: list[Images | tuple[int, tuple[int, ...]]] = []  # itself, or place in the file and shape
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._held)

    def append(self, images: Images) -> None:
        """Add the images of a frame; a full disk raises :class:`DiskFullError`."""
        if images.nbytes <= self._left:
            self._left -= images.nbytes
            self.size_bytes += images.nbytes
            self._held.append(images)
            return
        self._left = 0
        try:
            place = self._disk.seek(0, 2)
            self._disk.write(images.tobytes())
            self._disk.flush()
        except OSError as err:
            folder = tempfile.gettempdir()
            text = f"cannot keep prepared images in {folder} ({err.strerror}); free space there, or set TMPDIR"
            raise DiskFullError(text) from err
        self._held.append((place, images.shape))

    def __getitem__(self, index: int) -> Images:
        """Return the images of frame ``index``."""
        held = self._held[index]
        if not isinstance(held, tuple):
            return held
        place, shape = held
        self._disk.seek(place)
        return np.frombuffer(self._disk.read(int(np.prod(shape))), np.uint8).reshape(shape)

    @cached_property
    def _disk(self) -> IO[bytes]:
        return tempfile.TemporaryFile()
