"""What must hold for tensors from another machine before anybody computes with them."""

from collections.abc import Sequence

import numpy as np

from fed_core.errors import Refusal, RefusedError
from fed_core.types import Array, Tensors, TensorSpec
from fed_core.wire.writer import spec_of, words

_BLOCK = 1 << 18  # values looked at in one go


def check_specs(tensors: Tensors, expected: Sequence[TensorSpec]) -> None:
    """Compare names, shapes and dtypes with ``expected``.

    Raises:
        RefusedError: WRONG_TENSORS, with the name of the first tensor that differs.
    """
    wanted = {spec.name: spec for spec in expected}
    for name in wanted:
        if name not in tensors:
            raise RefusedError(f"tensor {name!r} is missing", Refusal.WRONG_TENSORS)
    for name in tensors:
        if name not in wanted:
            raise RefusedError(f"tensor {name!r} is not part of what was agreed", Refusal.WRONG_TENSORS)
    for name, want in wanted.items():
        got = spec_of(name, tensors[name])
        if got.shape != want.shape or got.dtype != want.dtype:
            raise RefusedError(f"tensor {words(got)} should be {words(want)}", Refusal.WRONG_TENSORS)


def check_update(
    tensors: Tensors,
    expected: Sequence[TensorSpec],
    *,
    max_norm: float | None = None,
    reference: Tensors | None = None,
) -> None:
    """Refuse tensors that must not reach an aggregation; memory stays bounded by a block of 2 MiB.

    Args:
        tensors: what a robot sent.
        expected: what it has to send.
        max_norm: bound on the L2 norm over all floating tensors together [1]; None = no bound.
        reference: where the bound counts from (the weights the robot started from); None = zero.

    Raises:
        RefusedError: WRONG_TENSORS, NOT_FINITE, TOO_LARGE or BROKEN_BLOB, with the tensor's name.
    """
    check_specs(tensors, expected)
    total = 0.0
    for spec in expected:
        flat = tensors[spec.name].reshape(-1)
        if spec.dtype == "bool":
            _check_bools(spec.name, flat)
        if not spec.dtype.startswith("float"):
            continue
        base = None if reference is None or max_norm is None else reference[spec.name].reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            if not np.isfinite(block).all():
                where = start + int(np.flatnonzero(~np.isfinite(block))[0])
                value = flat[where]
                raise RefusedError(f"tensor {spec.name!r} holds {value} at element {where}", Refusal.NOT_FINITE)
            if max_norm is not None:
                total += _square_sum(block, None if base is None else base[start : start + _BLOCK])
    if max_norm is not None and not total**0.5 <= max_norm:
        raise RefusedError(f"the update's norm is {total**0.5:.6g}, allowed are {max_norm:.6g}", Refusal.TOO_LARGE)


def _square_sum(block: Array, base: Array | None) -> float:
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow becomes inf, which no bound allows
        wide = block.astype(np.float64)
        if base is not None:
            wide -= base
        return float(np.dot(wide, wide))


def _check_bools(name: str, flat: Array) -> None:
    raw = flat.view(np.uint8)
    for start in range(0, raw.size, _BLOCK):
        if (raw[start : start + _BLOCK] > 1).any():
            raise RefusedError(f"tensor {name!r} holds a bool that is neither 0 nor 1", Refusal.BROKEN_BLOB)
