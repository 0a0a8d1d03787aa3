"""A fleet in this process: the simulator's statuses on the live view, and the table it ends with."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fed_cli.fleetrun.engines import engine_of
from fed_cli.fleetrun.folder import keep_fleet
from fed_cli.fleetrun.runs import RunRecord, read_run, shared_layers
from fed_cli.fleetrun.state import FleetState
from fed_cli.fleetrun.view import FleetView
from fed_core.fleet import FleetConfig
from fed_core.roles.messages import FleetStatus, RobotStatus

if TYPE_CHECKING:
    from fed_core.simulation.ray_cluster import RayOptions


def play(
    fleet: FleetConfig,
    base: Path,
    folder: Path,
    console: Console,
    *,
    threads: int = 2,
    ray: "RayOptions | None" = None,
) -> None:
    """Run a fleet to its last round in ``folder``, with its progress on ``console``.

    Args:
        fleet: the fleet file.
        base: folder that relative paths of its sources start from.
        folder: the run's folder; an interrupted run in it goes on.
        console: where progress goes.
        threads: CPU threads of training.
        ray: how Ray is used; None = all work is done in this process.
    """
    from fed_core.simulation import Simulation, SimulationView
    from fed_models.toolbox import toolbox

    state = FleetState()
    view = FleetView(console, state)
    view.stage = "learning"

    def see(news: SimulationView) -> None:
        if news.fleet is not None:
            state.add(fleet_line(news.fleet))
        if news.robot is not None:
            state.add(robot_line(news.robot))
        view.refresh()

    with engine_of(ray, threads) as engine, view:
        simulation = Simulation(fleet, base, folder, toolbox(), on_view=see, threads=threads, engine=engine)
        keep_fleet(folder, fleet, base)
        simulation.run()


def fleet_line(status: FleetStatus) -> dict[str, Any]:
    """Return a fleet's status as the monitor would write it; nothing travels, so no bytes are counted."""
    robots = [
        {
            "id": r.robot_id,
            "alive": r.alive,
            "reported": r.reported,
            "clusters": list(r.clusters),
            "updates": r.updates,
            "refused": r.refused,
            "last_text": r.last_text,
            "quarantine": r.quarantine,
        }
        for r in status.robots
    ]
    return {
        "kind": "fleet",
        "run": status.run_id,
        "phase": status.phase,
        "round": status.round,
        "rounds": status.total_rounds,
        "strategy": status.strategy,
        "robots": robots,
        "sent_bytes": 0,
        "received_bytes": 0,
        "waiting_for": status.waiting_for,
    }


def robot_line(status: RobotStatus) -> dict[str, Any]:
    """Return a robot's status as the monitor would write it."""
    return {
        "kind": "robot",
        "id": status.robot_id,
        "phase": status.phase.name.lower(),
        "round": status.round,
        "progress": _number(status.progress),
        "loss": _number(status.loss),
        "samples_per_s": _number(status.samples_per_s),
        "samples": status.num_samples,
        "sent_bytes": 0,
        "received_bytes": 0,
        "text": status.text,
    }


def show_result(console: Console, folder: Path) -> None:
    """Print rounds, losses, clusters and where the models are."""
    record = read_run(folder)
    console.print(result_table(record))
    for text in record.warnings:
        console.print(f"warning: {text}", highlight=False)
    for key, digest, _ in record.models:
        console.print(f"model {key}  {folder / 'blobs' / digest}", highlight=False, soft_wrap=True)


def result_table(record: RunRecord) -> Table:
    """Return one row per robot: clusters, updates, samples, its first and last loss, and layers where some stay."""
    title = f"{record.run_id}: {record.strategy}, {record.rounds} of {record.total_rounds} rounds"
    table = Table(title=title, title_justify="left")
    masked = any(robot.units for robot in record.robots)
    layers = ("shared layers",) if masked else ()
    for name in ("robot", "clusters", "updates", "samples", "first loss", "last loss", *layers):
        table.add_column(name, justify="left" if name in ("robot", "clusters") else "right")
    for robot in record.robots:
        table.add_row(
            robot.id,
            " ".join(map(str, robot.clusters)),
            str(robot.updates),
            str(robot.samples),
            _loss(robot.losses[:1]),
            _loss(robot.losses[-1:]),
            *((shared_layers(robot),) if masked else ()),
        )
    return table


def _loss(losses: tuple[float, ...]) -> str:
    return f"{losses[0]:.3f}" if losses else ""


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
