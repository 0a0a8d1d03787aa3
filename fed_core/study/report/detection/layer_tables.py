"""Which layers stay personal: by part of the network, by kind of layer, and the single ones; and over the seeds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fed_core.study.report.detection import layers
from fed_core.study.report.detection.claims import agreements, last_masks
from fed_core.study.report.detection.figures import branch, clients_of, letter_of
from fed_core.study.report.detection.layers import Floats, Unit
from fed_core.study.report.detection.methods import headline, name_of
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.results import Cell, Study
from fed_core.study.report.statistics import spread

_SINGLE = 15


def grouped(study: Study, model: str) -> Table | None:
    """Return how much of every part and kind of layer is personal, with CKA beside what chance gives."""
    runs = _runs(study, model)
    if not runs:
        return None
    parts = _groups(runs, lambda unit: layers.part_of(unit.name))
    kinds = _groups(runs, lambda unit: f"kind: {unit.kind}" if unit.kind else "")
    header = ("Layers", "Units", "Of all entries [%]", "Personal, last round [%]", "Personal, masked rounds [%]")
    return Table(
        f"{model}: which layers stay personal with the headline setting",
        (*header, "CKA", "CKA of chance"),
        (*parts, *kinds),
        f"{name_of(runs[0].label)}. Personal: units of all clients, mean over the seeds ± sample standard deviation. "
        "CKA: last compared round, mean over clients and seeds; chance: what random features of the same shape score, "
        "so a CKA near it tells nothing.",
    )


def single(study: Study, model: str) -> Table | None:
    """Return the units that are personal most often, with their rank in network order; None without any."""
    runs = _runs(study, model)
    if not runs:
        return None
    units = layers.units_of(runs[0])
    often = _share_by_unit(runs, lambda cell: list(layers.last_masks(cell).values()))
    always = _share_by_unit(runs, layers.all_masks)
    order = [place for place in np.argsort(-often, kind="stable") if often[place] > 0][:_SINGLE]
    rows = [
        (f"{place + 1}. {units[place].name}", units[place].kind or "–", str(units[place].entries))
        + (f"{100 * often[place]:.0f}", f"{100 * always[place]:.0f}")
        for place in order
    ]
    return Table(
        f"{model}: the layers that are personal most often",
        ("Place in the network, unit", "Kind", "Entries", "Last round [%]", "Masked rounds [%]"),
        tuple(tuple(map(Entry, row)) for row in rows),
        f"Of all clients and seeds; at most {_SINGLE} of {len(units)} units.",
        folded=True,
    )


def stability(study: Study, model: str) -> Table | None:
    """Return how alike the last masks of two seeds are, by client; None with fewer than two."""
    runs = _runs(study, model)
    rows = []
    for client in clients_of(study) if len(runs) > 1 else ():
        ours, chance = (list(found.values()) for found in agreements(runs, client))
        counts = [float(mask.sum()) for mask in last_masks(runs, client)]
        texts = (letter_of(client), spread(counts).short(1), spread(ours).text(2), spread(chance).text(2))
        rows.append(tuple(map(Entry, texts)))
    if not rows:
        return None
    return Table(
        f"{model}: are the masks the same with every seed?",
        ("Client", "Personal units", "Alike (Jaccard)", "By chance"),
        tuple(rows),
        "Last masks of two seeds, all pairs: units personal with both / with either. By chance: as many units each, "
        "spread at random. A dash: nothing is personal.",
    )


def _runs(study: Study, model: str) -> list[Cell]:
    """Return the headline's runs that have the units of the first one, and masks."""
    label = headline(study, model)
    runs = [cell for cell in study.of(model, label) if layers.last_masks(cell)] if label is not None else []
    return [cell for cell in runs if layers.units_of(cell) == layers.units_of(runs[0])]


def _groups(runs: Sequence[Cell], group: Callable[[Unit], str]) -> list[tuple[Entry, ...]]:
    """Return a row for each group of units, in network order; units of the group "" are left out."""
    units = layers.units_of(runs[0])
    total = max(1, sum(unit.entries for unit in units))
    of_layers = _scores(runs, layers.layer_names(runs[0]))
    rows = []
    for name in dict.fromkeys(filter(None, map(group, units))):
        places = [place for place, unit in enumerate(units) if group(unit) == name]
        last = [_share(list(layers.last_masks(cell).values()), places) for cell in runs]
        often = [_share(layers.all_masks(cell), places) for cell in runs]
        entries = 100 * sum(units[place].entries for place in places) / total
        scores = [_mean([found[units[p].name] for p in places if units[p].name in found]) for found in of_layers]
        texts = (str(len(places)), f"{entries:.1f}", spread(last).short(0), spread(often).short(0), *scores)
        rows.append((Entry(name), *map(Entry, texts)))
    return rows


def _share(masks: Sequence[layers.Bits], places: Sequence[int]) -> float:
    """Return the per cent of these units that is personal, over all masks."""
    found = [float(mask[[p for p in places if p < mask.size]].mean()) for mask in masks if mask.size > min(places)]
    return 100.0 * sum(found) / len(found) if found else 0.0


def _scores(runs: Sequence[Cell], names: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Return CKA and chance by layer, mean over clients and seeds, of layers that have one."""
    scores = [by_client(cell, names) for cell in runs]
    chance = [layers.last_scores(cell, names, lambda row: branch(row, "chance")) for cell in runs]
    return _named(names, [row for found in scores for row in found]), _named(names, chance)


def by_client(cell: Cell, names: Sequence[str]) -> list[Floats]:
    """Return (L,) CKA of the last compared round of every client that has any."""

    def reader(client: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        return lambda row: branch(row, "cka", client)

    clients = dict.fromkeys(client for row in cell.rounds for client in branch(row, "cka"))
    return [layers.last_scores(cell, names, reader(client)) for client in clients]


def _named(names: Sequence[str], found: Sequence[Floats]) -> dict[str, float]:
    return {
        name: float(np.mean(there))
        for place, name in enumerate(names)
        if (there := [float(values[place]) for values in found if np.isfinite(values[place])])
    }


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f}" if values else "–"


def _share_by_unit(runs: Sequence[Cell], read: Callable[[Cell], list[layers.Bits]]) -> Floats:
    """Return (U,) how often each unit is personal."""
    masks = [mask for cell in runs for mask in read(cell) if mask.size == len(layers.units_of(cell))]
    return np.asarray(np.mean(np.array(masks, np.float64), axis=0))
