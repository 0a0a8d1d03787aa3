"""Layers by rounds: what was shared, and how alike a robot's layers and the global ones were (CKA)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fed_cli.reports.history import History, Update
from fed_cli.reports.plots import Grid, Number, Scale, fields
from fed_cli.reports.tables import evenly, figure, left_out, mean
from fed_core.study.report.document import Block, Chart, Table, rows_of

#: Most robots with a picture of their own, most layers in one, and most rounds.
_MOST_ROBOTS, _MOST_LAYERS, _MOST_ROUNDS = 8, 250, 30
ALL = "mean of all robots"

Read = Callable[[Update], Sequence[Number] | None]


@dataclass(frozen=True)
class Layered:
    """A figure of every layer, robot and round.

    Attributes:
        names: of the layers, in network order.
        rounds: that have it.
        robots: that have it.
        read: (layers,) of a robot and a round; None without it.
    """

    names: Sequence[str]
    rounds: Sequence[int]
    robots: Sequence[str]
    read: Callable[[int, str], Sequence[Number] | None]


def layer_blocks(history: History) -> list[Block]:
    """Return the maps of masks and of CKA; nothing of a method that has none."""
    found: list[Block] = []
    units = max((len(update.mask) for update in history.updates.values() if update.mask), default=0)
    if units:
        names = history.units if len(history.units) == units else [f"unit {place}" for place in range(units)]
        masks = _layered(history, names, lambda u: None if u.mask is None or len(u.mask) != units else u.mask)
        found.append(mask_chart(masks, history.name))
    names = list(dict.fromkeys(name for update in history.updates.values() for name in update.scores))
    if names:

        def read(update: Update) -> Sequence[Number] | None:
            return [update.scores.get(name) for name in names] if update.scores else None

        found.append(cka_chart(_layered(history, names, read), history.name))
    return found


def mask_chart(found: Layered, name: str) -> Chart:
    """Return layers by rounds: 1 = shared, 0 = it stays on the robot."""
    chart = _chart(found, "shared", 0.0)
    return Chart(
        chart.figure,
        f"Share of the robots of {name} that shared each of {len(found.names)} layers, by round",
        "Share of the robots that sent a layer (light) or kept it to themselves (dark); of one robot: sent or kept. "
        "Layers in the order of the network. Rounds in which everything was sent are left out." + chart.more,
        Table("Shared layers by round", chart.header, rows_of(*chart.rows), folded=True),
    )


def cka_chart(found: Layered, name: str) -> Chart:
    """Return layers by rounds: CKA of the robots' and the global layer."""
    known = [v for n in found.rounds for r in found.robots for v in found.read(n, r) or () if v is not None]
    low = max(0.0, min(0.9, min(known, default=0.0)))
    chart = _chart(found, "CKA", low)
    return Chart(
        chart.figure,
        f"CKA of each of {len(found.names)} layers with the global model in {name}, by round",
        "How alike a trained layer and the global one represent the robots' own frames: 1 (light) = alike. Layers in "
        "the order of the network." + chart.more,
        Table("CKA by layer and round", chart.header, rows_of(*chart.rows), folded=True),
    )


@dataclass(frozen=True)
class _Drawn:
    figure: dict[str, object]
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    more: str


def _chart(found: Layered, unit: str, low: float) -> _Drawn:
    layers = evenly(range(len(found.names)), _MOST_LAYERS)
    rounds = evenly(found.rounds, _MOST_ROUNDS)
    names, columns = [found.names[k] for k in layers], [str(number) for number in rounds]

    def grid(robots: Sequence[str]) -> Grid:
        per_round = [[v for r in robots if (v := found.read(n, r)) is not None] for n in rounds]
        return Grid(names, columns, [[_mean(row[k] for row in rows) for rows in per_round] for k in layers])

    robots = evenly(found.robots, _MOST_ROBOTS)
    every = grid(found.robots)
    grids = {ALL: every, **({robot: grid([robot]) for robot in robots} if len(found.robots) > 1 else {})}
    scaled = {name: (one, Scale(unit, low)) for name, one in grids.items()}
    rows = [(name, *map(figure, row)) for name, row in zip(names, every.values, strict=True)]
    more = left_out(len(robots), len(found.robots), "robots") if len(found.robots) > 1 else ""
    more += left_out(len(layers), len(found.names), "layers") + left_out(len(rounds), len(found.rounds), "rounds")
    header = ("Layer", *(f"round {column}" for column in columns))
    return _Drawn(fields(scaled, x_title="round"), header, rows, more)


def _mean(values: Iterable[Number]) -> Number:
    return mean([value for value in values if value is not None])


def _layered(history: History, names: Sequence[str], read: Read) -> Layered:
    known = {key: row for key, update in history.updates.items() if (row := read(update)) is not None}
    return Layered(
        names,
        sorted({number for number, _ in known}),
        sorted({robot for _, robot in known}),
        lambda number, robot: known.get((number, robot)),
    )
