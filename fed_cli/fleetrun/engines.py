"""Where the work of a simulation is done: in this process, or in those that Ray runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fed_core.errors import ConfigError

if TYPE_CHECKING:
    from fed_core.simulation.engines import Engine
    from fed_core.simulation.ray_cluster import RayOptions

LOCAL, RAY = ENGINES = ("local", "ray")

EngineName = Annotated[str, typer.Option("--engine", help="local, or ray: many processes, one machine or many.")]
Workers = Annotated[
    Optional[int],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
    typer.Option(min=1, help="ray: processes; default: as many as CPUs and GPUs allow."),
]
GpusPerRobot = Annotated[
    Optional[float],  # noqa: UP007, UP045
    typer.Option(min=0.0, help="ray: share of a GPU for each process; default: a whole one where there are any."),
]
GpusPerRun = Annotated[
    Optional[float],  # noqa: UP007, UP045
    typer.Option(min=0.0, help="ray: share of a GPU for each run; default: a whole one where there are any."),
]
Address = Annotated[
    str, typer.Option(help="ray: a cluster that runs (auto, HOST:6379, ray://HOST:10001); default: started here.")
]
Spill = Annotated[
    Optional[Path],  # noqa: UP007, UP045
    typer.Option(help="ray: folder for models that do not fit into its memory; default: Ray's own."),
]


def ray_options(
    engine: str,
    workers: int | None,
    gpus: float | None,
    address: str,
    spill: Path | None = None,
    *,
    of_study: bool = False,
) -> "RayOptions | None":
    """Return how Ray is used; None where it is not.

    Args:
        engine: its name.
        workers: processes; None = as many as fit.
        gpus: share of a GPU for each; None = a whole one where there are any.
        address: of a cluster that runs, or "".
        spill: folder for what does not fit into Ray's memory.
        of_study: options have the names that ``fedperc study`` gives them; its processes have one thread.

    Raises:
        ConfigError: there is no such engine, or an option belongs to the other one.
    """
    if engine not in ENGINES:
        raise ConfigError(f"no engine is called {engine!r}; known: {', '.join(ENGINES)}")
    share = "--gpus-per-run" if of_study else "--gpus-per-robot"
    if engine == LOCAL:
        own = None if of_study else workers  # a study's --jobs are of both engines
        given = {"--workers": own, share: gpus, "--address": address or None, "--spill": spill}
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise ConfigError(f"{wrong[0]} belongs to --engine ray; add that, or leave {wrong[0]} out")
        return None
    from fed_core.simulation.ray_cluster import RayOptions, import_ray

    import_ray()
    if address and spill is not None:
        raise ConfigError("--spill is for a Ray that is started here; a cluster's is set where it is started")
    lower = f"--jobs or {share}" if of_study else f"--workers, --threads or {share}"
    return RayOptions(workers or 0, gpus, address, spill, lower=lower)


@contextmanager
def engine_of(options: "RayOptions | None", threads: int) -> Iterator["Engine | None"]:
    """Yield the engine of a simulation; None = the one that works in this process."""
    if options is None:
        yield None
        return
    from fed_core.simulation.ray_engine import RayEngine

    with RayEngine(options, "fed_models.toolbox:toolbox", threads=threads) as engine:
        yield engine
