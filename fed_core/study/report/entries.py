"""Fields of tables that are made of figures over seeds."""

from collections.abc import Mapping, Sequence

from fed_core.study.report.document import Entry
from fed_core.study.report.statistics import Spread, spread


def marked(found: Sequence[Spread], digits: int, *, less_is_better: bool) -> list[Entry]:
    """Return the texts; the best mean, as it is printed, is strong (all of them where several are equal)."""
    means = [s.rounded(digits) for s in found if s.count]
    best = (min(means) if less_is_better else max(means)) if len(means) > 1 else None
    return [Entry(s.text(digits), bool(s.count) and s.rounded(digits) == best) for s in found]


def difference(by_seed: Mapping[int, float], digits: int = 3, *, less_is_better: bool) -> tuple[Entry, Entry]:
    """Return the mean difference with its sign, and in how many seeds it is better; dashes without a seed."""
    if not by_seed:
        return Entry("–"), Entry("–")
    found = spread(list(by_seed.values()))
    sign = "+" if found.rounded(digits) > 0 else ""
    better = sum(value < 0 if less_is_better else value > 0 for value in by_seed.values())
    return Entry(sign + found.text(digits)), Entry(f"{better} of {found.count}")
