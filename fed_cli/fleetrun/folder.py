"""The folder of a demo run: new, resumed, or moved aside."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fed_core.config import to_tree
from fed_core.errors import ConfigError, StoreError
from fed_core.shared_files import shared_file as shared_file
from fed_core.wire.files import write_text

SUMMARY = "summary.json"
CONFIG = "demo.json"
#: The fleet file of a simulation, with its sources in place, and the folder that their paths start from.
FLEET = "fleet.json"


def keep_fleet(folder: Path, fleet: Any, base: Path) -> None:
    """Keep a simulation's fleet file in its folder; :func:`kept_fleet` reads it."""
    write_text(folder / FLEET, json.dumps({"base": str(base.absolute()), "fleet": to_tree(fleet)}, indent=2))


def kept_fleet(folder: Path) -> tuple[dict[str, Any], Path] | None:
    """Return a simulation's fleet file and the folder that its paths start from; None where none can be read."""
    try:
        tree = json.loads((folder / FLEET).read_text(encoding="utf-8"))
        return dict(tree["fleet"]), Path(tree["base"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def prepare(folder: Path, config: Any, *, resume: bool) -> bool:
    """Make ``folder`` ready; returns whether an interrupted run goes on in it.

    A run that is not resumed is moved to ``<folder>.N``, so that nothing is ever overwritten.

    Args:
        folder: the run's folder.
        config: JSON tree that a resumed run must share.
        resume: go on where the last run stopped.

    Raises:
        ConfigError: there is nothing that could be resumed, or it has another fleet.
    """
    if resume:
        _compare(folder, config)
    elif folder.exists() and any(folder.iterdir()):
        _move_aside(folder)
    _make(folder)
    write_text(folder / CONFIG, json.dumps(config, indent=2))
    return resume


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other processes from ``folder`` meanwhile, also from moving it aside; the lock lies beside it.

    Raises:
        StoreError: another process works in it, or its parent cannot be made.
    """
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        lock = folder.absolute().with_name(f".{folder.absolute().name}.lock").open("a")
    except OSError as err:
        raise StoreError(f"cannot make {folder}: {err.strerror}") from err
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"another fedperc works in {folder}; wait until it ends, or name another folder (--out)"
            raise StoreError(text) from None
        yield


def fresh(folder: Path) -> Path:
    """Make an empty folder; one that has something in it is moved to ``<folder>.N``."""
    if folder.exists() and any(folder.iterdir()):
        _move_aside(folder)
    _make(folder)
    return folder


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise StoreError(f"cannot make {folder}: {err.strerror}") from err


def _compare(folder: Path, config: Any) -> None:
    if (folder / SUMMARY).exists():
        raise ConfigError(
            f"the demo in {folder} has ended; see it with fedperc report {folder}, or start without --resume"
        )
    try:
        saved = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise ConfigError(f"{folder} holds no demo run that could be resumed; start without --resume") from err
    if saved != json.loads(json.dumps(config)):
        raise ConfigError(
            f"{folder} was started with another fleet, seed or data; start without --resume, or with those"
        )


def _move_aside(folder: Path) -> None:
    number = 1
    while (target := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(target)
