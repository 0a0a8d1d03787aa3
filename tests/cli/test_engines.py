"""Where work is done: options of the engine that was not chosen are refused."""

import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs

load_verbs()


def error_of(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2
    return " ".join(result.stderr.split())


def test_options_of_the_other_engine_are_refused() -> None:
    assert error_of("simulate", "--engine", "slurm") == "error: no engine is called 'slurm'; known: local, ray"
    for option in (("--workers", "2"), ("--gpus-per-robot", "0.5"), ("--address", "auto"), ("--spill", "there")):
        told = f"error: {option[0]} belongs to --engine ray; add that, or leave {option[0]} out"
        assert error_of("simulate", *option) == told
    for option in (("--gpus-per-run", "0.5"), ("--address", "auto")):
        told = f"error: {option[0]} belongs to --engine ray; add that, or leave {option[0]} out"
        assert error_of("study", "depth-hpe", *option) == told
    pytest.importorskip("ray")
    both = error_of("simulate", "--engine", "ray", "--address", "auto", "--spill", "there")
    assert both == "error: --spill is for a Ray that is started here; a cluster's is set where it is started"


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    told = error_of("simulate", "--engine", "ray")
    assert told.startswith("error: the engine ray needs Ray, which cannot be imported (")
    assert told.endswith("; run: pip install 'fed_perception[ray]'")
