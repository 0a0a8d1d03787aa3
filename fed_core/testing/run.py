"""A real run of two robots on the tiny network: jobs, files, journal; whole, or cut off and resumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fed_core.data.open import SourceConfig
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.roles.messages import FleetPlan
from fed_core.simulation import Simulation, SimulationView
from fed_core.testing.network import toolbox, write_folder

ROUNDS = 2
#: Views of a run after which it is cut off, one try after the other.
_CUTS = (20, 12)


class CutOffError(Exception):
    """Stands for a killed process."""


def whole(name: str, options: Mapping[str, Any], train: Mapping[str, Any], folder: Path) -> FleetPlan:
    """Return the last plan of an undisturbed run below ``folder``."""
    return _simulation(name, options, train, folder / "whole").run()


def cut_off(name: str, options: Mapping[str, Any], train: Mapping[str, Any], folder: Path) -> FleetPlan:
    """Return the last plan of the same run after it was cut off twice."""
    for count in _CUTS:
        try:
            return _simulation(name, options, train, folder / "cut", stop_after=count).run()
        except CutOffError:
            continue
    return _simulation(name, options, train, folder / "cut").run()


def _simulation(
    name: str, options: Mapping[str, Any], train: Mapping[str, Any], folder: Path, *, stop_after: int = 0
) -> Simulation:
    base = folder.parent / "recordings"
    robots = tuple(RobotEntry(robot_id, SourceConfig(data=robot_id)) for robot_id in ("ana", "ben"))
    for seed, robot in enumerate(robots):
        if not (base / robot.id).exists():
            write_folder(base / robot.id, 4 + 4 * seed, seed=seed)
    fleet = FleetConfig(
        run="run",
        robots=robots,
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions(name, dict(options)),
        rounds=ROUNDS,
        train={"lr": 1e-2, "batch_size": 4, "local_epochs": 1, **train},
    )
    seen = 0

    def see(view: SimulationView) -> None:
        nonlocal seen
        seen += 1
        if seen == stop_after:
            raise CutOffError

    return Simulation(fleet, base, folder, toolbox(), threads=1, on_view=see)
