"""From what a user names, a fleet file or a folder of recordings, to a fleet."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from fed_core.config import from_tree, read_yaml
from fed_core.data.open import find_reader
from fed_core.errors import ConfigError, DataError
from fed_core.fleet import FleetConfig

#: File in a folder of recordings that names the held-out ones.
FLEET_FILE = "fleet.yaml"
#: Seeds of worlds lie this far apart from one seed of the fleet to the next.
_APART = 1000


def fleet_of(path: Path) -> tuple[FleetConfig, Path]:
    """Return the fleet of a file or folder, and the folder that its relative paths start from.

    A folder holds one sequence or bag per robot and a ``fleet.yaml``. Its key ``test`` lists the names of the sequences
    that are held out; all others become robots. Other keys are those of any fleet file.
    """
    if path.is_dir():
        return _from_folder(path), path
    if not path.exists():
        raise ConfigError(f"{path} does not exist; name a fleet file or a folder of recordings")
    return from_tree(FleetConfig, read_yaml(path), where=path.name), path.parent


def reseed(fleet: FleetConfig, seed: int) -> FleetConfig:
    """Return the fleet with another seed, for generated worlds and traffic too."""

    def renew(source: Any) -> Any:
        if source is None or source.generated is None:
            return source
        return replace(source, generated=replace(source.generated, seed=source.generated.seed + _APART * seed))

    traffic = fleet.traffic
    if traffic:
        own = traffic.get("seed", 0)
        traffic = {**traffic, "seed": own + _APART * seed if isinstance(own, int) else own}
    return replace(
        fleet,
        seed=seed,
        traffic=traffic,
        robots=tuple(replace(entry, source=renew(entry.source)) for entry in fleet.robots),
        test=tuple(replace(entry, source=renew(entry.source)) for entry in fleet.test),
    )


def _from_folder(folder: Path) -> FleetConfig:
    names = [child.name for child in sorted(folder.iterdir()) if _is_recording(child)]
    file = folder / FLEET_FILE
    if not names:
        raise ConfigError(f"{folder} holds no sequence folder and no bag; put one recording per robot into it")
    if not file.exists():
        example = yaml.safe_dump({"test": names[-1:]}, default_flow_style=True).strip()
        raise ConfigError(f"{file} is missing; write into it which recordings are held out, for example: {example}")
    tree = dict(read_yaml(file) or {})
    if "robots" in tree:
        return from_tree(FleetConfig, tree, where=str(file))
    held_out = [str(name) for name in tree.pop("test", [])]
    unknown = sorted(set(held_out) - set(names))
    if unknown:
        raise ConfigError(f"{file}: test names {', '.join(unknown)}, but {folder} holds {', '.join(names)}")
    training = [name for name in names if name not in held_out]
    if isinstance(tree.get("aggregator", {}), dict):
        # Every robot of the folder is started, so all are waited for.
        tree["aggregator"] = {"min_robots": max(1, len(training)), **tree.get("aggregator", {})}
    # Absolute paths: the recordings are here, wherever FED_PERCEPTION_DATA points to.
    places = {name: str((folder / name).absolute()) for name in names}
    robots = [{"id": _robot_id(name), "source": {"data": places[name]}} for name in training]
    test = [{"name": _robot_id(name), "source": {"data": places[name]}} for name in held_out]
    return from_tree(FleetConfig, {"run": "recordings", "robots": robots, "test": test, **tree}, where=str(file))


def _is_recording(path: Path) -> bool:
    if path.name.startswith(".") or path.name == FLEET_FILE:
        return False
    try:
        return bool(find_reader(path))
    except DataError:
        return False


def _robot_id(name: str) -> str:
    plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in Path(name).stem)
    return plain if plain[:1].isalpha() else f"r_{plain}"
