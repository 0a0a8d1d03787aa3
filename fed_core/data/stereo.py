"""Depth of a rectified stereo pair, by OpenCV's semi-global matching."""

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError

#: Disparities are searched in multiples of this.
STEP_PX = 16

_SUBPIXEL = 16.0  # OpenCV counts disparities in sixteenths of a pixel
_BLOCK_PX = 5
#: Costs of a step of one disparity, and of a larger one, between neighbours.
_SMALL_STEP, _LARGE_STEP = 8 * _BLOCK_PX**2, 32 * _BLOCK_PX**2
_CONSISTENT_PX = 1  # the match from right to left may differ by this much
_UNIQUE_PERCENT = 10  # a match must be this much better than the next
_SPECKLE_PIXELS, _SPECKLE_STEP = 100, 2  # smaller islands are noise


class StereoMatcher:
    """Finds how far things are from two pictures taken beside each other.

    Args:
        max_disparity_px: largest disparity; things nearer than focal length times baseline over this are not seen.
    """

    def __init__(self, max_disparity_px: int) -> None:
        self._searched_px = -(-max_disparity_px // STEP_PX) * STEP_PX
        self._matcher = cv2.StereoSGBM_create(  # type: ignore[attr-defined]
            minDisparity=0,
            numDisparities=self._searched_px,
            blockSize=_BLOCK_PX,
            P1=_SMALL_STEP,
            P2=_LARGE_STEP,
            disp12MaxDiff=_CONSISTENT_PX,
            uniquenessRatio=_UNIQUE_PERCENT,
            speckleWindowSize=_SPECKLE_PIXELS,
            speckleRange=_SPECKLE_STEP,
            mode=cv2.STEREO_SGBM_MODE_SGBM_3WAY,
        )

    def disparity(self, left: npt.NDArray[np.uint8], right: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return how many pixels further left things are in the right picture.

        Args:
            left: (H, W, 3) RGB.
            right: (H, W, 3) RGB, rectified: the same thing is in the same row of both.

        Returns:
            (H, W) float32 pixels, NaN where no match is certain from both sides.

        Raises:
            DataError: the pictures differ in size, or are not wider than the disparities that are searched.
        """
        if left.shape != right.shape:
            sizes = " and the right ".join(f"{image.shape[1]}x{image.shape[0]}" for image in (left, right))
            raise DataError(f"the left picture is {sizes}; publish a rectified pair, both of one size")
        width = left.shape[1]
        if width <= self._searched_px:  # OpenCV would end the process
            text = f"stereo pictures are {width} pixels wide, but disparities up to {self._searched_px} are searched"
            raise DataError(f"{text}; publish wider ones or lower max_disparity_px")
        grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (left, right)]
        found = self._matcher.compute(*grey).astype(np.float32) / _SUBPIXEL
        found[found < 0] = np.nan
        return np.asarray(found)


def depth_of_disparity(
    disparity_px: npt.NDArray[np.float32],
    focal_baseline_px_m: float,
    offset_px: float,
    limits_m: tuple[float, float],
) -> npt.NDArray[np.float32]:
    """Return the depth of disparities.

    Args:
        disparity_px: (H, W) float32, NaN = unknown.
        focal_baseline_px_m: focal length [px] times baseline [m].
        offset_px: disparity of things infinitely far away (difference of the two principal points).
        limits_m: smallest and largest depth that counts, inclusive.

    Returns:
        (H, W) float32 metres along the optical axis, NaN = unknown or out of the limits.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        depth_m = np.float32(focal_baseline_px_m) / (disparity_px - np.float32(offset_px))
        known = (depth_m > 0) & (depth_m >= limits_m[0]) & (depth_m <= limits_m[1])
    return np.where(known, depth_m, np.nan).astype(np.float32)
