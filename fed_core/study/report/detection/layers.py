"""Masks and CKA scores of a run, layer by layer, and how alike the masks of several seeds are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.study.report.detection.figures import branch
from fed_core.study.report.results import Cell, number

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Unit:
    """What one bit of a mask switches.

    Attributes:
        name: of the module.
        entries: numbers in its floating tensors.
        kind: "convolution", "linear", "norm", "attention", "other"; "" where the result does not tell.
    """

    name: str
    entries: int
    kind: str


@dataclass(frozen=True)
class History:
    """A client's layers over the rounds of a run.

    Attributes:
        rounds: (T,) numbers of the rounds.
        scores: (L, T) CKA; NaN without a score.
        personal: (L, T) what stays on the robot after the round.
        masked: (T,) whether the round has a mask.
    """

    rounds: list[int]
    scores: Floats
    personal: Bits
    masked: Bits


def units_of(cell: Cell) -> list[Unit]:
    """Return the units of a run's masks, in network order; none where the method has none."""
    found = cell.result.get("units") or []
    return [
        Unit(str(unit.get("name")), int(unit.get("entries") or 0), kind_of(str(unit.get("module") or "")))
        for unit in found
    ]


def kind_of(module: str) -> str:
    """Return the kind of layer of a module's class."""
    lower = module.lower()
    for word, kind in (("norm", "norm"), ("attention", "attention"), ("conv", "convolution"), ("linear", "linear")):
        if word in lower:
            return kind
    return "other" if module else ""


def layer_names(cell: Cell) -> list[str]:
    """Return the layers that CKA scores, in network order."""
    return [str(layer.get("name")) for layer in cell.result.get("layers") or []]


def part_of(name: str) -> str:
    """Return the part of the network that a layer belongs to; a head's parts are told apart."""
    words = name.split(".")
    return ".".join(words[:2]) if words[0].endswith("head") and len(words) > 1 else words[0]


def parts_of(names: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return (part, first, end) of the runs of neighbours in the same part."""
    found: list[tuple[str, int, int]] = []
    for place, name in enumerate(names):
        part = part_of(name)
        if found and found[-1][0] == part:
            found[-1] = (part, found[-1][1], place + 1)
        else:
            found.append((part, place, place + 1))
    return found


def history(cell: Cell, client: str) -> History:
    """Return a client's layers over all rounds."""
    layers = [(str(layer.get("name")), list(layer.get("units") or ())) for layer in cell.result.get("layers") or []]
    rounds = [int(row["round"]) for row in cell.rounds]
    scores = np.full((len(layers), len(rounds)), np.nan)
    personal, masked = np.zeros(scores.shape, np.bool_), np.zeros(len(rounds), np.bool_)
    for turn, row in enumerate(cell.rounds):
        known, kept = branch(row, "cka", client), personal_units(row, client)
        masked[turn] = kept is not None
        for place, (name, units) in enumerate(layers):
            value = number(known.get(name))
            scores[place, turn] = np.nan if value is None else value
            personal[place, turn] = kept is not None and bool(units) and all(_bit(kept, unit) for unit in units)
    return History(rounds, scores, personal, masked)


def personal_units(row: Mapping[str, Any], client: str) -> Bits | None:
    """Return (U,) True where a unit stays on the robot after this round; None in a round without a mask."""
    mask = branch(row, "masks").get(client)
    return np.array([bit == "0" for bit in mask], np.bool_) if isinstance(mask, str) and mask else None


def last_masks(cell: Cell) -> dict[str, Bits]:
    """Return what stays on each robot after the last round that has masks."""
    for row in reversed(cell.rounds):
        found = {client: bits for client in branch(row, "masks") if (bits := personal_units(row, client)) is not None}
        if found:
            return found
    return {}


def all_masks(cell: Cell) -> list[Bits]:
    """Return what stays of all robots and rounds with a mask."""
    found = (personal_units(row, client) for row in cell.rounds for client in branch(row, "masks"))
    return [bits for bits in found if bits is not None]


def last_scores(cell: Cell, names: Sequence[str], read: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Floats:
    """Return (L,) scores of the last round in which ``read`` finds any; NaN without one."""
    for row in reversed(cell.rounds):
        known = read(row)
        if known:
            values = [number(known.get(name)) for name in names]
            return np.array([np.nan if value is None else value for value in values], np.float64)
    return np.full(len(names), np.nan)


def agreement(masks: Sequence[Bits]) -> list[tuple[float, float]]:
    """Return, of every pair of masks, the Jaccard index of what is personal, and what chance would give.

    Chance: masks with as many personal units each, spread at random over all units. A pair without any personal unit
    is left out.

    Args:
        masks: (U,) each, True = personal.
    """
    found = []
    for first, second in combinations([mask for mask in masks if mask.size], 2):
        if first.shape != second.shape or not (first | second).any():
            continue
        expected = first.sum() * second.sum() / first.size
        by_chance = expected / (first.sum() + second.sum() - expected)
        found.append((float((first & second).sum() / (first | second).sum()), float(by_chance)))
    return found


def _bit(bits: Bits, place: int) -> bool:
    return bool(0 <= place < bits.size and bits[place])
