"""``fedperc evaluate``: score predictions in the form that a benchmark publishes, one sub-command per benchmark."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fed_cli.main import app

if TYPE_CHECKING:
    from fed_core.metrics.detection.files import Evaluated

evaluate_app = typer.Typer(no_args_is_help=True, help="Score predictions in the form that a benchmark publishes.")
app.add_typer(evaluate_app, name="evaluate")


@evaluate_app.callback()
def evaluate() -> None:
    """Score predictions in the form that a benchmark publishes."""


@evaluate_app.command("detection")
def evaluate_detection(
    gt: Annotated[Path, typer.Option(help="nuScenes dataroot, the folder that holds v1.0-*.", show_default=False)],
    pred: Annotated[Path, typer.Option(help="Detections, a nuScenes submission (JSON).", show_default=False)],
    split: Annotated[
        str, typer.Option(help="Scenes that are scored (mini_val, val); default: those whose samples --pred names.")
    ] = "",
    version: Annotated[str, typer.Option(help="Folder of the tables, as v1.0-mini; default: the only one.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the tables.")] = False,
) -> None:
    """Score 3D detections by the nuScenes devkit (detection_cvpr_2019): NDS, mAP, errors, and AP of each class.

    fedperc evaluate detection --gt /data/nuscenes --pred results_nusc.json
    """
    from fed_core.metrics.detection.files import evaluate_file

    found = evaluate_file(gt, pred, split, version)
    if as_json:
        typer.echo(json.dumps(_tree(found), indent=2, allow_nan=False))
    else:
        _show(found)


def _tree(found: "Evaluated") -> dict[str, object]:
    from fed_core.metrics.detection.devkit import PROTOCOL, finite
    from fed_core.metrics.detection.scores import ERRORS

    figures = found.figures
    return {
        "NDS": figures.nds,
        "mAP": figures.map,
        **{f"m{short}": finite(figures.mean_errors[name]) for name, short in ERRORS.items()},
        "classes": {
            name: {
                "AP": figures.ap_of(name),
                "AP_by_distance": {str(distance): value for distance, value in by_distance.items()},
                **{short: finite(figures.errors[name][error]) for error, short in ERRORS.items()},
                "present": name in figures.classes,
            }
            for name, by_distance in figures.ap.items()
        },
        "protocol": PROTOCOL,
        "version": found.version,
        "scenes": list(found.scenes),
        "samples": found.num_samples,
    }


def _show(found: "Evaluated") -> None:
    from rich.console import Console
    from rich.table import Table

    from fed_core.metrics.detection.devkit import PROTOCOL
    from fed_core.metrics.detection.scores import ERRORS

    figures, console = found.figures, Console()
    head = Table(title=f"{PROTOCOL}, {found.version}", title_justify="left", show_header=False)
    head.add_row("NDS", f"{figures.nds:.12f}")
    head.add_row("mAP", f"{figures.map:.12f}")
    for name, short in ERRORS.items():
        head.add_row(f"m{short}", f"{figures.mean_errors[name]:.6f}")
    head.add_row("scored", f"{len(found.scenes)} scenes, {found.num_samples} samples")
    console.print(head)
    table = Table(box=None, pad_edge=False)
    table.add_column("class")
    for title in ("AP", *ERRORS.values()):
        table.add_column(title, justify="right")
    for name in figures.ap:
        errors = [figures.errors[name][error] for error in ERRORS]
        there = name in figures.classes
        texts = [f"{value:.4f}" if value == value else "-" for value in (figures.ap_of(name), *errors)]
        table.add_row(name if there else f"{name} (absent)", *texts)
    console.print(table)
