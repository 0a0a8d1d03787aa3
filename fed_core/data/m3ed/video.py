"""``<seq>_rgb.avi``: the colour images as lossless FFV1 video, a tenth of the size of the HDF5 file."""

from pathlib import Path

import cv2
import numpy as np

from fed_core.errors import DataError
from fed_core.types import Array

# Decoding so many images in between is faster than a jump.
_NEAR = 8


class VideoImages:
    """Images of a video by index, (H, W, 3) uint8 in BGR order; every image of FFV1 stands alone, so jumps are exact.

    Args:
        path: the video.
        width: expected columns.
        height: expected rows.
    """

    def __init__(self, path: Path, width: int, height: int) -> None:
        self._path, self._next = path, 0
        self._video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
        if not self._video.isOpened():
            raise DataError(f"{path} cannot be read as a video; it is cut off, or OpenCV has no FFmpeg with FFV1")
        found = (int(self._video.get(cv2.CAP_PROP_FRAME_WIDTH)), int(self._video.get(cv2.CAP_PROP_FRAME_HEIGHT)))
        if found != (width, height):
            raise DataError(f"{path} has images of {found[0]}x{found[1]}; the calibration says {width}x{height}")
        self._count = int(self._video.get(cv2.CAP_PROP_FRAME_COUNT))

    def __len__(self) -> int:
        """Return the number of images."""
        return self._count

    def __getitem__(self, index: int) -> Array:
        """Return image ``index``; a damaged one raises :class:`DataError`."""
        if not self._next <= index <= self._next + _NEAR:
            self._video.set(cv2.CAP_PROP_POS_FRAMES, index)
            self._next = index
        while self._next < index and self._video.grab():
            self._next += 1
        done, image = self._video.read() if self._next == index else (False, None)
        if not done or image is None:
            self._next = -1  # where the video stands is not known now
            raise DataError(f"{self._path}: image {index} is damaged or cut off")
        self._next = index + 1
        return np.asarray(image)
