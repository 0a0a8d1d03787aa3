"""Every kind of descriptor by its name."""

from collections.abc import Callable, Mapping

from fed_core.errors import ConfigError, Refusal, RefusedError
from fed_core.similarity import gaussian, log_gaussian, subspace
from fed_core.similarity.group import Group
from fed_core.types import Array, Descriptor

GROUPS: Mapping[str, type[Group]] = {
    gaussian.KIND: gaussian.Gaussians,
    log_gaussian.KIND: log_gaussian.LogGaussians,
    subspace.KIND: subspace.Subspaces,
}
_DESCRIBE: Mapping[str, Callable[[Array, str], Descriptor]] = {
    gaussian.KIND: gaussian.describe,
    log_gaussian.KIND: log_gaussian.describe,
    subspace.KIND: subspace.describe,
}
_CHECK: Mapping[str, Callable[..., None]] = {
    gaussian.KIND: gaussian.check,
    log_gaussian.KIND: log_gaussian.check,
    subspace.KIND: subspace.check,
}


def describe(kind: str, pooled: Array, encoder: str) -> Descriptor:
    """Return the descriptor of kind ``kind`` of pooled features.

    Args:
        kind: "gaussian", "log_gaussian" or "subspace".
        pooled: (N, D) real, one row per frame, N >= 2.
        encoder: digest of encoder weights, layer, pre-processing and pooling.
    """
    if kind not in _DESCRIBE:
        raise ConfigError(f"no descriptor is called {kind!r}; known: {', '.join(_DESCRIBE)}")
    return _DESCRIBE[kind](pooled, encoder)


def check(descriptor: Descriptor, *, kind: str, encoder: str = "", num_features: int = 0, who: str = "a robot") -> None:
    """Refuse a descriptor from outside that is not of ``kind`` or cannot be compared with the fleet's.

    Args:
        descriptor: what arrived.
        kind: what the strategy needs.
        encoder: the fleet's encoder digest; empty = not known yet.
        num_features: the fleet's D; 0 = not known yet.
        who: sender, for the message.
    """
    if kind not in _CHECK:
        text = f"descriptor of {who} is of kind {descriptor.kind!r}, this run needs {kind!r}"
        raise RefusedError(text, Refusal.WRONG_ENCODER)
    _CHECK[kind](descriptor, encoder=encoder, num_features=num_features, who=who)


def check_like(descriptor: Descriptor, known: Descriptor | None, *, kind: str, who: str) -> None:
    """Refuse a descriptor that is not of ``kind`` or cannot be compared with ``known``, one that passed before.

    Args:
        descriptor: what arrived.
        known: any descriptor of the fleet, None before the first.
        kind: what the strategy needs.
        who: sender, for the message.
    """
    if known is None:
        check(descriptor, kind=kind, who=who)
    else:
        size = next(iter(known.tensors.values())).size  # all tensors of a descriptor are (D,)
        check(descriptor, kind=kind, encoder=known.encoder, num_features=size, who=who)
