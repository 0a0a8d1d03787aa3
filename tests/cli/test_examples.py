"""The examples run as they are written."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_clusters_overlap() -> None:
    lines = run("cluster_descriptors.py")
    clusters = [line.split(": ")[1].split(", ") for line in lines if line.startswith("cluster ")]
    assert len(clusters) > 1
    assert sum("dog_edge_of_town" in cluster for cluster in clusters) > 1


@pytest.mark.slow
def test_fleet_leaves_a_model(tmp_path: Path) -> None:
    lines = run("simulate_fleet.py", str(tmp_path))
    assert len(lines) == 1
    path, size = lines[0].removeprefix("global: ").removesuffix(" bytes").split(", ")
    assert Path(path).stat().st_size == int(size)


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"cluster_descriptors.py", "simulate_fleet.py"}
