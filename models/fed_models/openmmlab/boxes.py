"""Boxes of ours to those of mmdet3d and back.

Both lie in the LiDAR frame with the heading counter-clockwise from +x and sizes along heading, width, height. Ours are
placed by their centre, theirs by the centre of the bottom face.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fed_core.types import Boxes3D

#: Values of a box with a velocity.
WITH_VELOCITY = 9


def to_tensors(boxes: Boxes3D, labels: Sequence[int], values: int) -> tuple[Tensor, Tensor]:
    """Return true boxes as a model of mmdet3d learns them; those of classes that it does not know are left out.

    Args:
        boxes: M boxes.
        labels: our class of each class of the model, -1 for none.
        values: 7, or 9 with the velocity; unknown velocities become 0, as mmdet3d's own readers do.

    Returns:
        (M', 7 or 9) float32 x, y, z of the bottom [m], length, width, height [m], yaw [rad], velocity [m/s]; and
        (M',) int64 classes of the model.
    """
    theirs = {label: index for index, label in reversed(list(enumerate(labels))) if label >= 0}
    kept = boxes.take(np.isin(boxes.labels, list(theirs)))
    bottoms = kept.centres - np.array([0.0, 0.0, 0.5]) * kept.sizes
    parts = [bottoms, kept.sizes, kept.yaws[:, None]]
    if values >= WITH_VELOCITY:
        parts.append(np.nan_to_num(kept.velocities, nan=0.0))
    rows = torch.tensor(np.concatenate(parts, axis=1), dtype=torch.float32)
    return rows, torch.tensor([theirs[int(label)] for label in kept.labels], dtype=torch.int64)


def from_instances(instances: Any, labels: Sequence[int]) -> Boxes3D:
    """Return predicted boxes, best score first; those of classes that we do not have are left out.

    Args:
        instances: ``pred_instances_3d`` of one scan: ``bboxes_3d``, ``scores_3d``, ``labels_3d``.
        labels: our class of each class of the model, -1 for none.
    """
    rows = instances.bboxes_3d.tensor.detach().cpu().double().numpy()
    scores = np.clip(instances.scores_3d.detach().cpu().double().numpy(), 0.0, 1.0)
    ours = np.array([*labels, -1], np.int64)[instances.labels_3d.detach().cpu().numpy().astype(np.int64)]
    order = np.argsort(-scores, kind="stable")
    order = order[ours[order] >= 0]
    rows, count = rows[order], len(order)
    unknown = np.full((count, 2), np.nan)
    return Boxes3D(
        centres=rows[:, :3] + np.array([0.0, 0.0, 0.5]) * rows[:, 3:6],
        sizes=rows[:, 3:6].copy(),
        yaws=rows[:, 6].copy(),
        velocities=rows[:, 7:9].copy() if rows.shape[1] >= WITH_VELOCITY else unknown,
        labels=ours[order],
        scores=scores[order],
        num_points=np.zeros(count, np.int64),
    )
