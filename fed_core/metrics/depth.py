"""Depth metrics as the field computes them (fedepth spec 8): per image, then the mean over a sequence's images."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fed_core.errors import DataError

#: Smallest depth that is scored, in metres.
D_MIN_M = 1e-3
NAMES = ("abs_rel", "sq_rel", "rmse_m", "rmse_log", "log10", "silog", "delta1", "delta2", "delta3")

Mask = npt.NDArray[np.bool_]
Pixels = npt.NDArray[np.float64]


#: KITTI's crops: top, bottom, left, right as shares of the image's height and width.
_CROP_SHARES = {
    "garg": (0.40810811, 0.99189189, 0.03594771, 0.96405229),
    "eigen": (0.3324324, 0.91351351, 0.0359477, 0.96405229),
}
#: NYU's crop: rows 45 to 470 and columns 41 to 600, of images of this size only.
_NYU_SIZE, _NYU_ROWS, _NYU_COLUMNS = (480, 640), slice(45, 471), slice(41, 601)
CROPS = ("none", *_CROP_SHARES, "nyu")


def crop_window(name: str, height: int, width: int) -> tuple[slice, slice]:
    """Return rows and columns of a published evaluation crop: "none", "garg", "eigen" or "nyu".

    "garg" and "eigen" are the KITTI crops, given as shares of the size (cut down to whole pixels); "nyu" is for
    480x640.
    """
    if name == "none":
        return slice(0, height), slice(0, width)
    if name in _CROP_SHARES:
        top, bottom, left, right = _CROP_SHARES[name]
        return slice(int(top * height), int(bottom * height)), slice(int(left * width), int(right * width))
    if name == "nyu":
        if (height, width) != _NYU_SIZE:
            raise DataError(f"the nyu crop is for 480x640 images, this one is {height}x{width}")
        return _NYU_ROWS, _NYU_COLUMNS
    raise DataError(f"no crop is called {name!r}; known: {', '.join(CROPS)}")


def crop_mask(name: str, height: int, width: int) -> Mask:
    """Return the (H, W) bool mask of :func:`crop_window`."""
    mask = np.zeros((height, width), bool)
    mask[crop_window(name, height, width)] = True
    return mask


def score_frame(
    predicted_m: npt.NDArray[np.float32],
    truth_m: npt.NDArray[np.float32],
    *,
    cap_m: float,
    d_min_m: float = D_MIN_M,
    crop: str = "none",
) -> dict[str, float] | None:
    """Return all metrics of one image, or None where no true pixel is valid.

    Args:
        predicted_m: (H, W) metres; clamped to [d_min_m, cap_m], NaN becomes d_min_m and Inf cap_m.
        truth_m: (H, W) metres; valid are finite values with d_min_m < d < cap_m.
        cap_m: largest depth that is scored.
        d_min_m: smallest depth that is scored.
        crop: evaluation crop, see :func:`crop_mask`.
    """
    if predicted_m.shape != truth_m.shape:
        raise DataError(f"prediction is {predicted_m.shape} and truth {truth_m.shape}; scores need equal sizes")
    with np.errstate(invalid="ignore"):
        valid = np.isfinite(truth_m) & (truth_m > d_min_m) & (truth_m < cap_m)
    valid &= crop_mask(crop, *truth_m.shape)
    if not valid.any():
        return None
    raw = np.nan_to_num(predicted_m[valid].astype(np.float64), nan=d_min_m, posinf=cap_m, neginf=d_min_m)
    return _pixel_metrics(np.clip(raw, d_min_m, cap_m), truth_m[valid].astype(np.float64))


def _pixel_metrics(predicted: Pixels, truth: Pixels) -> dict[str, float]:
    """Return all metrics of valid pixels, (N,) metres each."""
    difference = predicted - truth
    error = np.log(predicted) - np.log(truth)
    ratio = np.maximum(predicted / truth, truth / predicted)
    return {
        "abs_rel": float(np.mean(np.abs(difference) / truth)),
        "sq_rel": float(np.mean(difference**2 / truth)),
        "rmse_m": float(np.sqrt(np.mean(difference**2))),
        "rmse_log": float(np.sqrt(np.mean(error**2))),
        "log10": float(np.mean(np.abs(np.log10(predicted) - np.log10(truth)))),
        "silog": float(100.0 * np.sqrt(max(np.mean(error**2) - np.mean(error) ** 2, 0.0))),
        "delta1": float(np.mean(ratio < 1.25)),
        "delta2": float(np.mean(ratio < 1.25**2)),
        "delta3": float(np.mean(ratio < 1.25**3)),
    }


def mean_metrics(images: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the images of a sequence (or, macro, over sequences)."""
    if not images:
        raise DataError("no scored image; nothing to average")
    return {name: float(np.mean([image[name] for image in images])) for name in images[0]}


def micro_mean(sequences: Iterable[Sequence[Mapping[str, float]]]) -> dict[str, float]:
    """Return the mean of each metric over all images of all sequences."""
    return mean_metrics([image for sequence in sequences for image in sequence])
