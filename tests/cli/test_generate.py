"""``fedperc generate``: writes small data sets, says what it did, and refuses folders of others."""

import inspect
from pathlib import Path

from typer.testing import CliRunner

from fed_cli.generate import generate_detection
from fed_cli.main import app, load_verbs
from fed_core.scenes.domains import DomainOptions

load_verbs()
RUN = CliRunner()
TINY = ["--frames", "4", "--test-frames", "1", "--width", "32", "--height", "24"]


def test_generate_bev_writes_the_folders_of_four_clients(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["generate", "bev", "--out", str(tmp_path / "bev"), *TINY])

    assert done.exit_code == 0, done.output
    assert "truck: 1 training and 1 test frames" in done.output and "synthetic data in" in done.output
    assert len(list((tmp_path / "bev").glob("*/client_*/*/*/*_camera3.png"))) == 8
    again = RUN.invoke(app, ["generate", "bev", "--out", str(tmp_path / "bev"), *TINY, "--seed", "1"])
    assert again.exit_code == 2 and "holds data of another recipe" in again.output


def test_generate_detection_writes_nuscenes_tables_of_chosen_domains(tmp_path: Path) -> None:
    small = ["--domains", "A,E", "--train-scenes", "1,0,0,0,1", "--val-scenes", "0,0,0,0,1", "--keyframes", "2"]
    tiny = [*small, "--width", "32", "--height", "16", "--beams", "4", "--azimuths", "30"]
    done = RUN.invoke(app, ["generate", "detection", "--out", str(tmp_path / "det"), *tiny])

    assert done.exit_code == 0, done.output
    assert "A boston_day_clear: 1 training and 0 validation scenes" in done.output
    assert "E singapore_night_rain: 1 training and 1 validation scenes" in done.output
    assert "singapore_day" not in done.output and "synthetic data in" in done.output
    assert "2 of 6 keyframes" in done.output and "6 of 6 keyframes" in done.output
    assert len(list((tmp_path / "det" / "samples" / "CAM_BACK").glob("*.jpg"))) == 6
    again = RUN.invoke(app, ["generate", "detection", "--out", str(tmp_path / "det"), *tiny, "--seed", "1"])
    assert again.exit_code == 2 and again.output.startswith("error: ") and again.output.count("\n") == 1
    assert "holds data of another recipe" in again.output
    bad = RUN.invoke(app, ["generate", "detection", "--out", str(tmp_path / "no"), "--train-scenes", "1,x"])
    assert bad.exit_code == 2 and "--train-scenes is '1,x'; give counts with commas between" in bad.output
    assert not (tmp_path / "no").exists()


def test_options_of_generate_detection_have_the_defaults_of_the_generator() -> None:
    flags = {name: p.default for name, p in inspect.signature(generate_detection).parameters.items() if name != "out"}
    options = DomainOptions()
    for name, default in flags.items():
        wanted = getattr(options, name)
        assert default == (",".join(map(str, wanted)) if isinstance(wanted, tuple) else wanted), name
