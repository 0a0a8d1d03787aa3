"""What a robot keeps on its disk."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fed_core.errors import ConfigError, StoreError
from fed_core.roles.messages import FleetPlan, RunConfig, UpdateReport
from fed_core.types import BlobRef
from fed_nodes.aggregator import RunParameters
from fed_nodes.robot_folder import RobotFolder

RUN = RunConfig("fedavg", {}, "depth", "adabins_s", {}, {}, 8, 0)


def put(folder: RobotFolder, data: bytes) -> BlobRef:
    scratch = folder.store.scratch()
    scratch.write_bytes(data)
    return folder.store.put_file(scratch)


def report(blob: BlobRef) -> UpdateReport:
    return UpdateReport("spot", "a1", "run", 1, RUN.digest, 9, 0.5, 1.0, {"weights": blob})


def test_instance_outlives_a_restart_and_differs_between_robots(tmp_path: Path) -> None:
    first = RobotFolder(tmp_path / "a").instance
    assert RobotFolder(tmp_path / "a").instance == first != RobotFolder(tmp_path / "b").instance


def test_report_is_kept_with_its_blobs(tmp_path: Path) -> None:
    folder = RobotFolder(tmp_path)
    assert folder.saved_report() is None
    kept = report(put(folder, b"weights"))
    folder.save_report(kept)
    assert folder.saved_report() == kept
    (tmp_path / "report.json").write_text((tmp_path / "report.json").read_text()[:-9])
    assert folder.saved_report() is None, "a report that was cut off counts as none"
    folder.save_report(report(BlobRef("ab" * 32, 5)))
    assert folder.saved_report() is None, "a report without its blobs counts as none"


def test_tidy_keeps_the_plan_and_the_last_report(tmp_path: Path) -> None:
    folder = RobotFolder(tmp_path)
    old, current, mine = put(folder, b"old"), put(folder, b"current"), put(folder, b"mine")
    folder.save_report(report(mine))
    folder.tidy(FleetPlan("run", RUN, 2, False, {}, (), {"global": current}, ("global",)))
    assert [folder.store.has(blob.digest) for blob in (old, current, mine)] == [False, True, True]


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make the robot's folder .*/file/robot: Not a directory"):
        RobotFolder(tmp_path / "file" / "robot")


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    kept = RobotFolder(tmp_path)
    code = f"import pathlib, fed_nodes.robot_folder as robot; robot.RobotFolder(pathlib.Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"FolderInUseError: another robot runs in {tmp_path}; give each its own state_dir" in done.stderr
    assert kept.free_bytes > 0


def test_a_run_must_be_named_as_a_folder() -> None:
    with pytest.raises(ConfigError, match=re.escape("run is '../up'; it names a folder: no slash, no dot first")):
        RunParameters(run="../up")
