"""Loss S of the bird's eye task (feddwa spec 5 and 8): cross entropy, vehicles heavier, unseen cells left out."""

from torch import Tensor
from torch.nn import functional

from fed_core.errors import DataError

#: Weight of a vehicle's cells, a background cell's being 1: in the paper's maps about one cell in a hundred is one.
VEHICLE_WEIGHT = 75.0
_CLASSES = 2
FACTOR = 2.0


def vehicle_loss(logits: Tensor, mask: Tensor, known: Tensor, vehicle_weight: float = VEHICLE_WEIGHT) -> Tensor:
    """Return ``2 sum(M w l) / sum(M w)`` over all cells of the batch, () float32; 0 where no cell is known.

    ``l`` is the cross entropy of a cell, ``w`` the weight of its true class and ``M`` is 1 where a camera looks (AMCM).

    Args:
        logits: (B, 2, S, S) float, background and vehicle.
        mask: (B, S, S) bool, True where a vehicle is.
        known: (B, S, S) bool.
        vehicle_weight: weight of the class vehicle, that of the background being 1.
    """
    expected = (logits.shape[0], *logits.shape[2:])
    if logits.shape[1] != _CLASSES or not tuple(mask.shape) == tuple(known.shape) == expected:
        shapes = ", ".join(str(tuple(t.shape)) for t in (logits, mask, known))
        raise DataError(f"logits, mask and known cells have shapes {shapes}; expected (B, 2, S, S) and twice (B, S, S)")
    each = functional.cross_entropy(logits.float(), mask.long(), reduction="none")
    weights = (1.0 + (vehicle_weight - 1.0) * mask.float()) * known.float()
    # A sum of weights, where it is not 0, is at least 1.
    return FACTOR * (weights * each).sum() / weights.sum().clamp(min=1.0)
