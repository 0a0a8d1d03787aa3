"""``fedperc generate bev``: writes a small data set, says what it did, and refuses folders of others."""

from pathlib import Path

from typer.testing import CliRunner

from fed_cli.main import app, load_verbs

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
