"""The folder of an export appears whole, or all stays as it was."""

import os
from pathlib import Path

import pytest

from fed_cli.exporting.package import appearing
from fed_core.errors import StoreError


def test_an_export_that_cannot_take_its_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.pt").write_text("old")
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        if source.name == "new":
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(StoreError, match=f"cannot read or write {out}: Input/output error"), appearing(out) as folder:
        (folder / "model.pt").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "model.pt").read_text() == "old"
