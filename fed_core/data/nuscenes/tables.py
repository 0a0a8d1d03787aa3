"""The tables of a nuScenes folder, opened by the devkit."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fed_core.errors import DataError
from fed_core.extras import needs

if TYPE_CHECKING:
    from nuscenes.nuscenes import NuScenes

#: Files of a version folder, without ``.json``.
TABLES = (
    "category",
    "attribute",
    "visibility",
    "instance",
    "sensor",
    "calibrated_sensor",
    "ego_pose",
    "log",
    "scene",
    "sample",
    "sample_data",
    "sample_annotation",
    "map",
)
LIDAR = "LIDAR_TOP"
#: Start of the version folders of single scenes, which generating leaves where it was stopped.
PART = "v1.0-part-"
Record: TypeAlias = dict[str, Any]
#: Sets of tables that stay open; that of all of nuScenes takes some gigabytes.
_KEPT = 4
_opened: dict[tuple[Path, str], tuple[tuple[int, ...], Any]] = {}


def open_tables(root: Path, version: str = "") -> "NuScenes":
    """Return the tables of a folder; the same object as long as the files are the same.

    Pictures of maps may be missing: nothing here reads them. Of what lies between keyframes only LiDAR scans are there:
    that of cameras and radars is four fifths of all records, and nobody asks for it.

    Args:
        root: dataroot, the folder that holds the version folder, ``samples`` and ``sweeps``.
        version: name of the version folder; "" = the only one.

    Raises:
        DataError: a folder or a table is missing, broken, or contradicts another one; or the version is not clear.
    """
    version = version or find_version(root)
    files = [root / version / f"{name}.json" for name in TABLES]
    if not (root / version).is_dir():
        raise DataError(f"{root} has no folder {version}; versions there: {_listed(list_versions(root))}")
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(f"{root / version} has no {', '.join(missing)}; nuScenes tables are {len(TABLES)} JSON files")
    key, stamp = (root.resolve(), version), tuple(file.stat().st_mtime_ns for file in files)
    kept = _opened.pop(key, None)
    if kept is None or kept[0] != stamp:
        kept = (stamp, _load(root, version))
    _opened[key] = kept  # last = used last
    while len(_opened) > _KEPT:
        del _opened[next(iter(_opened))]
    return kept[1]


@contextmanager
def told_of(tables: "NuScenes", place: str = "") -> Iterator[None]:
    """Tell a record that is missing or broken in one line: a :class:`DataError` that names folder and place."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError) as err:
        folder = Path(tables.dataroot) / tables.version
        raise DataError(f"the tables in {folder} are broken{place and f' at {place}'}: {err!r}") from err


def list_versions(root: Path) -> list[str]:
    """Return the version folders of a dataroot, sorted; none where it is no nuScenes folder."""
    try:
        found = sorted(path.name for path in root.glob("v1.0-*") if path.is_dir())
    except OSError as err:
        raise DataError(f"cannot read {root}: {err.strerror}") from err
    return found


def find_version(root: Path) -> str:
    """Return the only version folder of a dataroot; :class:`DataError` where there is none or more than one."""
    if not root.is_dir():
        raise DataError(f"{root} is not a folder")
    found = list_versions(root)
    if found and all(name.startswith(PART) for name in found):
        raise DataError(f"{root} is not finished ({len(found)} scenes); the command that generates it goes on there")
    if len(found) != 1:
        told = f"has the versions {', '.join(found)}; name one" if found else "holds no folder v1.0-*"
        raise DataError(f"{root} {told}; a nuScenes dataroot holds its tables, as v1.0-trainval, and samples")
    return found[0]


def _load(root: Path, version: str) -> Any:
    # Imported on use: it takes seconds, and most commands never read nuScenes.
    with needs("nuscenes", "nuScenes needs nuscenes-devkit"):
        from nuscenes.nuscenes import NuScenes

    quiet = type("QuietNuScenes", (NuScenes,), {"__load_table__": _table_loader(root, version)})
    try:
        return quiet(version=version, dataroot=str(root), verbose=False)
    except KeyError as err:
        raise DataError(f"the tables in {root / version} contradict each other: {err} is named but not there") from err
    except (TypeError, AttributeError, IndexError, AssertionError, OSError) as err:
        raise DataError(f"the tables in {root / version} are not those of nuScenes: {err}") from err


def _table_loader(root: Path, version: str) -> Callable[[Any, str], Any]:
    """Return what reads one table for the devkit."""
    folder = root / version

    def load(self: Any, name: str) -> Any:
        if name == "ego_pose":
            return []  # sample_data tells which are needed
        if name == "sample_data":
            records = _read(folder / f"{name}.json", _is_needed(self))
            used = {record["ego_pose_token"] for record in records}
            self.ego_pose = _read(folder / "ego_pose.json", lambda pose: pose["token"] in used)
            return records
        records = _read(folder / f"{name}.json")
        return _with_maps(root, self.log, records) if name == "map" else records

    return load


def _is_needed(tables: Any) -> Callable[[Record], bool]:
    """Return what tells files of keyframes and LiDAR scans from others."""
    lidars = {sensor["token"] for sensor in tables.sensor if sensor["modality"] == "lidar"}
    mounts = {mount["token"] for mount in tables.calibrated_sensor if mount["sensor_token"] in lidars}
    return lambda record: record["is_key_frame"] or record["calibrated_sensor_token"] in mounts


def _with_maps(root: Path, logs: list[Record], records: list[Record]) -> list[Record]:
    """Return maps as the devkit wants them: one of every log, with a picture; the folder itself passes for one."""
    for record in records:
        if not (root / str(record.get("filename", ""))).exists():
            record["filename"] = ""
    mapped = {token for record in records for token in record["log_tokens"]}
    lost = [log["token"] for log in logs if log["token"] not in mapped]
    if lost or not records:
        records.append({"token": "missing_map", "filename": "", "category": "semantic_prior", "log_tokens": lost})
    return records


def _read(path: Path, is_needed: Callable[[Record], bool] = lambda record: True) -> list[Record]:
    """Return the records of a table that are needed; the others never fill the memory."""
    try:
        records = json.loads(
            path.read_text(encoding="utf-8"), object_hook=lambda each: each if is_needed(each) else None
        )
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror}") from err
    except ValueError as err:
        raise DataError(f"{path} is not valid JSON: {err}") from err
    if not isinstance(records, list) or not all(each is None or isinstance(each, dict) for each in records):
        raise DataError(f"{path} is no table: a list of records is expected")
    return [record for record in records if record is not None]


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
