"""A study on real Ray processes: the same files as in processes of this machine, and losses in one line."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from fed_core.errors import EngineError  # noqa: E402
from fed_core.simulation.ray_cluster import RayOptions, cluster  # noqa: E402
from fed_core.study.base import OnStep  # noqa: E402
from fed_core.study.pool import Failure, PieceWork  # noqa: E402
from fed_core.study.ray_workers import RayWorkers  # noqa: E402
from fed_core.study.runner import Progress, Study  # noqa: E402
from tests.core.study.small import config, write_stores  # noqa: E402
from tests.core.training.tiny import toolbox  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
ROOT = Path(__file__).resolve().parents[3]
RAY = RayOptions(workers=2)


@pytest.fixture(scope="module", autouse=True)
def one_ray() -> Iterator[None]:
    """One Ray for all tests of this file."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "models"), *filter(None, [os.environ.get("PYTHONPATH")])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", paths)
        with cluster(RayOptions(workers=2, object_store_bytes=100 << 20), 1):
            yield


@dataclass(frozen=True)
class Piece:
    """Notes that it was begun, and ends its process the first times."""

    name: str
    deaths: int = 0

    def write(self, folder: Path, on_step: OnStep) -> None:
        begun = folder / self.name
        with begun.open("a") as file:
            file.write("x")
        on_step(1, 2)
        if len(begun.read_text()) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.name == "full":
            raise OSError(28, "No space left on device")


#: What two runs of equal seeds may differ in: times, and the digest of code that somebody edits meanwhile.
_OF_A_DAY = ("seconds", "train_s", "code")


def lasting(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: lasting(value) for key, value in tree.items() if key not in _OF_A_DAY}
    return [lasting(item) for item in tree] if isinstance(tree, list) else tree


def files(folder: Path) -> dict[str, Any]:
    """Return all that the finished runs of a study left: figures but for their times, pictures byte for byte."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in (folder / "cells").rglob("*") if p.is_file() and "run" not in p.parts):
        lines = {".json": [path.read_bytes()], ".jsonl": path.read_bytes().splitlines()}.get(path.suffix)
        found[str(path.relative_to(folder))] = (
            path.read_bytes() if lines is None else [lasting(json.loads(x)) for x in lines]
        )
    return found


def test_every_file_is_that_of_a_local_study_and_nothing_runs_twice(tmp_path: Path) -> None:
    stores = write_stores(tmp_path / "stores")
    settings = config("fedavg", "fedepth", "scaffold:control=path", seeds=2, rounds=2)  # path needs plain SGD: fails

    def study(folder: Path, options: RayOptions | None) -> Progress:
        return Study(settings, folder, toolbox, data=stores, jobs=2, ray=options).run()

    local, there = study(tmp_path / "local", None), study(tmp_path / "ray", RAY)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "ray").rglob("result.json")}
    again = study(tmp_path / "ray", RAY)

    assert (there.done, len(times)) == (6, 4)
    assert sorted(f.text for f in there.failures) == sorted(f.text for f in local.failures)
    assert len(files(tmp_path / "local")) >= 8
    assert files(tmp_path / "ray") == files(tmp_path / "local")
    assert (again.done, again.found) == (6, 4)
    assert all(path.stat().st_mtime_ns == when for path, when in times.items())
    assert not list((tmp_path / "ray").glob(".seen*"))
    assert json.loads((tmp_path / "ray" / "study.json").read_text())["machine"].endswith("2 processes")


def test_steps_are_told_and_a_full_disk_fails_one_work(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with RayWorkers(RAY, toolbox, tmp_path, lambda *step: told.append(step)) as pool:
        assert list(pool.write([Piece("one"), Piece("two")], tmp_path)) == [None, None]
        work = next(iter(pool.finished([PieceWork(Piece("full"), tmp_path)])))
    assert {("one", 1, 2), ("two", 1, 2)} <= set(told)
    assert work[1] == Failure("full", "[Errno 28] No space left on device")


def test_work_of_a_killed_process_is_done_once_more_then_it_is_told(tmp_path: Path) -> None:
    with RayWorkers(RAY, toolbox, tmp_path) as pool:
        assert list(pool.write([Piece("hurt", deaths=1), Piece("well")], tmp_path)) == [None, None]
        assert ((tmp_path / "hurt").read_text(), (tmp_path / "well").read_text()) == ("xx", "x")
        with pytest.raises(EngineError, match=r"^dead failed: its process was killed .*; start the same command again"):
            list(pool.write([Piece("dead", deaths=9)], tmp_path))
        assert (tmp_path / "dead").read_text() == "xx"


def test_a_node_that_does_not_see_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that only this process has: what another machine without the shared disk would find."""
    monkeypatch.setattr(Path, "touch", lambda self: None)
    text = r"^node .+ does not see the study's folder .*; name one with --out that lies under the same path on all"
    with pytest.raises(EngineError, match=text), RayWorkers(RAY, toolbox, tmp_path):
        pass


def test_too_few_processors_are_told_with_the_options_of_a_study() -> None:
    options = RayOptions(workers=2, gpus=0.5, lower="--jobs or --gpus-per-run")
    text = r"too little for 2 worker\(s\) of 1 CPU\(s\) and 0.5 GPU\(s\); lower --jobs or --gpus-per-run$"
    with pytest.raises(EngineError, match=text), RayWorkers(options, toolbox, Path()):
        pass
