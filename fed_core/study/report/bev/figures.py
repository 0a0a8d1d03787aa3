"""Figures of a run, for one client or the mean of all; IoU is in per cent, differences of IoU in points."""

from collections.abc import Callable, Mapping
from typing import Any

from fed_core.study.report.results import Cell, Study, number

#: Stands for the unweighted mean over the clients wherever a client is named.
MEAN = "mean"
#: Name of the map that is the same for all frames of a client, made of its true training maps.
CONSTANT = "Constant map"

Reader = Callable[[Cell], float | None]


def clients_of(study: Study) -> list[str]:
    """Return the clients of the plan, in its order."""
    return [str(client.get("name")) for client in study.plan.get("clients") or []]


def headline(client: str) -> Reader:
    """Return the reader of the study's main figure: IoU of the round that the validation frames chose."""
    return _macro("iou_global") if client == MEAN else figure(client, "honest", "iou_global")


def figure(client: str, part: str, name: str) -> Reader:
    """Return the reader of one IoU of a client, such as ``("bus", "last10", "iou_frame")``."""
    return lambda cell: _per_cent(_branch(cell, client, part).get(name))


def best(client: str) -> Reader:
    """Return the reader of the IoU of the best test round."""
    return _macro("best_iou_global") if client == MEAN else figure(client, "best", "iou_global")


def last10(client: str) -> Reader:
    """Return the reader of the mean IoU of the last ten evaluations."""
    return _macro("last10_iou_global") if client == MEAN else figure(client, "last10", "iou_global")


def per_frame(client: str) -> Reader:
    """Return the reader of the mean IoU of the frames, at the round of the main figure."""
    return _macro("iou_frame") if client == MEAN else figure(client, "honest", "iou_frame")


def trained(client: str) -> Reader:
    """Return the reader of the IoU of the robot's own model after its last local training."""
    return _macro("trained_iou_global") if client == MEAN else figure(client, "trained", "iou_global")


def constant(study: Study, model: str, client: str) -> dict[int, float]:
    """Return the IoU of the constant map by seed; all runs of a seed have the same frames, and so the same map."""
    read = _macro("constant_iou_global") if client == MEAN else figure(client, "constant", "iou_global")
    found: dict[int, float] = {}
    for label in study.finished(model):
        found = {**study.values(model, label, read), **found}
    return found


def chosen_round(client: str, part: str) -> Reader:
    """Return the reader of the round of ``part``, "best" or "honest"."""
    return lambda cell: number(_branch(cell, client, part).get("round"))


def iou_curve(cell: Cell, client: str) -> list[tuple[int, float]]:
    """Return (round, test IoU) of every round that was evaluated and has it."""

    def read(row: Mapping[str, Any]) -> float | None:
        place = row.get("macro") if client == MEAN else _tree(_tree(row.get("clients")).get(client)).get("test")
        return _per_cent(_tree(place).get("iou_global"))

    return _curve(cell, read)


def scalar_curve(cell: Cell, name: str) -> list[tuple[int, float]]:
    """Return (round, value) of a single number of the rounds, such as "loss"."""
    return _curve(cell, lambda row: number(row.get(name)))


def robot_curve(cell: Cell, name: str, robot: str) -> list[tuple[int, float]]:
    """Return (round, value) of a number that every robot has, such as "divergence"."""
    return _curve(cell, lambda row: number(_tree(row.get(name)).get(robot)))


def _curve(cell: Cell, read: Callable[[Mapping[str, Any]], float | None]) -> list[tuple[int, float]]:
    pairs = ((int(row["round"]), read(row)) for row in cell.rounds)
    return [(turn, value) for turn, value in pairs if value is not None]


def _macro(name: str) -> Reader:
    return lambda cell: _per_cent(_tree(cell.result.get("macro")).get(name))


def _branch(cell: Cell, client: str, part: str) -> Mapping[str, Any]:
    return _tree(_tree(_tree(cell.result.get("clients")).get(client)).get(part))


def _tree(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _per_cent(value: Any) -> float | None:
    found = number(value)
    return None if found is None else 100.0 * found
