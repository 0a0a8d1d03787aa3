"""Robust: any averaging strategy, with a rule in place of its mean that some robots cannot bend whatever they send.

The rule works among the robots that share a model (the members of a cluster) and, with masks, among those that share a
tensor; a tensor that nobody shares stays as it was. Each robot counts once, since a robot may claim any number of
samples. What robots start from, their training and the choice of models are the inner strategy's:
``{name: robust, options: {rule: median, inner: fedepth}}``.

- ``median``: of each entry (Yin et al. 2018). Holds while fewer than half of the members attack.
- ``trimmed_mean``: of each entry, without the ``attackers`` largest and smallest (or a share ``trim`` of the members).
- ``krum``: the one update whose nearest others are nearest (Blanchard et al. 2017); ``multi_krum``: the mean of the
  ``n - attackers - 2`` best. They need ``n >= 2 attackers + 3`` members.
- ``bulyan``: Krum again and again, then the mean of each entry's values nearest to their median (El Mhamdi et al.
  2018). It needs ``n >= 4 attackers + 3``.
- ``clip``: a mean of updates that are shortened to ``max_norm``, or to the round's median length (Sun et al. 2019).

Where a model has too few updates for its rule, the median takes its place while more than twice ``attackers`` came;
with fewer no rule could hold and the model stays as it was. A warning names such models. A fleet that starts with too
few robots for the rule is refused. Integers are treated as ever: of counters the largest of the members' that count.
"""

import math
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from fed_core.config import check, option
from fed_core.errors import ConfigError
from fed_core.masks import exact_share
from fed_core.strategies.averaging import Choosing, Combine, Floats, Row, linear
from fed_core.strategies.base import Aggregate, ServerState, Update, in_order, strategies
from fed_core.strategies.report import warn
from fed_core.strategies.robust_rules import NearTheMedian, TrimmedMean, bulyan, krum, median
from fed_core.strategies.walks import Scaled, norms, squared_distances
from fed_core.strategies.wrapper import Wrapper
from fed_core.types import Json

RULES = ("median", "trimmed_mean", "krum", "multi_krum", "bulyan", "clip")
#: Rules that look at whole updates, and need of their own number of attackers.
_BY_DISTANCE = ("krum", "multi_krum", "bulyan")

#: By model: the fewest updates that came for a tensor, and how many tensors had too few.
Few: TypeAlias = dict[str, tuple[int, int]]


@strategies.register("robust")
@dataclass(frozen=True)
class Robust(Wrapper):
    """Keys and memory are the inner strategy's."""

    paper: ClassVar[str] = (
        "Blanchard et al. 2017, arXiv:1703.02757; Yin et al. 2018, arXiv:1803.01498; El Mhamdi et al. 2018, "
        "arXiv:1802.07927; Sun et al. 2019, arXiv:1911.07963"
    )

    rule: str = option("median", help="what takes the place of the mean", choices=RULES)
    attackers: int = option(
        1, help="members of a model that may send anything; trimmed_mean, krum, multi_krum, bulyan", unit="count", low=0
    )
    trim: float | None = option(
        None, help="trimmed_mean: share of the members cut off at each end, rounded up; none = attackers", low=0.0
    )
    max_norm: float | None = option(
        None, help="clip: longest an update may be (L2); none = the median of the round's", low=0.0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self)
        if self.trim is not None and (self.rule != "trimmed_mean" or self.trim >= 0.5):
            raise ConfigError(f"robust: trim is {self.trim:g} with rule {self.rule}; "
                              "it belongs to trimmed_mean and leaves nothing from 0.5 on")  # fmt: skip
        if self.max_norm is not None and self.rule != "clip":
            raise ConfigError(f"robust: max_norm belongs to the rule clip, but the rule is {self.rule}")
        if not self._strategy.combines:
            text = f"robust cannot guard {self.inner}: not all that its robots send goes through the rule"
            raise ConfigError(f"{text}; take fedavg, fedprox, fedbn, fedrep, fedcka, fedepth or another that averages")
        object.__setattr__(self, "combines", False)  # a second rule around it would never be asked

    def needs(self) -> int:
        """Return the fewest members that the rule works with."""
        if self.rule in _BY_DISTANCE:
            return (4 if self.rule == "bulyan" else 2) * self.attackers + 3
        return 2 * self.attackers + 1 if self.rule == "trimmed_mean" and self.trim is None else 1

    def begin(self, state: ServerState) -> Aggregate:
        """Ask the inner strategy, unless the fleet is too small for the rule.

        Raises:
            ConfigError: it is.
        """
        if len(state.robots) < self.needs():
            text = f"robust: rule {self.rule} with attackers {self.attackers} needs {self.needs()} robots"
            raise ConfigError(f"{text}, but {len(state.robots)} registered; lower attackers, take median, "
                              "or let the round wait for more robots")  # fmt: skip
        return super().begin(state)

    def aggregate(self, updates: Sequence[Update], state: ServerState) -> Aggregate:
        """Return the inner strategy's outcome, with the rule in place of its mean."""
        ordered = in_order(updates)
        log: dict[str, Json] = {"rule": self.rule}
        if self.rule == "clip":
            ordered = self._clipped(ordered, state, log)
        guard = Guard(self, ordered, state)
        outcome = super().aggregate(ordered, replace(state, combine=guard))
        return replace(outcome, rows=_told(outcome, guard, log), log=log)

    def _clipped(self, updates: Sequence[Update], state: ServerState, log: MutableMapping[str, Json]) -> list[Update]:
        lengths = norms(updates, state)
        bound = float(np.median(lengths)) if self.max_norm is None else self.max_norm
        log["norms"] = {u.robot_id: _finite(length) for u, length in zip(updates, lengths, strict=True)}
        log["max_norm"] = _finite(bound)
        return [
            replace(update, weights=Scaled(update, state, bound / float(length))) if length > bound else update
            for update, length in zip(updates, lengths, strict=True)
        ]


class Guard(Choosing):
    """The rule of one round.

    Args:
        options: of the strategy.
        updates: that came, by robot id.
        state: the server's.
    """

    def __init__(self, options: Robust, updates: Sequence[Update], state: ServerState) -> None:
        self._options, self._updates, self._state = options, updates, state
        self._places = {update.robot_id: place for place, update in enumerate(updates)}
        self._distances: Floats | None = None
        self._known: dict[tuple[str, ...], tuple[Floats, Combine]] = {}
        self.chosen: dict[str, set[str]] = {}
        self.by_median: Few = {}
        self.stayed: Few = {}

    def choose(self, keys: Sequence[str], labels: Sequence[str], shares: Floats) -> tuple[Floats, list[Combine]]:
        """Return who counts in each model, and by what rule."""
        out, combines = np.zeros_like(shares), []
        for place, key in enumerate(keys):
            columns = np.flatnonzero(shares[place] > 0)
            members = tuple(labels[column] for column in columns)
            if members not in self._known:
                self._known[members] = self._decide(members)
            weights, combine = self._known[members]
            out[place, columns] = weights
            combines.append(combine)
            self._note(key, members, weights, combine)
        return out, combines

    def _decide(self, members: tuple[str, ...]) -> tuple[Floats, Combine]:
        """Return the shares of the members, zero where one does not count, and the rule."""
        options, count = self._options, len(members)
        uniform = np.full(count, 1.0 / max(count, 1))
        if options.rule in ("median", "clip") or not count:
            return uniform, median if options.rule == "median" else linear
        tolerated = options.attackers
        if options.trim is not None:
            tolerated = math.ceil(exact_share(options.trim, count))
        if count <= 2 * tolerated:
            return np.zeros(count), linear
        if options.rule == "trimmed_mean":
            return uniform, TrimmedMean(tolerated)
        return self._by_distance(members) if count >= options.needs() else (uniform, median)

    def _by_distance(self, members: tuple[str, ...]) -> tuple[Floats, Combine]:
        if self._distances is None:
            self._distances = squared_distances(self._updates, self._state)
        places = [self._places[member] for member in members]
        distances, attackers = self._distances[np.ix_(places, places)], self._options.attackers
        wanted = 1 if self._options.rule == "krum" else len(members) - attackers - 2
        again = self._options.rule == "bulyan"
        best = bulyan(distances, attackers) if again else krum(distances, attackers, wanted)
        weights = np.zeros(len(members))
        weights[best] = 1.0 / len(best)
        return weights, NearTheMedian(attackers) if again else linear

    def _note(self, key: str, members: Sequence[str], weights: Floats, combine: Combine) -> None:
        if not members:
            return
        if not weights.any():
            _count(self.stayed, key, len(members))
        elif self._options.rule in _BY_DISTANCE and combine is median:
            _count(self.by_median, key, len(members))
        elif self._options.rule in _BY_DISTANCE:
            counted = {member for member, weight in zip(members, weights, strict=True) if weight > 0}
            self.chosen.setdefault(key, set()).update(counted)

    def warning(self) -> str:
        """Return the line that tells which models had too few updates for the rule; "" where none had."""
        parts = []
        if self.by_median:
            parts.append(f"the median took its place for {_counted(self.by_median)}")
        if self.stayed:
            parts.append(f"no rule could hold for {_counted(self.stayed)}, which stayed as before")
        need, attackers = self._options.needs(), self._options.attackers
        told = f"robust: too few updates for {self._options.rule}, which needs {need} against {attackers} attackers"
        if self._options.trim is not None:
            told = f"robust: too few updates for {self._options.rule} with trim {self._options.trim:g}"
        return f"{told}: {'; '.join(parts)}" if parts else ""


def _count(few: Few, key: str, updates: int) -> None:
    fewest, tensors = few.get(key, (updates, 0))
    few[key] = (min(fewest, updates), tensors + 1)


def _counted(few: Few) -> str:
    texts = (f"{key} (updates: {updates}, tensors: {tensors})" for key, (updates, tensors) in sorted(few.items()))
    return ", ".join(texts)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _told(outcome: Aggregate, guard: Guard, log: MutableMapping[str, Json]) -> Iterator[Row]:
    """Yield the rows; then fill the log, the inner strategy's figures included."""
    yield from outcome.rows
    log.update(outcome.log)
    if guard.chosen:
        log["chosen"] = {key: [*sorted(robots)] for key, robots in sorted(guard.chosen.items())}
    if guard.warning():
        warn(log, guard.warning())
