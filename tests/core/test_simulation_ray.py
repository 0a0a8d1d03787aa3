"""The same federation with its robots' work on real Ray processes: the same bits, and errors in one line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from fed_core.errors import ConfigError, DataError, EngineError  # noqa: E402
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry, SourceConfig  # noqa: E402
from fed_core.roles.messages import FleetPlan  # noqa: E402
from fed_core.simulation import Simulation  # noqa: E402
from fed_core.simulation.ray_cluster import RayOptions, cluster  # noqa: E402
from fed_core.simulation.ray_engine import RayEngine  # noqa: E402
from fed_core.simulation.ray_worker import RobotWorker, folder_of  # noqa: E402
from tests.core.training.tiny import toolbox, write_folder  # noqa: E402

pytestmark = [pytest.mark.usefixtures("fresh_process"), pytest.mark.timeout(180)]
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("ana", "ben", "cid")
TOOLBOX = "tests.core.training.tiny:toolbox"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for seed, robot_id in enumerate(NAMES):
        write_folder(folder / robot_id, 4 + 2 * seed, seed=seed)
    return folder


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    """Two workers on one Ray, for all tests that leave them alive."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "models"), *filter(None, [os.environ.get("PYTHONPATH")])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", paths)
        options = RayOptions(workers=2, object_store_bytes=100 << 20)
        with RayEngine(options, TOOLBOX, threads=1) as started:
            yield started


def fleet(strategy: str = "fedavg", **changes: Any) -> FleetConfig:
    settings: dict[str, Any] = {
        "run": "run",
        "robots": tuple(RobotEntry(name, SourceConfig(data=name)) for name in NAMES),
        "network": NamedOptions("tiny", {"height": 16, "width": 24}),
        "strategy": NamedOptions(strategy),
        "rounds": 2,
        "train": {"lr": 1e-2, "batch_size": 3, "local_epochs": 2},
    }
    return FleetConfig(**{**settings, **changes})


def simulate(config: FleetConfig, base: Path, folder: Path, engine: RayEngine | None = None) -> list[FleetPlan]:
    """Return the plan of every round: digests of all models, and what every robot starts from."""
    plans: list[FleetPlan] = []
    Simulation(config, base, folder, toolbox(), threads=1, engine=engine, on_plan=plans.append).run()
    return plans


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fedavg", "fedepth", "fedrep", "scaffold"])
def test_gives_the_bits_of_the_local_engine_in_every_round(
    base: Path, tmp_path: Path, engine: RayEngine, strategy: str
) -> None:
    """Fedepth describes, fedrep keeps layers of its own, scaffold sends extras and remembers."""
    local = simulate(fleet(strategy), base, tmp_path / "local")
    assert len(local) == 3
    assert simulate(fleet(strategy), base, tmp_path / "ray", engine) == local


@pytest.mark.slow
def test_a_run_begun_here_goes_on_there(base: Path, tmp_path: Path, engine: RayEngine) -> None:
    class CutOffError(Exception):
        pass

    def die(plan: FleetPlan) -> None:
        if plan.round == 2:
            raise CutOffError

    whole = simulate(fleet("fedrep"), base, tmp_path / "whole")
    with pytest.raises(CutOffError):
        Simulation(fleet("fedrep"), base, tmp_path / "cut", toolbox(), threads=1, on_plan=die).run()
    assert simulate(fleet("fedrep"), base, tmp_path / "cut", engine)[-1] == whole[-1]


@pytest.mark.slow
def test_mistakes_on_a_worker_are_told_as_here(base: Path, tmp_path: Path, engine: RayEngine) -> None:
    robots = (RobotEntry("ana", SourceConfig(data="ana")), RobotEntry("ben", SourceConfig("gone")))
    with pytest.raises(DataError, match=r"^robot ben: .*gone.* \(on node .+\)$"):
        simulate(fleet(robots=robots), base, tmp_path, engine)


@pytest.mark.slow
def test_more_workers_than_there_is_room_for(engine: RayEngine) -> None:
    text = r"Ray has \d+ CPU\(s\) and 0 GPU\(s\), too little for 2 worker\(s\) of 1 CPU\(s\) and 0.5 GPU\(s\); lower"
    with pytest.raises(EngineError, match=text), RayEngine(RayOptions(workers=2, gpus=0.5), TOOLBOX):
        pass


@pytest.mark.slow
def test_a_killed_worker_ends_in_one_line_and_the_run_goes_on(base: Path, tmp_path: Path, engine: RayEngine) -> None:
    """Last of this module: the workers are gone afterwards."""
    whole = simulate(fleet(), base, tmp_path / "whole")

    def kill(plan: FleetPlan) -> None:
        for worker in engine._workers if plan.round == 2 else ():
            ray.kill(worker)

    left = folder_of(engine._token)
    simulation = Simulation(fleet(), base, tmp_path / "cut", toolbox(), threads=1, engine=engine, on_plan=kill)
    with pytest.raises(EngineError, match=r"round 2 of robot \w+ failed: its process was killed .*; start the same"):
        simulation.run()
    assert simulate(fleet(), base, tmp_path / "cut")[-1] == whole[-1]
    assert left.is_dir()
    engine.__exit__(None, None, None)
    assert not left.exists(), "killed workers delete nothing themselves"


#: A Ray of its own: programs that print what came of it.
SPILL = """
import sys
from pathlib import Path
import numpy as np
from fed_core.simulation.ray_cluster import RayOptions, cluster
folder = Path(sys.argv[1])
with cluster(RayOptions(workers=1, spill=folder, object_store_bytes=80 << 20), 1) as ray:
    kept = [ray.put(np.full(30 << 20, number, np.uint8)) for number in range(5)]
    print([int(ray.get(one)[-1]) for one in kept])
    print(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) >= 70 << 20)
"""
NODES = """
from ray.cluster_utils import Cluster
from fed_core.errors import EngineError
from fed_core.simulation.ray_cluster import RayOptions, fitting
from fed_core.simulation.ray_engine import RayEngine
two = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "num_gpus": 1, "include_dashboard": False})
two.add_node(num_cpus=1)
two.wait_for_nodes()
TOOLBOX = "fed_core.testing.network:toolbox"
with RayEngine(RayOptions(workers=2, address=two.address, gpus=0.0), TOOLBOX) as engine:
    import ray
    print(fitting(ray, RayOptions(gpus=0.0), 2))
    node = lambda worker: ray.get_runtime_context().get_node_id()
    print(engine.workers, len({ray.get(worker.__ray_call__.remote(node)) for worker in engine._workers}))
with RayEngine(RayOptions(address=two.address, gpus=0.5), TOOLBOX) as engine:
    print(engine.workers)
try:
    RayEngine(RayOptions(workers=2, address=two.address, gpus=0.6), TOOLBOX).__enter__()
except EngineError as err:
    print(err)
two.shutdown()
"""


def printed(program: str, *arguments: str) -> list[str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "models"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_does_not_fit_into_memory_goes_to_the_folder_and_comes_back(tmp_path: Path) -> None:
    """150 MiB in a store of 80 MiB."""
    assert printed(SPILL, str(tmp_path / "spill")) == ["[0, 1, 2, 3, 4]", "True"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_spread_over_nodes_and_share_a_gpu() -> None:
    """Two nodes on one machine, and a GPU that only Ray counts: its shares are what is tested, not CUDA."""
    *told, refused = printed(NODES)
    assert told == ["(1, 0.0)", "2 2", "2"], "two threads fit once on three CPUs, and not on the one of the other node"
    assert refused.startswith("Ray has 4 CPU(s) and 1 GPU(s), too little for 2 worker(s) of 1 CPU(s) and 0.6 GPU(s)")


def test_a_worker_leaves_this_rounds_models_to_the_others_of_its_node(tmp_path: Path) -> None:
    """Two workers begin a round at the same time, and both find no folder of it."""
    import tempfile

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        worker = RobotWorker(TOOLBOX, {}, str(tmp_path), "run", 1)
        for name in ("0", "1", "2", "10"):
            (folder_of("run") / "models" / name).mkdir(parents=True)
        patch.chdir(ROOT)
        worker._forget_before(2)
        assert sorted(path.name for path in (folder_of("run") / "models").iterdir()) == ["10", "2"]
        worker.clean()
    assert not list(tmp_path.iterdir())


def test_without_ray_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ConfigError, match=r"the engine ray needs Ray, .*; run: pip install 'fed_perception\[ray\]'"),
        cluster(RayOptions(), 1),
    ):
        pass
