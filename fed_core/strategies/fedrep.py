"""FedRep: a shared representation below a head of each robot's own (Collins et al. 2021, arXiv:2102.07078).

A robot takes the fleet's representation, fits its head to it with the representation frozen, and then the
representation with the head frozen. What is averaged, by samples, is the representation; a head never leaves its robot.
The network names the head by ``head_modules()``: decoder and last layer of a bird's eye network (feddwa spec 8).

The first ``head_share`` of the round's steps trains the head, the rest the representation, so that a round costs what
it costs with FedAvg. Norm layers of the frozen half keep their running statistics. With ``mode: joint`` nothing is
frozen: both train together in every step, which is FedPer (Arivazhagan et al. 2019, arXiv:1912.00818).
"""

from dataclasses import dataclass
from typing import ClassVar

from fed_core.config import check, option
from fed_core.strategies.base import LocalResult, LocalRule, LocalState, strategies
from fed_core.strategies.personal import PersonalParts
from fed_core.types import ModelSignature

HEAD = "head"


@strategies.register("fedrep")
@dataclass(frozen=True)
class FedRep(PersonalParts):
    """Key "global" holds the representation after the first round."""

    paper: ClassVar[str] = "Collins et al. 2021, arXiv:2102.07078"

    mode: str = option(
        "alternate", help="train head and representation one after the other, or together (FedPer)",
        choices=("alternate", "joint"),
    )  # fmt: skip
    head_share: float = option(0.5, help="alternate: share of a round's steps that trains the head", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        check(self)

    def private_parts(self) -> tuple[str, ...]:
        """Return the names of the parts that stay on the robots."""
        return (HEAD,)

    def local_rule(self) -> LocalRule:
        """Return the two halves of a round; training together needs nothing."""
        return Alternating(self) if self.mode == "alternate" else LocalRule()


class Alternating(LocalRule):
    """Trains the head, then the representation.

    Args:
        options: of the strategy.
    """

    def __init__(self, options: FedRep) -> None:
        self._options = options

    def begin(self, state: LocalState) -> None:
        """Freeze the representation, or the head where no step is left for it."""
        head = self._options.private(state.signature)
        trained = {name: p for name, p in state.model.named_parameters() if p.requires_grad}
        self._halves = {now: [p for name, p in trained.items() if (name in head) is now] for now in (True, False)}
        self._norms = {True: _with_buffers(state.signature, head, inside=True)}
        self._norms[False] = _with_buffers(state.signature, head, inside=False)
        self._switch = round(self._options.head_share * state.num_steps)
        self._train(state)

    def begin_epoch(self, state: LocalState) -> None:
        """Freeze again: the epoch put every module into train mode."""
        self._train(state)

    def after_step(self, state: LocalState) -> None:
        """Change over when the head had its steps."""
        if state.step + 1 == self._switch:
            state.model.train()
            self._train(state, step=state.step + 1)

    def finish(self, state: LocalState) -> LocalResult:
        """Unfreeze everything."""
        for parameter in (*self._halves[True], *self._halves[False]):
            parameter.requires_grad_(True)
        return LocalResult()

    def _train(self, state: LocalState, step: int | None = None) -> None:
        """Freeze the half whose turn it is not, the statistics of its norm layers included."""
        head_now = (state.step if step is None else step) < self._switch
        for is_head, half in self._halves.items():
            for parameter in half:
                parameter.requires_grad_(is_head is head_now)
        for owner in self._norms[not head_now]:
            state.model.get_submodule(owner).eval()


def _with_buffers(signature: ModelSignature, head: frozenset[str], *, inside: bool) -> set[str]:
    """Return the modules with buffers inside the head, or outside it."""
    return {spec.owner for spec in signature.tensors if not spec.trainable and (spec.name in head) is inside}
