"""Who learned with whom: a map of robots by rounds, and the size of each cluster."""

from collections.abc import Mapping, Sequence

from fed_cli.reports.history import History, Round
from fed_cli.reports.plots import COLOURS, Grid, groups
from fed_cli.reports.robots import MOST_ROWS
from fed_cli.reports.tables import MISSING, evenly, left_out
from fed_core.study.report.document import Block, Chart, Table, rows_of

#: Most rounds side by side.
_MOST_ROUNDS = 40


def memberships(history: History) -> list[Block]:
    """Return the map of clusters and their sizes; nothing where there were never two."""
    told = [one for one in history.rounds if one.clusters]
    ids = sorted({k for one in told for ks in one.clusters.values() for k in ks})
    if len(ids) < 2:
        return []
    rounds, robots = evenly(told, _MOST_ROUNDS), _ordered(told[-1])
    shown = evenly(robots, MOST_ROWS)
    chart = membership_chart(
        {robot: [one.clusters.get(robot, ()) for one in rounds] for robot in shown},
        [str(one.number) for one in rounds],
        alt=f"Clusters of {len(shown)} robots of {history.name} over {len(rounds)} rounds",
        x_title="after round",
        more=" Round 0 is the start."
        + left_out(len(shown), len(robots), "robots")
        + left_out(len(rounds), len(told), "rounds"),
    )
    sizes = [(str(k), *(str(_size(one, k)) for one in rounds)) for k in ids]
    header = ("Cluster", *(f"after {one.number}" for one in rounds))
    return [chart, Table("Robots in each cluster, by round", header, rows_of(*sizes[:MOST_ROWS]), folded=True)]


def membership_chart(
    found: Mapping[str, Sequence[tuple[int, ...]]], columns: Sequence[str], *, alt: str, x_title: str, more: str
) -> Chart:
    """Return a map of clusters.

    Args:
        found: clusters by robot, for every column.
        columns: names of the columns: rounds, or methods.
        alt: what it shows.
        x_title: what the columns are.
        more: sentences that go with it, too.
    """
    texts = [[" ".join(map(str, ks)) for ks in row] for row in found.values()]
    every = sorted({ks for row in found.values() for ks in row if ks})
    values = [[float(every.index(ks)) if ks else None for ks in row] for row in found.values()]
    grid = Grid(list(found), columns, values, texts)
    rows = [(robot, *(text or MISSING for text in row)) for robot, row in zip(found, texts, strict=True)]
    return Chart(
        groups(grid, x_title=x_title),
        alt,
        "Numbers: the clusters of a robot, of which it may have several. One colour: the same clusters"
        + (f" (of {len(every)} sets; colours come again)." if len(every) > len(COLOURS) else ".")
        + more,
        Table("Who learned with whom", ("Robot", *(f"{x_title} {c}" for c in columns)), rows_of(*rows)),
    )


def _ordered(last: Round) -> list[str]:
    """Return the robots by their clusters, so that those who learn together stand together."""
    return sorted(last.clusters, key=lambda robot: (last.clusters[robot], robot))


def _size(one: Round, cluster: int) -> int:
    return sum(cluster in ks for ks in one.clusters.values())
