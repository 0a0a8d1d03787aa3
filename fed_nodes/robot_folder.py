"""What a robot keeps on its disk: who it is, its models, its last report."""

import fcntl
import json
import secrets
from pathlib import Path
from typing import TextIO

from fed_core.errors import FolderInUseError, StoreError
from fed_core.roles.messages import FleetPlan, UpdateReport
from fed_core.store.blobs import BlobStore
from fed_core.wire.files import free_bytes, write_text


class RobotFolder:
    """One robot's folder, made if missing and held by one process at a time.

    Attributes:
        path: the folder.
        store: models and updates.
        instance: random name of this installation, made on the first start.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StoreError(f"cannot make the robot's folder {path}: {err.strerror}") from err
        self.path = path
        self._lock = _locked(path)
        self.store = BlobStore(path / "blobs")
        self.instance = _instance(path / "instance")

    @property
    def free_bytes(self) -> int:
        """Free space on its disk."""
        return free_bytes(self.path)

    def save_report(self, report: UpdateReport) -> None:
        """Keep the last report; its blobs are in the store already."""
        write_text(self.path / "report.json", json.dumps(report.to_json()))

    def saved_report(self) -> UpdateReport | None:
        """Return the last report, if its blobs are still there."""
        path = self.path / "report.json"
        try:
            report = UpdateReport.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None  # none yet, or cut off: the round is trained again, with the same result
        return report if all(self.store.has(blob.digest) for blob in report.blobs.values()) else None

    def tidy(self, plan: FleetPlan) -> None:
        """Delete models of earlier rounds; the last report's blobs stay, the aggregator may still read them."""
        keep = {blob.digest for blob in plan.blobs.values()}
        report = self.saved_report()
        if report is not None:
            keep |= {blob.digest for blob in report.blobs.values()}
        self.store.collect(keep)


def _locked(folder: Path) -> TextIO:
    """Return a file that holds the folder until this process ends, however it ends."""
    file = (folder / "lock").open("w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        file.close()
        raise FolderInUseError(f"another robot runs in {folder}; give each its own state_dir") from err
    return file


def _instance(path: Path) -> str:
    if not path.exists():
        write_text(path, secrets.token_hex(8))
    return path.read_text(encoding="utf-8").strip()
