"""The five domains of FedCKA: city, day or night, clear or rain (fedcka spec 7.1)."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fed_core.data.image_files import read_text
from fed_core.data.nuscenes.tables import told_of
from fed_core.errors import DataError

if TYPE_CHECKING:
    from nuscenes.nuscenes import NuScenes

TRAIN, VAL = "train", "val"
SPLITS = (TRAIN, VAL)
#: Domains by the paper's letter.
DOMAINS = {
    "A": "boston_day_clear",
    "B": "boston_day_rain",
    "C": "singapore_day_clear",
    "D": "singapore_night_clear",
    "E": "singapore_night_rain",
}
PUBLISHED_VERSION = "v1.0-trainval"
#: Scenes of the domains in that version of nuScenes.
PUBLISHED_COUNTS = {
    TRAIN: dict(zip(DOMAINS.values(), (265, 125, 226, 71, 13), strict=True)),
    VAL: dict(zip(DOMAINS.values(), (53, 24, 58, 12, 3), strict=True)),
}
#: File in a version folder with scenes that are not in the official splits; the devkit knows it, too.
OWN_SPLITS = "splits.json"


#: Start of a word: "rain" is in "train", too.
_RAIN = re.compile(r"\brain")

DomainScenes = dict[str, dict[str, list[str]]]


class Scene(NamedTuple):
    """What the domain of a scene hangs on; ``split`` is "train", "val" or "" (neither)."""

    name: str
    location: str
    description: str
    split: str

    @property
    def domain(self) -> str | None:
        """Domain, None where it belongs to none of the five."""
        return domain_of(self.location, self.description)


def domain_of(location: str, description: str) -> str | None:
    """Return the domain of a scene, None where it belongs to none of the five.

    Args:
        location: of the log ("singapore-onenorth").
        description: of the scene ("Night, heavy rain, ...").
    """
    city = next((city for city in ("boston", "singapore") if city in location.lower()), "elsewhere")
    text = description.lower()
    name = f"{city}_{'night' if 'night' in text else 'day'}_{'rain' if _RAIN.search(text) else 'clear'}"
    return name if name in DOMAINS.values() else None


def list_scenes(tables: "NuScenes") -> list[Scene]:
    """Return all scenes in the order of the table.

    Splits come from ``splits.json`` in the version folder, ``{"train": [name, ...], "val": [...]}``, where that is;
    else they are the official ones.
    """
    split_of = _split_of(Path(tables.dataroot) / tables.version / OWN_SPLITS)
    with told_of(tables, "a scene or its log"):
        return [
            Scene(
                scene["name"],
                str(tables.get("log", scene["log_token"])["location"]),
                str(scene["description"]),
                split_of.get(scene["name"], ""),
            )
            for scene in tables.scene
        ]


def split_scenes(scenes: Iterable[Scene]) -> DomainScenes:
    """Return names of scenes, domain -> split -> list; all five domains and both splits are there, maybe empty."""
    split: DomainScenes = {domain: {part: [] for part in SPLITS} for domain in DOMAINS.values()}
    for scene in scenes:
        if scene.domain is not None and scene.split in SPLITS:
            split[scene.domain][scene.split].append(scene.name)
    return split


def split_domains(tables: "NuScenes") -> DomainScenes:
    """Return names of scenes, domain -> split -> list."""
    return split_scenes(list_scenes(tables))


def check_published_counts(split: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Raise :class:`DataError` unless the ten counts are those of the paper; only v1.0-trainval can have them."""
    for part, counts in PUBLISHED_COUNTS.items():
        for domain, count in counts.items():
            found = len(split.get(domain, {}).get(part, ()))
            if found != count:
                told = f"domain {domain} has {found} {part} scenes, published are {count}"
                raise DataError(f"{told}; this is not the whole of nuScenes v1.0-trainval")


def _split_of(own: Path) -> dict[str, str]:
    """Return the split of every scene by its name."""
    if not own.is_file():
        return _official()
    try:
        tree = json.loads(read_text(own))
        return {name: part for part in SPLITS for name in map(str, tree[part])}
    except (ValueError, KeyError, TypeError) as err:
        raise DataError(f'{own} must hold {{"train": [scene, ...], "val": [...]}}: {err!r}') from err


@lru_cache(maxsize=1)
def _official() -> dict[str, str]:
    from nuscenes.utils.splits import train, val

    return {**dict.fromkeys(train, TRAIN), **dict.fromkeys(val, VAL)}
