"""Boxes as the ten numbers that a detector regresses, and back (fedcka spec 8.2, decoding order of our own)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fed_core.types import DETECTION_CLASSES, Boxes3D

#: x, y, z, log length, log width, log height, sin yaw, cos yaw, velocity along x and y.
CODE_SIZE = 10
#: Weights of the ten numbers in matching and loss.
CODE_WEIGHTS = (2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2)
#: Best pairs of query and class of a scan that are handed on.
MOST_BOXES = 300
#: Centres farther from the vehicle than this along x, y and z [m] are no finds.
FARTHEST_M = (61.2, 61.2, 10.0)
#: Least side of a box [m]; a box without size has no logarithm.
_THINNEST_M = 1e-3


class Truth(NamedTuple):
    """True boxes of one scan.

    Attributes:
        labels: (M,) int64.
        codes: (M, 10) float32, velocities NaN where unknown.
    """

    labels: Tensor
    codes: Tensor


def encode_boxes(boxes: Boxes3D, device: torch.device) -> Truth:
    """Return the boxes of a scan as labels and codes."""
    sizes = np.log(np.maximum(boxes.sizes, _THINNEST_M))
    turned = np.stack((np.sin(boxes.yaws), np.cos(boxes.yaws)), 1)
    codes = np.concatenate((boxes.centres, sizes, turned, boxes.velocities), 1).astype(np.float32)
    return Truth(torch.from_numpy(boxes.labels.astype(np.int64)).to(device), torch.from_numpy(codes).to(device))


def decode_boxes(logits: Tensor, codes: Tensor) -> list[Boxes3D]:
    """Return the best boxes of each scan, best first; there is no suppression of neighbours.

    Args:
        logits: (B, Q, 10) float, one per class.
        codes: (B, Q, 10) float.
    """
    return [_decoded(*pair) for pair in zip(logits.detach().float(), codes.detach().float(), strict=True)]


def _decoded(logits: Tensor, codes: Tensor) -> Boxes3D:
    classes = len(DETECTION_CLASSES)
    scores, place = logits.sigmoid().flatten().topk(min(MOST_BOXES, logits.numel()))
    chosen = codes[place // classes].double().cpu().numpy()
    boxes = Boxes3D(
        centres=chosen[:, :3],
        sizes=np.exp(chosen[:, 3:6]),
        yaws=np.arctan2(chosen[:, 6], chosen[:, 7]),
        velocities=chosen[:, 8:10],
        labels=(place % classes).cpu().numpy(),
        scores=scores.double().cpu().numpy(),
        num_points=np.zeros(len(place), np.int64),
    )
    return boxes.take((np.abs(boxes.centres) <= FARTHEST_M).all(1))


def encode_all(boxes: Sequence[Boxes3D], device: torch.device) -> list[Truth]:
    """Return the boxes of every scan as labels and codes."""
    return [encode_boxes(each, device) for each in boxes]
