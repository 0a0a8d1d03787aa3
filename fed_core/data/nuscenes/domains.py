"""The five domains of FedCKA: city, day or night, clear or rain (fedcka spec 7.1)."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from fed_core.data.nuscenes.tables import DataError

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
#: Scenes of the domains in nuScenes v1.0-trainval.
PUBLISHED_COUNTS = {
    TRAIN: dict(zip(DOMAINS.values(), (265, 125, 226, 71, 13), strict=True)),
    VAL: dict(zip(DOMAINS.values(), (53, 24, 58, 12, 3), strict=True)),
}
#: File in a version folder with scenes that are not in the official splits; the devkit knows it, too.
OWN_SPLITS = "splits.json"

DomainScenes = dict[str, dict[str, list[str]]]


class Scene(NamedTuple):
    """What the domain of a scene hangs on; ``split`` is "train", "val" or ""."""

    name: str
    location: str
    description: str
    split: str


def domain_of(location: str, description: str) -> str | None:
    """Return the domain of a scene, None where it belongs to none of the five."""
    raise NotImplementedError


def list_scenes(tables: "NuScenes") -> list[Scene]:
    """Return all scenes in the order of the table."""
    raise NotImplementedError


def split_scenes(scenes: Iterable[Scene]) -> DomainScenes:
    """Return names of scenes, domain -> split -> list; all five domains and both splits are there, maybe empty."""
    raise NotImplementedError


def split_domains(tables: "NuScenes") -> DomainScenes:
    """Return names of scenes, domain -> split -> list."""
    return split_scenes(list_scenes(tables))


def check_published_counts(split: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Raise :class:`DataError` unless the ten counts are those of the paper; for all of v1.0-trainval only."""
    raise NotImplementedError
