"""``fedperc prepare m3ed``."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_core.data.open import open_sequence
from tests.core.data import m3ed_fixture as made

load_verbs()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One recording in its folder, two flat ones; the third is none of the split."""
    root = tmp_path_factory.mktemp("m3ed")
    made.write_recording(root / "spot_forest_hard", "spot_forest_hard")
    made.write_recording(root, "car_forest_sand_1")
    made.write_recording(root, "my_own")
    (root / "car_forest_sand_2_data.h5").touch()
    return root


def prepare(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["prepare", "m3ed", *map(str, arguments)])


def test_the_split_is_prepared_and_the_rest_is_told(data: Path, tmp_path: Path) -> None:
    result = prepare("--data", data, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "skipped car_forest_sand_2: a test file of the data set, published without depth" in result.output
    assert "skipped my_own: not in the split" in result.output
    assert "spot_forest_hard: 4 frames, 0 without depth; |dt| <=1 ms 0, <=2 ms 2" in result.output
    assert f"2 of 2 recordings in {tmp_path}" in result.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["car_forest_sand_1", "spot_forest_hard"]
    assert len(open_sequence(tmp_path / "car_forest_sand_1")) == 4
    assert prepare("--data", data, "--out", tmp_path).exit_code == 0


def test_chosen_recordings_and_options(data: Path, tmp_path: Path) -> None:
    result = prepare(
        "--data", data, "--out", tmp_path, "--sequences", "spot_forest_hard", "--pairing", "strict", "--max-frames", "1"
    )
    assert result.exit_code == 0, result.output
    assert [p.name for p in tmp_path.iterdir()] == ["spot_forest_hard"]
    assert len(open_sequence(tmp_path / "spot_forest_hard")) == 1


def test_one_broken_recording_does_not_stop_the_others(tmp_path: Path) -> None:
    made.write_recording(tmp_path / "in", "spot_forest_hard")
    made.write_recording(tmp_path / "in", "spot_forest_easy_1")
    broken = tmp_path / "in" / "spot_forest_easy_1_data.h5"
    broken.write_bytes(broken.read_bytes()[:5000])
    result = prepare("--data", tmp_path / "in", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert f"failed spot_forest_easy_1: {broken} is cut off" in result.output
    assert "1 of 2 recordings in" in result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--sequences", "spot_forest_easy_2"],
            "error: no recording spot_forest_easy_2 there; found: car_forest_sand_1",
        ),
        (["--pairing", "loose"], "error: M3edOptions.pairing is 'loose'; choose one of strict, pose"),
        (["--sequences", "my_own"], "nothing to prepare: none of these recordings is in the split"),
    ],
)
def test_bad_input_is_told(data: Path, tmp_path: Path, arguments: list[str], text: str) -> None:
    result = prepare("--data", data, "--out", tmp_path, *arguments)
    assert result.exit_code == 2
    assert text in result.output
