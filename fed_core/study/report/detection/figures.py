"""Figures of a run, for one client or the mean of all; scores lie between 0 and 1, shares are in per cent."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fed_core.data.nuscenes.domains import DOMAINS
from fed_core.study.report.results import Cell, Study, number
from fed_core.study.report.statistics import Spread, spread

Reader = Callable[[Cell], float | None]

_LETTERS = {domain: letter for letter, domain in DOMAINS.items()}


def clients_of(study: Study) -> list[str]:
    """Return the clients of the plan, in its order; each is named as its domain."""
    return [str(client.get("name")) for client in study.plan.get("clients") or []]


def letter_of(domain: str) -> str:
    """Return the paper's letter of a domain; another name stays."""
    return _LETTERS.get(domain, domain)


def branch(tree: Any, *names: str) -> Mapping[str, Any]:
    """Return the mapping under these names; empty where anything is missing or no mapping."""
    for name in names:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree if isinstance(tree, Mapping) else {}


def cross(metric: str, client: str, domain: str) -> Reader:
    """Return the reader of a client's last model on a domain; ``metric`` is "nds", "map" or "cap"."""
    return lambda cell: number(branch(cell.result, "matrix", metric, client).get(domain))


def own(metric: str, client: str) -> Reader:
    """Return the reader of a client's last model on its own domain."""
    return cross(metric, client, client)


def macro(name: str) -> Reader:
    """Return the reader of a mean over the clients; "nds", "map" and "cap" are weighted by test scenes."""
    return lambda cell: number(branch(cell.result, "macro").get(name))


def plain(metric: str) -> Reader:
    """Return the reader of the unweighted mean over the clients on their own domains."""
    return lambda cell: mean_of(own(metric, client)(cell) for client in branch(cell.result, "matrix", metric))


def personal(name: str, scale: float = 1.0) -> Reader:
    """Return the reader of "units", "entries" or "share" that stays with a client in the end, mean over the clients."""

    def read(cell: Cell) -> float | None:
        clients = branch(cell.result, "personal")
        found = mean_of(number(branch(clients, client).get(name)) for client in clients)
        return None if found is None else scale * found

    return read


def told(cell: Cell, name: str) -> list[tuple[int, str, float]]:
    """Return (round, client, value) of a figure that robots send."""
    rows = ((int(row["round"]), branch(row, "told", name)) for row in cell.rounds)
    return [
        (turn, client, value)
        for turn, clients in rows
        for client, found in clients.items()
        if (value := number(found)) is not None
    ]


def told_curve(cell: Cell, name: str, scale: float = 1.0) -> list[tuple[int, float]]:
    """Return (round, mean over the clients) of a figure that robots send."""
    by_round: dict[int, list[float]] = {}
    for turn, _, value in told(cell, name):
        by_round.setdefault(turn, []).append(scale * value)
    return [(turn, sum(values) / len(values)) for turn, values in by_round.items()]


def last_told(cell: Cell, name: str) -> float | None:
    """Return the mean over the clients in the last round in which any robot sent the figure."""
    curve = told_curve(cell, name)
    return curve[-1][1] if curve else None


def above_local(study: Study, model: str, label: str) -> dict[int, float]:
    """Return, by seed, how many clients are better on their own domain than those that train alone."""
    counts: dict[int, float] = {}
    for seed, differences in against_local(study, model, label).items():
        counts[seed] = float(sum(value > 0 for value in differences))
    return counts


def against_local(study: Study, model: str, label: str) -> dict[int, list[float]]:
    """Return NDS above own-domain training of every client, for seeds in which all clients of both have a figure."""
    clients = clients_of(study)
    found: dict[int, list[float]] = {}
    alone = {cell.seed: cell for cell in study.of(model, "local")}
    for cell in study.of(model, label):
        if cell.seed in alone:
            pairs = [(own("nds", client)(cell), own("nds", client)(alone[cell.seed])) for client in clients]
            values = [ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None]
            if values and len(values) == len(clients):
                found[cell.seed] = values
    return found


def scenes_of(study: Study, domain: str) -> int | None:
    """Return the test scenes of a domain, by the first run that knows."""
    for cell in study.cells.values():
        value = number(branch(cell.result, "domains", domain).get("scenes"))
        if value is not None:
            return int(value)
    return None


def spreads(study: Study, model: str, labels: Iterable[str], get: Reader) -> list[Spread]:
    """Return mean and deviation over the seeds of every label."""
    return [spread(list(study.values(model, label, get).values())) for label in labels]


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are there; None without any."""
    there = list(_there(values))
    return sum(there) / len(there) if there else None


def _there(values: Iterable[float | None]) -> Iterator[float]:
    return (value for value in values if value is not None)
