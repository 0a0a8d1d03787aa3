"""Records of nuScenes tables that we write: fixed ones, tokens, and how folders of them are joined."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fed_core.data.image_files import read_text
from fed_core.data.nuscenes.domains import OWN_SPLITS, SPLITS
from fed_core.data.nuscenes.tables import TABLES
from fed_core.errors import DataError

#: Detection class -> category of the tables.
CATEGORIES = {
    "car": "vehicle.car",
    "truck": "vehicle.truck",
    "construction_vehicle": "vehicle.construction",
    "bus": "vehicle.bus.rigid",
    "trailer": "vehicle.trailer",
    "barrier": "movable_object.barrier",
    "motorcycle": "vehicle.motorcycle",
    "bicycle": "vehicle.bicycle",
    "pedestrian": "human.pedestrian.adult",
    "traffic_cone": "movable_object.trafficcone",
}
ATTRIBUTES = (
    "vehicle.moving",
    "vehicle.stopped",
    "vehicle.parked",
    "cycle.with_rider",
    "cycle.without_rider",
    "pedestrian.sitting_lying_down",
    "pedestrian.standing",
    "pedestrian.moving",
)
_VISIBILITIES = ("v0-40", "v40-60", "v60-80", "v80-100")
FULLY_VISIBLE = str(len(_VISIBILITIES))
_MAP = "no_map"

#: Table -> token -> record.
Tables = dict[str, dict[str, dict[str, Any]]]


def token_of(*parts: object) -> str:
    """Return a token of 32 hex digits, the same for the same parts."""
    return hashlib.blake2b(json.dumps([str(part) for part in parts]).encode(), digest_size=16).hexdigest()


def fresh_tables() -> Tables:
    """Return tables with what every folder has: categories, attributes, visibilities, a map without a picture."""
    tables: Tables = {name: {} for name in TABLES}
    for kind, names in (("category", CATEGORIES.values()), ("attribute", ATTRIBUTES)):
        for name in names:
            put(tables, kind, token_of(kind, name), name=name, description="")
    for number, level in enumerate(_VISIBILITIES, 1):
        put(tables, "visibility", str(number), level=level, description="")
    put(tables, "map", _MAP, category="semantic_prior", filename="", log_tokens=[])
    return tables


def put(tables: Tables, table: str, token: str, **values: Any) -> dict[str, Any]:
    """Store a record under its token and return it."""
    tables[table][token] = {"token": token, **values}
    return tables[table][token]


def put_log(tables: Tables, log: Mapping[str, Any]) -> None:
    """Store a log, and that the map without a picture is its map."""
    put(tables, "log", log["token"], **{key: value for key, value in log.items() if key != "token"})
    logs = tables["map"][_MAP]["log_tokens"]
    if log["token"] not in logs:
        logs.append(log["token"])


def write_tables(folder: Path, tables: Tables, splits: Mapping[str, Sequence[str]]) -> None:
    """Write a version folder that is there whole or not at all.

    Raises:
        DataError: it exists or cannot be written.
    """
    if folder.exists():
        raise DataError(f"{folder} exists already")
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, records in tables.items():
            (part / f"{name}.json").write_text(json.dumps(list(records.values())), encoding="utf-8")
        (part / OWN_SPLITS).write_text(json.dumps(splits), encoding="utf-8")
        os.replace(part, folder)
    except OSError as err:
        raise DataError(f"cannot write {folder}: {err.strerror}") from err


def merge_tables(root: Path, parts: Sequence[str], version: str) -> None:
    """Join version folders of one dataroot to a new one; the parts stay.

    Args:
        root: dataroot.
        parts: version folders as :class:`fed_core.data.nuscenes.writer.TableWriter` wrote them, no scene in two.
        version: new version folder.

    Raises:
        DataError: a part is missing or broken, a scene is in two, or the new folder exists.
    """
    merged, splits = fresh_tables(), {split: list[str]() for split in SPLITS}
    for part in parts:
        for name in TABLES:
            for record in _read(root / part / f"{name}.json"):
                if name == "scene" and record["token"] in merged[name]:
                    raise DataError(f"scene {record['name']} is in {part} and in another part")
                if name == "log":
                    put_log(merged, record)
                elif name != "map":
                    merged[name][record["token"]] = record
        own = _read(root / part / OWN_SPLITS)
        for split in SPLITS:
            splits[split] += own[split]
    write_tables(root / version, merged, splits)


def _read(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except ValueError as err:
        raise DataError(f"{path} is not valid JSON: {err}") from err
