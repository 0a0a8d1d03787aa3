"""Ray's processes: started here, or joined where somebody else started them, and its errors in one line each."""

import logging
import os
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from fed_core import __version__
from fed_core.errors import EngineError
from fed_core.extras import needs

#: What Ray may take for its start [s].
START_S = 120.0
AGAIN = "start the same command again: what is finished is kept"
#: Our own variables begin so.
_OURS = "FED_PERCEPTION_"


@dataclass(frozen=True)
class RayOptions:
    """How Ray is used.

    Attributes:
        workers: processes; 0 = as many as CPUs and GPUs allow.
        gpus: share of a GPU for each; None = a whole one each where there are GPUs, else none.
        address: of a cluster that runs ("auto", "host:6379", "ray://host:10001"); "" = Ray is started for the run.
        spill: folder for objects that do not fit into memory; None = Ray's own.
        object_store_bytes: memory of Ray's object store; 0 = Ray's own choice.
        lower: options of the command that make workers fit.
    """

    workers: int = 0
    gpus: float | None = None
    address: str = ""
    spill: Path | None = None
    object_store_bytes: int = 0
    lower: str = "--workers, --threads or --gpus-per-robot"


def import_ray() -> Any:
    """Return the package.

    Raises:
        ConfigError: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells nobody about itself
    with needs("ray", "the engine ray needs Ray"):
        import ray
    return ray


@contextmanager
def cluster(options: RayOptions, threads: int) -> Iterator[Any]:
    """Join or start Ray, and leave it as it was.

    Args:
        options: how.
        threads: CPUs of a worker.

    Raises:
        EngineError: Ray cannot be reached or started.
    """
    ray = import_ray()
    if ray.is_initialized():  # the caller's own
        yield ray
        return
    then = "name a cluster that runs (ray start --head), or leave out --address" if options.address else AGAIN
    what = "Ray cannot be reached" if options.address else "Ray cannot be started"
    with warnings.catch_warnings(), _own_sigterm(), one_line(what, options.address, then):
        warnings.simplefilter("ignore", FutureWarning)  # about its own settings
        _begin(ray, options, threads)
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what the program does when it is asked to end: Ray puts a handler of its own in place."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _begin(ray: Any, options: RayOptions, threads: int) -> None:
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if options.address:
        ray.init(address=options.address, **quiet)
        return
    more: dict[str, Any] = {}
    wanted = options.workers * threads
    if wanted > len(os.sched_getaffinity(0)):
        more["num_cpus"] = wanted
    if options.object_store_bytes:
        more["object_store_memory"] = options.object_store_bytes
    if options.spill is not None:
        options.spill.mkdir(parents=True, exist_ok=True)
        more["object_spilling_directory"] = str(options.spill.absolute())
    ray.init(address="local", include_dashboard=False, **quiet, **more)


def fitting(ray: Any, options: RayOptions, threads: int) -> tuple[int, float]:
    """Return how many workers there shall be, and the share of a GPU for each.

    Raises:
        EngineError: fewer fit than were asked for.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus, there = (sum(float(node.get(kind, 0.0)) for node in nodes) for kind in ("CPU", "GPU"))
    gpus = options.gpus if options.gpus is not None else min(there, 1.0)
    fit = sum(_fits(node, threads, gpus) for node in nodes)
    wanted = options.workers or max(fit, 1)
    if wanted > fit:
        need = f"{wanted} worker(s) of {threads} CPU(s) and {gpus:g} GPU(s)"
        text = f"Ray has {cpus:g} CPU(s) and {there:g} GPU(s), too little for {need}"
        raise EngineError(f"{text}; lower {options.lower}")
    return wanted, gpus


def _fits(node: Mapping[str, float], threads: int, gpus: float) -> int:
    """Return how many workers find room on one node, which none shares with another node."""
    by_cpus = int(node.get("CPU", 0.0)) // threads
    return by_cpus if gpus <= 0 else min(by_cpus, int(node.get("GPU", 0.0) / gpus + 1e-9))


def start_workers(
    ray: Any, kind: type, arguments: Sequence[Any], *, count: int, cpus: int, gpus: float
) -> tuple[list[Any], list[dict[str, str]]]:
    """Return actors, spread over the nodes, and what each answered.

    Args:
        ray: the package.
        kind: their class; its method ``ready()`` tells node and version.
        arguments: of its constructor.
        count: actors.
        cpus: of each.
        gpus: of each.

    Raises:
        EngineError: they do not start, or a node has another version.
    """
    remote = ray.remote(kind).options(
        num_cpus=cpus, num_gpus=gpus, max_restarts=0, scheduling_strategy="SPREAD"
    )  # fmt: skip
    with one_line("workers of Ray do not start"):
        workers = [remote.remote(*arguments) for _ in range(count)]
        told = ray.get([worker.ready.remote() for worker in workers], timeout=START_S)
    for other in told:
        if other["version"] != __version__:
            text = f"node {other['node']} has fed_perception {other['version']}, this machine {__version__}"
            raise EngineError(f"{text}; install the same version on all nodes")
    return workers, told


def our_variables() -> dict[str, str]:
    """Return the variables of this process that work on other machines reads, too."""
    return {name: value for name, value in os.environ.items() if name.startswith(_OURS)}


@contextmanager
def one_line(what: str, where: str = "", then: str = AGAIN) -> Iterator[None]:
    """Turn any error of Ray into one line.

    Args:
        what: was tried.
        where: address or robot.
        then: what to do.
    """
    ray = import_ray()
    try:
        yield
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, TimeoutError, ValueError, OSError) as err:
        at = f" ({where})" if where else ""
        raise EngineError(f"{what}{at}: {_told(ray, err)}; {then}") from err


def _told(ray: Any, err: BaseException) -> str:
    """Return the reason in a few words."""
    known = ray.exceptions
    if isinstance(err, known.OutOfMemoryError):
        return "memory is out on its node, use fewer workers or smaller batches"
    if isinstance(err, known.RayActorError | known.WorkerCrashedError | known.NodeDiedError):
        return "its process was killed (memory out?) or its node is gone, use fewer workers if that happens again"
    if isinstance(err, known.ObjectStoreFullError | known.OutOfDiskError):
        return "Ray's object store and the disk behind it are full, free space or name a folder with --spill"
    if isinstance(err, known.RayTaskError) and err.cause is not None:
        err = err.cause
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    return f"{type(err).__name__}: {lines[-1][:300] if lines else 'no text'}"
