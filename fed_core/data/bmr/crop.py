"""The crop that KITTI's depth benchmark uses: 352x1216 pixels, at the bottom and in the middle."""

import numpy as np

from fed_core.data.sequence import DepthSequence
from fed_core.errors import DataError
from fed_core.types import DepthFrame

#: (H, W) of the benchmark crop; the five camera set-ups of KITTI have different sizes, all larger.
KITTI_SIZE = (352, 1216)


class BottomCrop:
    """A view on a sequence whose frames are cut to one size; the camera's centre moves along.

    Args:
        sequence: the whole frames.
        size: (H, W) pixels that are kept: the last H rows, and W columns in the middle.
    """

    def __init__(self, sequence: DepthSequence, size: tuple[int, int]) -> None:
        self._sequence, self._size = sequence, size
        self.name = sequence.name
        self.source = sequence.source

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._sequence)

    def __getitem__(self, index: int) -> DepthFrame:
        """Read and cut frame ``index``; one that is smaller than the crop raises :class:`DataError`."""
        frame = self._sequence[index]
        height, width = frame.depth_m.shape
        rows, columns = self._size
        if height < rows or width < columns:
            text = (
                f"frame {index} of {self.name!r} is {height}x{width} pixels; the crop needs at least {rows}x{columns}"
            )
            raise DataError(f"{text}, so this is no whole KITTI image")
        top, left = height - rows, (width - columns) // 2
        window = np.s_[top:, left : left + columns]
        intrinsics = frame.intrinsics.copy()
        intrinsics[:2, 2] -= (left, top)
        return DepthFrame(frame.rgb[window], frame.depth_m[window], frame.stamp_ns, intrinsics, frame.frame_id)
