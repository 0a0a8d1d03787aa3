"""Read a study folder: what was planned, what is finished, what is missing.

A study is a grid of cells (model, label, seed); a label is a strategy's name, or ``name:option=value`` for an ablation.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fed_core.errors import DataError

SCHEMA = 1
#: What a study compares with, but what is no federation.
REFERENCES = ("centralised", "local")

_OTHER_NAME = {"rmse": "rmse_m", "rmse_m": "rmse"}

Key: TypeAlias = tuple[str, str, int]
Metrics: TypeAlias = Mapping[str, Any]


def strategy_of(label: str) -> str:
    """Return the strategy of a label: "fedepth" of "fedepth:link=min"."""
    return label.split(":", 1)[0]


def is_ablation(label: str) -> bool:
    """Return whether the label is a strategy with options other than its defaults."""
    return ":" in label


def folder_name(label: str) -> str:
    """Return the folder of a label: every character outside ``[A-Za-z0-9_.=-]`` becomes "_"."""
    return re.sub(r"[^A-Za-z0-9_.=-]", "_", label)


def number(value: Any) -> float | None:
    """Return a finite float, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def read_metric(metrics: Metrics | None, name: str) -> float | None:
    """Return one metric of a JSON table of metrics; None where it is missing or not finite."""
    if not metrics:
        return None
    return number(metrics.get(name, metrics.get(_OTHER_NAME.get(name, name))))


@dataclass(frozen=True)
class Cell:
    """One finished run: one model, one strategy, one seed.

    Attributes:
        model: name of the network.
        label: strategy, with its options where they are not the defaults.
        seed: seed of the run.
        result: the tree of ``result.json``.
        rounds: the trees of ``rounds.jsonl``, in order.
        folder: where they lie.
    """

    model: str
    label: str
    seed: int
    result: Mapping[str, Any]
    rounds: tuple[Mapping[str, Any], ...]
    folder: Path

    def macro(self, metric: str) -> float | None:
        """Return a metric's mean over the test sequences."""
        return read_metric(self.result.get("macro"), metric)

    def figure(self, name: str) -> float | None:
        """Return a single number of the result, such as "tau"."""
        return number(self.result.get(name))

    def curve(self, metric: str) -> list[tuple[int, float]]:
        """Return (round, macro metric) of every round that has it."""
        pairs = ((int(row.get("round", 0)), read_metric(row.get("macro"), metric)) for row in self.rounds)
        return [(turn, value) for turn, value in pairs if value is not None]

    def logged(self, name: str, *, first: bool = False) -> float | None:
        """Return a single number of the last (or the first) round that has it."""
        found = [value for row in self.rounds if (value := number(row.get(name))) is not None]
        return found[0 if first else -1] if found else None

    @property
    def sequences(self) -> Sequence[Mapping[str, Any]]:
        """Results of each test sequence."""
        return list(self.result.get("sequences") or [])


@dataclass(frozen=True)
class Study:
    """All that a study folder holds.

    Attributes:
        folder: the study folder.
        plan: the tree of ``study.json``.
        cells: finished runs.
        missing: planned runs without a usable ``result.json``, in the order of the plan.
    """

    folder: Path
    plan: Mapping[str, Any]
    cells: Mapping[Key, Cell]
    missing: tuple[Key, ...]

    @property
    def models(self) -> list[str]:
        """Names of the networks, in the order of the plan."""
        return _merged(self.plan.get("models") or [], (model for model, _, _ in self.cells))

    @property
    def labels(self) -> list[str]:
        """Labels of the plan, then others that were found."""
        return _merged(self.plan.get("strategies") or [], (label for _, label, _ in self.cells))

    @property
    def rounds(self) -> int:
        """Rounds of every run."""
        return int(self.plan.get("rounds") or 0)

    def of(self, model: str, label: str) -> list[Cell]:
        """Return the finished runs of a model and label, by seed."""
        return [self.cells[key] for key in sorted(k for k in self.cells if k[:2] == (model, label))]

    def finished(self, model: str) -> list[str]:
        """Return the labels with a finished run of this model."""
        return [label for label in self.labels if self.of(model, label)]

    def values(self, model: str, label: str, get: Callable[[Cell], float | None]) -> dict[int, float]:
        """Return ``get`` of each finished run by seed, without those where it gives None."""
        found = {cell.seed: get(cell) for cell in self.of(model, label)}
        return {seed: value for seed, value in found.items() if value is not None}

    def first(self, model: str, label: str) -> Cell | None:
        """Return the finished run of the smallest seed."""
        runs = self.of(model, label)
        return runs[0] if runs else None


def read_study(folder: Path) -> Study:
    """Read a study folder, finished or not.

    Raises:
        DataError: there is no study in it, or one of another schema.
    """
    path = folder / "study.json"
    plan = _read_tree(path)
    if plan is None:
        raise DataError(f"{path} is missing or no JSON object; give the folder that `fedperc study --out` wrote")
    if plan.get("schema") != SCHEMA:
        raise DataError(
            f"{path} has schema {plan.get('schema')!r}, this version reads {SCHEMA}; use the version that wrote it"
        )
    cells = {}
    for file in sorted(folder.glob("cells/*/*/seed*/result.json")):
        cell = _read_cell(file)
        if cell is not None:
            cells[cell.model, cell.label, cell.seed] = cell
    return Study(folder, plan, cells, tuple(key for key in _planned(plan) if key not in cells))


def _planned(plan: Mapping[str, Any]) -> list[Key]:
    """Return the runs of the plan: its list "cells" where it has one, else models x strategies x seeds."""
    if plan.get("cells"):
        return [(str(model), str(label), int(seed)) for model, label, seed in plan["cells"]]
    names = [(str(m), str(s)) for m in plan.get("models") or [] for s in plan.get("strategies") or []]
    return [(model, label, int(seed)) for model, label in names for seed in plan.get("seeds") or []]


def _read_cell(file: Path) -> Cell | None:
    tree = _read_tree(file)
    if tree is None or tree.get("schema") != SCHEMA:
        return None
    try:
        label = str(tree.get("label") or tree["strategy"])
        model, seed = str(tree["model"]), int(tree["seed"])
    except (KeyError, TypeError, ValueError):
        return None
    return Cell(model, label, seed, tree, _read_rounds(file.with_name("rounds.jsonl")), file.parent)


def _read_rounds(file: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the lines that are whole: a kill may have cut the last one."""
    rows: dict[int, Mapping[str, Any]] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        try:
            row = json.loads(line)
            # A run that was started again may write a round twice; the later line counts.
            rows[int(row["round"])] = row
        except (ValueError, KeyError, TypeError):
            continue
    return tuple(rows[turn] for turn in sorted(rows))


def _read_tree(file: Path) -> dict[str, Any] | None:
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) else None


def _merged(first: Iterable[str], more: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*map(str, first), *more]))
