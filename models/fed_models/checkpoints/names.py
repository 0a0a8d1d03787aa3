"""How the names of a published network map to ours."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NameMap:
    """Names without a common prefix such as ``module.``; a module stands for all its tensors.

    Attributes:
        modules: published module to our module.
        splits: published module to our modules, which share its rows evenly and in this order.
        tensors: published tensor outside of those modules to our tensor.
        folds: published tensor to ours that it is subtracted from (a bias in front of a batch norm moves its mean).
        skips: published tensor, or last part of its name, to why we do without it.
    """

    modules: dict[str, str] = field(default_factory=dict)
    splits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    folds: dict[str, str] = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)

    def __or__(self, other: "NameMap") -> "NameMap":
        """Return both together."""
        return NameMap(
            self.modules | other.modules,
            self.splits | other.splits,
            self.tensors | other.tensors,
            self.folds | other.folds,
            self.skips | other.skips,
        )


def under(published: str, ours: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return pairs of names with a prefix each: (a, b) to {published + a: ours + b}."""
    return {published + a: ours + b for a, b in pairs}


#: Last parts of names of what both sides make themselves.
CONSTANTS = {
    "relative_position_index": "constant, follows from the window",
    "attn_mask": "constant, follows from the window",
    "_dct_mtx": "constant, follows from the block",
}
