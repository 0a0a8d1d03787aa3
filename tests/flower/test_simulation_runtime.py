"""Flower's own simulation, with Ray and processes of its own, on the example as it is written."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fed_core.bookkeeping import RunBook
from fed_core.simulation import Simulation
from fed_models.toolbox import toolbox

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flower_app" / "fedcka_app.py"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_example_ends_with_the_models_of_the_simulation(tmp_path: Path) -> None:
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "flower")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=230, env={**os.environ, **quiet})
    assert done.returncode == 0, done.stderr
    assert "run flower finished" in done.stderr + done.stdout

    fleet = runpy.run_path(str(EXAMPLE))["fleet"]
    book = RunBook(tmp_path / "flower", fleet.run, fleet.run_config())
    plan = book.snapshot().plan
    book.close()
    assert plan is not None
    assert plan.finished

    wanted = Simulation(fleet, Path.cwd(), tmp_path / "simulated", toolbox(), threads=1).run()
    assert plan.blobs == wanted.blobs  # digests
    assert plan.models == wanted.models
