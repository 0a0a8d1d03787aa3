"""Run folders made by hand, with figures that can be checked by hand."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fed_core.config import to_tree
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.store.journal import Journal, RoundRow
from fed_core.strategies.base import RobotPlan
from fed_core.types import BlobRef, ModelSignature, TensorSpec

ROBOTS = ("ann", "bob")
#: Layers of the network of masked runs, in its order.
LAYERS = ("stem", "head")
SIGNATURE = ModelSignature(
    "tiny", tuple(TensorSpec(f"{layer}.weight", (2, 2), "float32", True, layer, "Linear") for layer in LAYERS)
)
#: Losses of a round are 8 / round for the first robot, and one less for each further one.
FIRST_LOSS = 8.0
#: Sizes of what a robot sends and of a model.
SENT, MODEL = 1000, 3000
#: Each round takes longer than the one before by a second: 1 s, 2 s, ...
START_S = 1_700_000_000.0


def run_config(strategy: str = "fedavg", seed: int = 0, rounds: int = 2, **options: Any) -> RunConfig:
    return RunConfig(strategy, options, "depth", "tiny", {}, {"lr": 0.01}, rounds, seed)


def write_run(
    folder: Path,
    config: RunConfig | None = None,
    robots: Sequence[str] = ROBOTS,
    *,
    closed: int | None = None,
    clusters: Mapping[str, tuple[int, ...]] | None = None,
    masks: bool = False,
    missing: Sequence[tuple[int, str]] = (),
    logs: Mapping[int, Mapping[str, Any]] | None = None,
) -> Path:
    """Write the journal of a run.

    Args:
        folder: of the run, made if missing.
        config: of the run.
        robots: their ids.
        closed: rounds that closed; default: all.
        clusters: of each robot in every round; robots of a cluster load its model.
        masks: from round 2 on the last layer stays on the robots, with CKA 0.25; the first is shared, with 0.75.
        missing: (round, robot) whose update was not counted.
        logs: figures of the strategy by round.
    """
    config = config or run_config()
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder / "journal.sqlite", folder.name, to_tree(config))
    initial = BlobRef("0" * 64, MODEL)
    journal.save_model_info("initial", {"blob": to_tree(initial), "signature": SIGNATURE.to_json()})
    for robot in robots:
        journal.save_robot(robot, {"robot_id": robot, "software": "1.2.3", "num_samples": 6}, None)
    count = config.total_rounds if closed is None else closed
    for number in range(count + 1):
        for place, robot in enumerate(robots if number else ()):
            if (number, robot) not in missing:
                report = _report(robot, number, place, masked=masks and number > 1)
                journal.save_update(number, robot, report, {"loss": report["loss"]})
        plan = _plan(config, number, robots, clusters or {})
        row = RoundRow(number, plan.to_json(), initial, clusters or {}, (logs or {}).get(number, {}))
        journal.commit_round(row, plan.blobs)
    journal.close()
    _set_times(folder, count)
    return folder


def _report(robot: str, number: int, place: int, *, masked: bool) -> dict[str, Any]:
    return {
        "robot_id": robot,
        "num_samples": 6,
        "loss": FIRST_LOSS / number - place,
        "seconds": float(number),
        "blobs": {"weights": {"digest": "a" * 64, "size_bytes": SENT}},
        "scalars": {"cka/stem": 0.75, "cka/head": 0.25, "personal_units": 1.0} if masked else {},
        "mask": [1, 0] if masked else None,
    }


def _plan(config: RunConfig, number: int, robots: Sequence[str], clusters: Mapping[str, tuple[int, ...]]) -> FleetPlan:
    loads = {r: tuple(f"cluster/{k}" for k in clusters.get(r, ())) or ("global",) for r in robots}
    keys = sorted({key for load in loads.values() for key in load})
    blobs = {key: BlobRef(f"{number:032x}{place:032x}", MODEL) for place, key in enumerate(keys)}
    return FleetPlan(
        run_id="run",
        config=config,
        round=min(number + 1, config.total_rounds),
        finished=number >= config.total_rounds,
        robots={robot: RobotPlan(load) for robot, load in loads.items()},
        participants=tuple(robots),
        blobs=blobs,
        models=tuple(keys),
    )


def _set_times(folder: Path, count: int) -> None:
    """Make the time of every round known: the start, then a second, two seconds, ... later."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as journal, journal:
        for number in range(count + 1):
            closed_s = START_S + number * (number + 1) / 2
            journal.execute("UPDATE rounds SET closed_s = ? WHERE round = ?", (closed_s, number))
