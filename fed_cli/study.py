"""``fedperc study``: methods compared on a scenario, over seeds, with a report."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fed_cli.fleetrun.engines import LOCAL, Address, EngineName, GpusPerRun, ray_options
from fed_cli.main import app

if TYPE_CHECKING:
    from fed_core.study.config import ModelSettings, StudyConfig

GENERATED = "generated"
FAILED = 1

Name = Annotated[str, typer.Argument(help="Study (depth-hpe, depth-bmr, bev, detection-domains), or a study file.")]
Data = Annotated[
    str, typer.Option(help="'generated', or a folder that `fedperc prepare` wrote, or the data set itself.")
]
Strategies = Annotated[
    Optional[str],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
    typer.Option(help="Strategies, with commas: NAME or NAME:OPTION=VALUE+...; default: the study's."),
]


@app.command()
def study(
    name: Name,
    data: Data = GENERATED,
    models: Annotated[Optional[str], typer.Option(help="Networks, with commas; default: the study's.")] = None,  # noqa: UP007, UP045
    strategies: Strategies = None,
    seeds: Annotated[Optional[int], typer.Option(min=1, help="Seeds 0, 1, ...; default: the study's.")] = None,  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
    rounds: Annotated[Optional[int], typer.Option(min=1, help="Rounds; default: the study's.")] = None,  # noqa: UP007, UP045
    use_case: Annotated[Optional[str], typer.Option(help="bev: clients (uc1 to uc4); default: the study's.")] = None,  # noqa: UP007, UP045
    out: Annotated[
        Optional[Path],  # noqa: UP007, UP045
        typer.Option(help="Folder, default runs/NAME; an interrupted study in it goes on."),
    ] = None,
    publish: Annotated[Optional[Path], typer.Option(help="Folder that also gets the report as Markdown.")] = None,  # noqa: UP007, UP045
    jobs: Annotated[Optional[int], typer.Option(min=1, help="Processes; default: one per CPU.")] = None,  # noqa: UP007, UP045
    engine: EngineName = LOCAL,
    gpus_per_run: GpusPerRun = None,
    address: Address = "",
) -> None:
    """Compare federated methods on sequences that nobody trained on, and write a report.

    fedperc study depth-hpe

    fedperc study bev --strategies fedavg,feddwa --seeds 1 --rounds 6

    fedperc study depth-hpe --models adabins_s --strategies fedavg,fedepth,fedepth:link=min --seeds 1 --rounds 4

    fedperc study depth-hpe --engine ray --address auto --out /shared/runs/depth-hpe
    """
    from rich.console import Console

    from fed_cli.fleetrun.study import play, recordings, show_result

    ray = ray_options(engine, jobs, gpus_per_run, address, of_study=True)
    config = _chosen(_with_use_case(_load(name), use_case, Path(data)), models, strategies, seeds, rounds)
    folder = out or Path("runs") / Path(name).stem
    source = None if data == GENERATED else recordings(config.scenario, Path(data), folder)
    console = Console()
    progress = play(
        config,
        folder,
        console,
        data=source,
        jobs=jobs or os.cpu_count() or 1,
        ray=ray,
        command=shlex.join(["fedperc", *sys.argv[1:]]),
    )
    show_result(console, folder, progress, publish)
    if progress.failures:
        raise typer.Exit(FAILED)


def _load(name: str) -> "StudyConfig":
    from fed_cli.fleetrun.folder import shared_file
    from fed_core.config import read_yaml
    from fed_core.errors import ConfigError
    from fed_core.study.config import load_study

    if name.endswith((".yaml", ".yml")):
        return load_study(Path(name))
    folder = shared_file("config/studies")
    known = sorted(path.stem for path in folder.glob("*.yaml") if "scenario" in (read_yaml(path) or {}))
    if Path(name).is_dir():
        raise ConfigError(f"{name} is a folder; name a study or a study file, and the folder with --out or --data")
    if name not in known:
        raise ConfigError(f"no study is called {name!r}; known: {', '.join(known)}, or name a study file (.yaml)")
    return load_study(folder / f"{name}.yaml")


def _with_use_case(config: "StudyConfig", name: str | None, data: Path) -> "StudyConfig":
    """Return the study of another use case; data that tells its own clients has none."""
    from fed_core.data.opv2v.use_cases import OWN_FILE, load_use_case
    from fed_core.errors import ConfigError

    if name is None:
        return config
    if config.scenario != "bev":
        raise ConfigError(f"--use-case belongs to studies of the scenario 'bev', this one is {config.scenario!r}")
    if (data / OWN_FILE).is_file():
        raise ConfigError(f"{data} tells its own clients ({OWN_FILE}); leave out --use-case")
    load_use_case(name)
    return replace(config, bev=replace(config.bev, use_case=name))


def _chosen(
    config: "StudyConfig", models: str | None, strategies: str | None, seeds: int | None, rounds: int | None
) -> "StudyConfig":
    """Return the study with what the command line says; chosen strategies run with every chosen network."""
    from fed_core.errors import ConfigError
    from fed_core.study.config import Ablations, ModelSettings
    from fed_models.base import networks

    names, labels = _split("--models", models), _split("--strategies", strategies)
    for name in names:
        networks.get(name)
    shared = next(iter(config.models.values()))
    found = {name: config.models.get(name) or ModelSettings(train=shared.train) for name in names or config.models}
    if labels:
        found = {name: replace(settings, strategies=labels) for name, settings in found.items()}
    missing = [name for name, settings in found.items() if not settings.strategies]
    if missing:
        raise ConfigError(f"the study has no strategies for {', '.join(missing)}; name them with --strategies")
    keep_more = not labels and config.ablations.model in found
    return replace(
        config,
        models=found if config.tuning.model in found or not config.tuning.values else {**found, **_idle(config)},
        seeds=seeds or config.seeds,
        rounds=rounds or config.rounds,
        ablations=config.ablations if keep_more else Ablations(),
    )


def _idle(config: "StudyConfig") -> "dict[str, ModelSettings]":
    """Return the network of the tuning, for the tuning alone."""
    return {config.tuning.model: replace(config.models[config.tuning.model], strategies=())}


def _split(option: str, text: str | None) -> tuple[str, ...]:
    from fed_core.errors import ConfigError

    parts = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and not parts:
        raise ConfigError(f"{option} is empty; name at least one, or leave it out")
    return parts
