"""Made-up traffic of a fleet file: written once into the run's folder, before anything starts.

A source whose path begins with ``traffic`` is then in it: with task bev a folder laid out as OPV2V's
(``traffic/train/client_1``), with task detection the whole, a nuScenes folder (``traffic``), of which ``options`` name
a domain and a split.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from fed_core.config import from_tree
from fed_core.data.open import SourceConfig
from fed_core.errors import ConfigError
from fed_core.fleet import FleetConfig

#: Folder of the traffic in the run's folder, and the start of the paths that mean it.
FOLDER = "traffic"

OnProgress = Callable[[int, int], None]


def with_traffic(fleet: FleetConfig, folder: Path, on_progress: OnProgress = lambda done, total: None) -> FleetConfig:
    """Return the fleet with its traffic on disk and its sources there; a fleet without traffic stays as it is.

    Args:
        fleet: the fleet.
        folder: the run's folder; traffic that lies there is not made again.
        on_progress: called with frames done and frames in all.

    Raises:
        ConfigError: an option of the traffic is unknown or out of its bounds, or no source is in it.
        DataError: the folder holds other traffic, or cannot be written.
    """
    if not fleet.traffic:
        return fleet
    make = _of_domains if fleet.task == "detection" else _of_vehicles
    write = make(fleet.traffic)
    root = (folder / FOLDER).absolute()
    placed = replace(
        fleet,
        robots=tuple(replace(r, source=_placed(r.source, root) if r.source else None) for r in fleet.robots),
        test=tuple(replace(t, source=_placed(t.source, root)) for t in fleet.test),
    )
    if (placed.robots, placed.test) == (fleet.robots, fleet.test):
        example = FOLDER if fleet.task == "detection" else f"{FOLDER}/train/client_1"
        raise ConfigError(f"the fleet makes traffic, but no source is in it; name one, as {example}")
    write(root, on_progress)
    return placed


# Imported on use: rendering needs libraries that nothing else here does.


def _of_vehicles(tree: Mapping[str, Any]) -> Callable[[Path, OnProgress], Any]:
    from fed_core.scenes.driving import DrivingOptions, generate

    options = from_tree(DrivingOptions, dict(tree), "traffic")
    return lambda root, on_progress: generate(root, options, on_progress)


def _of_domains(tree: Mapping[str, Any]) -> Callable[[Path, OnProgress], Any]:
    from fed_core.scenes.domains import DomainOptions, generate

    options = from_tree(DomainOptions, dict(tree), "traffic")
    return lambda root, on_progress: generate(root, options, on_progress)


def _placed(source: SourceConfig, root: Path) -> SourceConfig:
    parts = tuple(_placed(part, root) for part in source.parts)
    path = PurePosixPath(source.data)
    if path.parts[:1] != (FOLDER,):
        return replace(source, parts=parts) if parts else source
    return replace(source, data=str(root.joinpath(*path.parts[1:])))
