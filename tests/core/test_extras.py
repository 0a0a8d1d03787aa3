"""A package that is not installed is told in one line, with the extra that brings it."""

import sys
from pathlib import Path

import pytest

from fed_core.data.nuscenes.tables import TABLES, open_tables
from fed_core.errors import ConfigError, DataError
from fed_core.extras import install, needs
from fed_core.metrics.detection.devkit import protocol


def test_an_absent_package_is_told_with_its_extra() -> None:
    with pytest.raises(ConfigError) as told, needs("ray", "the engine ray needs Ray"):
        import no_such_module_of_ours  # noqa: F401
    assert str(told.value) == (
        "the engine ray needs Ray, which cannot be imported (No module named 'no_such_module_of_ours'); "
        "run: pip install 'fed_perception[ray]'"
    )


def test_a_package_that_breaks_while_it_is_imported_says_why() -> None:
    with pytest.raises(DataError, match=r"\(libGL\.so\.1: no such file\); run: pip") as told:
        with needs("depth", "HDF5 needs h5py", DataError):
            raise ImportError("libGL.so.1:\n  no such file")
    assert isinstance(told.value.__cause__, ImportError)


def test_other_errors_pass_and_what_is_there_is_imported() -> None:
    with pytest.raises(KeyError), needs("depth", "x"):
        raise KeyError("y")
    with needs("depth", "x"):
        import json
    assert sys.modules["json"] is json


def test_the_command_is_one_that_a_shell_takes() -> None:
    assert install("bev") == "pip install 'fed_perception[bev]'"


def test_without_the_devkit_scoring_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nuscenes.eval.common.config", None)
    protocol.cache_clear()
    with pytest.raises(ConfigError, match=r"scoring detections needs nuscenes-devkit, .*'fed_perception\[nuscenes\]'$"):
        protocol()


def test_without_the_devkit_tables_name_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "v1.0-mini").mkdir()
    for name in TABLES:
        (tmp_path / "v1.0-mini" / f"{name}.json").write_text("[]")
    monkeypatch.setitem(sys.modules, "nuscenes.nuscenes", None)
    with pytest.raises(ConfigError, match=r"^nuScenes needs nuscenes-devkit, .*'fed_perception\[nuscenes\]'$"):
        open_tables(tmp_path)
