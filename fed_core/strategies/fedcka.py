"""FedCKA: layers whose representation drifted from the global one stay personal (arXiv:2610.01510, fedcka spec 2-5).

After its local epochs a robot compares, layer by layer, what its trained model V and the global model G of the round
before make of a few of its own training frames, by linear CKA. No label is looked at. Layers that a rule picks stay on
the robot; the others travel, with one bit per unit, and the aggregator averages each over the robots that share it:

    G_l = sum a_i V_il / sum a_i over the sharers, G_l of the round before where nobody shares;  a_i by samples

A robot goes on with its own tensors where they are personal and with G's elsewhere. It needs the whole G for the next
comparison, so what comes down is always a full model. BatchNorm statistics take part; integer tensors stay local. A
newcomer, and any robot before the first masked round, takes all of G.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fed_core.config import check, option
from fed_core.errors import ConfigError, StrategyError
from fed_core.masks import DIVISIONS, FITS, Bits, Division, Floats, MaskRule, Percentage, Threshold, divide
from fed_core.similarity.cka import BIASED, ESTIMATORS, random_baseline
from fed_core.strategies.averaging import Row
from fed_core.strategies.base import (
    GLOBAL,
    Aggregate,
    LocalResult,
    LocalRule,
    LocalState,
    RobotInfo,
    RobotPlan,
    ServerState,
    Strategy,
    Update,
    mean_rows,
    strategies,
)
from fed_core.strategies.local_sim import LocalSim
from fed_core.types import Array, Json, Memory, ModelSignature

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fed_core.training.probe import LayerScore

#: Names of a robot's memory.
_PERSONAL, _MASK, _SMOOTHED = "personal", "mask", "smoothed"
#: Thresholds of the paper; for each the log tells how many layers it would pick.
GRID = (0.05, 0.25, 0.5, 0.75)
ROUND = "round"


@strategies.register("fedcka")
@dataclass(frozen=True)
class FedCKA(Strategy):
    """Key "global" holds the whole model; it is composed layer by layer and nobody trains it as a whole."""

    paper: ClassVar[str] = "FedCKA 2026, arXiv:2610.01510"
    combines: ClassVar[bool] = True

    rule: str = option("threshold", help="how layers are picked by score", choices=("threshold", "percentage"))
    tau: float = option(0.5, help="threshold: layers with a CKA below it are personal", low=0.0, high=1.0)
    rho: float = option(0.1, help="percentage: share of the entries that ends up personal", low=0.0, high=1.0)
    layers: str = option("owner", help="what a layer is", choices=DIVISIONS)
    estimator: str = option(BIASED, help="estimator of CKA", choices=ESTIMATORS)
    layout: str = option("features", help="what a feature of an output is", choices=("features", "released"))
    frames: int = option(10, help="own training frames that are compared", unit="count", low=1, high=10_000)
    start_round: int = option(
        0, help="first masked round; 0 = 2 with threshold, 11 with percentage", unit="count", low=0
    )
    steps: int = option(20, help="percentage: masked rounds that rho is spread over", unit="count", low=1, high=10_000)
    fit: str = option("whole", help="percentage: take any layer, or skip one far over the budget", choices=FITS)
    hysteresis: float = option(0.0, help="threshold: how far above tau a layer is shared again", low=0.0, high=1.0)
    smoothing: float = option(0.0, help="weight of the rounds before in a moving mean of scores", low=0.0, high=0.999)
    noise_floor: bool = option(False, help="compare scores with those of the global model under its own dropout")
    local_sim: bool = option(False, help="damp the steps of shared entries once there is a mask (LocalSim)")
    damping: float = option(0.01, help="local_sim: share of a step that a shared entry takes", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        check(self)
        if self.hysteresis and self.rule != "threshold":
            raise ConfigError("fedcka: hysteresis belongs to the rule threshold; a percentage only ever grows")

    def begin(self, state: ServerState) -> Aggregate:
        """Start from the initial model; a network that cannot be divided so is refused here."""
        self.division(state.signature)
        return Aggregate(rows=(), plans=self._plans(state), models=(GLOBAL,), kept=(GLOBAL,))

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the mean of each unit over the robots that share it."""
        rows = _whole(mean_rows(updates, state), state)
        log = self._log(updates, self.division(state.signature))
        return Aggregate(rows=rows, plans=self._plans(state), models=(GLOBAL,), memory=state.memory, log=log)

    def join(self, robot: RobotInfo, state: ServerState) -> tuple[RobotPlan, Memory]:
        """Start a newcomer from the whole global model."""
        return self._plan(state), state.memory

    def units(self, signature: ModelSignature) -> tuple[tuple[str, ...], ...]:
        """Return the units, one bit each."""
        return self.division(signature).units

    def uploads(self, signature: ModelSignature, mask: Array | None = None) -> frozenset[str]:
        """Return the floating tensors of the shared units, and those of no unit."""
        division = self.division(signature)
        count = len(division.units)
        if mask is None:
            mask = np.ones(count, np.bool_)
        if mask.shape != (count,) or mask.dtype != np.bool_:
            text = f"mask is {mask.dtype} {mask.shape}; expected bool ({count},), one bit per unit"
            raise StrategyError(f"{text}; it is for another model or another option layers")
        return frozenset(division.tensors(mask)) | frozenset(division.unscored)

    def merge(self, name: str, own: Array | None, loaded: Array | None, memory: Memory) -> Array:
        """Return the robot's own tensor where it is personal or an integer, else the global one."""
        kept: Mapping[str, Json] = memory.values
        personal = kept.get(_PERSONAL)
        mine = isinstance(personal, list) and name in personal
        if own is not None and (mine or not np.issubdtype(own.dtype, np.floating)):
            return own
        return super().merge(name, own, loaded, memory)

    def local_rule(self) -> LocalRule:
        """Return the comparison after training."""
        return Comparing(self)

    def division(self, signature: ModelSignature) -> Division:
        """Return units and layers of a network."""
        return divide(signature, self.layers)

    def mask_rule(self) -> MaskRule:
        """Return the rule that the options name."""
        if self.rule == "threshold":
            high = self.tau + self.hysteresis if self.hysteresis else None
            return Threshold(self.tau, high, self.start_round or 2)
        return Percentage(self.rho, self.start_round or 11, self.steps, self.fit)

    def _plans(self, state: ServerState) -> dict[str, RobotPlan]:
        return {robot_id: self._plan(state) for robot_id in state.robots}

    def _plan(self, state: ServerState) -> RobotPlan:
        return RobotPlan((GLOBAL,), (GLOBAL,), {ROUND: state.round + 1})

    def _log(self, updates: Sequence[Update], division: Division) -> dict[str, Json]:
        """Return who shares what: the share of P that is personal by robot, and the units that nobody shares."""
        everything = np.ones(len(division.units), np.bool_)
        shared = {u.robot_id: everything if u.mask is None else u.mask for u in updates}
        ratios: dict[str, Json] = {robot_id: division.ratio(~mask) for robot_id, mask in sorted(shared.items())}
        sharers = np.sum(list(shared.values()), axis=0) if shared else everything
        alone: list[Json] = [name for name, count in zip(division.names, sharers, strict=True) if not count]
        return {"personal_ratio": ratios, "shared_by_nobody": alone}


def _whole(rows: Iterator[Row], state: ServerState) -> Iterator[Row]:
    """Yield every tensor of the global model; what no robot sends (integers) goes on as it was."""
    sent = dict.fromkeys(spec.name for spec in state.signature.tensors if spec.is_floating)
    old = state.blobs[GLOBAL]
    for name, row in rows:
        yield name, row if name in sent else {GLOBAL: old[name]}


class Comparing(LocalRule):
    """Scores the layers after training, and picks those that stay.

    Args:
        options: of the strategy.
    """

    def __init__(self, options: FedCKA) -> None:
        self._options = options
        self._rule = options.mask_rule()
        self._local_sim = LocalSim(options.damping)

    def begin(self, state: LocalState) -> None:
        """Take up the mask of the round before for what damps; without one every step is taken whole."""
        self._local_sim.begin(_own(state) if self._options.local_sim and _MASK in state.memory.tensors else None)

    def correct_gradient(self, state: LocalState) -> None:
        """Write down where the step begins."""
        self._local_sim.before_step(state.model)

    def after_step(self, state: LocalState) -> None:
        """Take back what is too much of the step of shared entries."""
        self._local_sim.after_step(state.model)

    def finish(self, state: LocalState) -> LocalResult:
        """Return the mask, the scores, and what is remembered for the next round."""
        number = state.values.get(ROUND)
        division = self._options.division(state.signature)
        if not isinstance(number, int) or number < self._rule.first_round():
            return LocalResult()
        personal = _last_mask(state.memory, division)
        scalars: dict[str, float] = {}
        smoothed = state.memory.tensors.get(_SMOOTHED)
        if self._rule.wants_scores(division, personal):
            start_s = time.monotonic()
            scores, scalars = self._score(state, division)
            smoothed = self._smooth(scores, smoothed)
            personal = self._rule.choose(smoothed, division, personal)
            scalars |= _readings(smoothed, self._options.tau)
            scalars["probe_seconds"] = time.monotonic() - start_s
        scalars |= {"personal_ratio": division.ratio(personal), "personal_units": float(personal.sum())}
        return LocalResult(scalars=scalars, mask=~personal, memory=_remember(personal, smoothed, division))

    def _score(self, state: LocalState, division: Division) -> tuple[Floats, dict[str, float]]:
        """Return (L,) scores and the figures that travel."""
        from fed_core.training.mapped import mapped_copy
        from fed_core.training.probe import CkaProbe, ProbeMemory

        names = [layer.name for layer in division.layers]
        memory = ProbeMemory(state.model)
        reference = mapped_copy(state.model, state.extras[GLOBAL])
        memory.hold(reference)
        options = self._options

        def probe(a: "nn.Module", b: "nn.Module", settled: bool = True) -> "dict[str, LayerScore]":
            frames = state.batches(options.frames, 1)
            how = options.estimator, state.forward, options.layout, settled, memory.tell
            return CkaProbe(a, b, frames, names, *how).scores()

        found = probe(reference, state.model)
        scores = np.array([found[name].mean for name in names])
        figures = {f"cka/{name}": score.mean for name, score in found.items() if math.isfinite(score.mean)}
        chance = {name: random_baseline(score.n, score.p, score.p) for name, score in found.items()}
        figures |= {f"chance/{name}": value for name, value in chance.items() if math.isfinite(value)}
        figures["unscored_layers"] = float(np.isnan(scores).sum())
        figures["probe_frames"] = float(max((len(score.per_frame) for score in found.values()), default=0))
        figures["probe_extra_bytes"] = float(memory.extra_bytes())
        if options.noise_floor:
            floors = probe(reference, _with_dropout(reference), settled=False)
            floor = np.array([floors[name].mean for name in names])
            scores = scores / np.where(floor > 0.0, floor, np.nan)
        return scores, figures

    def _smooth(self, scores: Floats, before: Array | None) -> Floats:
        """Return the moving mean; a layer without a score keeps the one it had."""
        weight = self._options.smoothing
        if not weight or before is None or before.shape != scores.shape:
            return scores
        old = np.where(np.isnan(before), scores, before)
        return np.where(np.isnan(scores), old, weight * old + (1.0 - weight) * scores)


def _with_dropout(reference: "nn.Module") -> "nn.Module":
    """Return a copy in eval mode but for its dropout."""
    import copy

    noisy = copy.deepcopy(reference).eval()
    for module in noisy.modules():
        if "dropout" in type(module).__name__.lower():
            module.train()
    return noisy


def _own(state: LocalState) -> "dict[str, Tensor]":
    """Return a mask of one element for each parameter that was personal in the round before."""
    import torch

    kept = state.memory.values.get(_PERSONAL)
    names = set(kept) if isinstance(kept, list) else set()
    parameters = state.model.named_parameters()
    return {name: torch.ones(1, dtype=torch.bool, device=p.device) for name, p in parameters if name in names}


def _last_mask(memory: Memory, division: Division) -> Bits:
    """Return the personal units of the round before; of another division nothing is personal."""
    stored = memory.tensors.get(_MASK)
    if stored is None or stored.shape != (len(division.units),):
        return np.zeros(len(division.units), np.bool_)
    return np.asarray(stored, np.bool_)


def _remember(personal: Bits, smoothed: Array | None, division: Division) -> Memory:
    tensors = {_MASK: personal} | ({} if smoothed is None else {_SMOOTHED: np.asarray(smoothed, np.float64)})
    return Memory(tensors, {_PERSONAL: list(division.tensors(personal))})


def _readings(scores: Floats, tau: float) -> dict[str, float]:
    """Return how many layers each threshold picks, read as a similarity and as a distance (fedcka spec 10, G1)."""
    known = scores[np.isfinite(scores)]
    figures = {}
    for each in sorted({*GRID, tau}):
        figures[f"below_tau/{each:g}"] = float((known < each).sum())
        figures[f"distance_above_tau/{each:g}"] = float((1.0 - known > each).sum())
    return figures
