"""A job's files on their way to another machine and back: bytes instead of paths.

A trainer's arguments name files of the run's folder, and its answer names files that it wrote. Workers elsewhere see
neither folder, so both travel as arrays of bytes; samples do not travel.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.types import Array
from fed_core.wire.files import HashingFile

#: Arguments that name files of the fleet by key, which many robots read, and one file each of the robot alone.
_SHARED, _OWN = ("load", "extras"), ("own", "memory", "optimizer")


@dataclass(frozen=True)
class Freight:
    """The files that a job reads, by the place of their path in the arguments.

    Attributes:
        shared: may be read by other robots, too; a blob's name is the digest of its bytes.
        own: this robot's.
    """

    shared: Mapping[str, Path]
    own: Mapping[str, Path]


def freight_of(arguments: Mapping[str, Any]) -> Freight:
    """Return the files that a job reads."""
    shared = {f"{name}/{key}": Path(path) for name in _SHARED for key, path in arguments.get(name, {}).items()}
    own = {name: Path(arguments[name]) for name in _OWN if arguments.get(name)}
    return Freight(shared, own)


def with_paths(arguments: Mapping[str, Any], paths: Mapping[str, Path], out_dir: Path) -> dict[str, Any]:
    """Return a job's arguments where its files lie elsewhere.

    Args:
        arguments: of the job.
        paths: of what :func:`freight_of` named, on this machine.
        out_dir: folder for what the job writes, if it writes anything.
    """
    there = dict(arguments)
    for name in _SHARED:
        if name in there:
            there[name] = {key: str(paths[f"{name}/{key}"]) for key in there[name]}
    there.update({name: str(paths[name]) for name in _OWN if name in paths})
    if "out_dir" in there:
        there["out_dir"] = str(out_dir)
    return there


def written(out_dir: Path) -> dict[str, Array]:
    """Return the bytes of every file in a folder, by name."""
    return {path.name: read_bytes(path) for path in sorted(out_dir.iterdir())} if out_dir.is_dir() else {}


def read_bytes(path: Path) -> Array:
    """Return a file's bytes, (size,) uint8."""
    return np.fromfile(path, np.uint8)


def brought_home(result: Mapping[str, Any], files: Mapping[str, Array], out_dir: Path) -> dict[str, Any]:
    """Write a job's files into the run's folder, and return its answer with their paths there.

    Raises:
        StoreError: they cannot be written.
    """
    if files:
        out_dir.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_bytes(out_dir / name, data)
    home = dict(result)
    for key, value in result.items():
        if key.endswith("_path") and value:
            home[key] = str(out_dir / Path(value).name)
    return home


def write_bytes(path: Path, data: Array) -> None:
    """Write a file that appears whole or not at all."""
    file = HashingFile(path)
    try:
        file.write(data.data)
        file.commit()
    finally:
        file.abandon()
