"""``fedperc export``: a model of a run as files for other programs, with a card."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fed_cli.main import app

if TYPE_CHECKING:
    from fed_cli.exporting.card import Measured
    from fed_cli.exporting.choice import Chosen


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run (fedperc simulate, an aggregator's) or of a demo.")],
    out: Annotated[Path, typer.Option(help="Folder that is made.")],
    model: Annotated[
        Optional[str],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(help="Model of the fleet, as cluster/1; of a demo also METHOD/cluster/1. Default: the best one."),
    ] = None,
    robot: Annotated[
        Optional[str],  # noqa: UP007, UP045
        typer.Option(help="Robot whose personal model is wanted.", metavar="ID"),
    ] = None,
    format: Annotated[
        Optional[list[str]],  # noqa: UP007, UP045
        typer.Option(help="torchscript, onnx or safetensors; may be given several times. Default: all of them."),
    ] = None,
    size: Annotated[
        Optional[str],  # noqa: UP007, UP045
        typer.Option(metavar="HxW", help="Size of the images in pixels; default: the run's own."),
    ] = None,
    license: Annotated[str, typer.Option(help="Licence of the weights, for the card.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is there.")] = False,
) -> None:
    """Export the best model of a run to TorchScript, ONNX and safetensors, compared with PyTorch.

    fedperc export runs/demo --out exported

    fedperc export runs/simulation --robot car_city --format onnx --out car
    """
    from fed_cli.exporting.choice import choose
    from fed_cli.exporting.networks import parse_size
    from fed_cli.exporting.package import Wanted, appearing, check_folder, write_package
    from fed_cli.exporting.runs import find_runs
    from fed_models.export import FORMATS, check_format

    formats = tuple(format or FORMATS)
    wanted = Wanted(formats, parse_size(size), license)
    check_folder(out, force=force)
    for name in formats:
        check_format(name)
    found = find_runs(run)
    chosen = choose(found, model, robot)
    typer.echo(f"{chosen.run.folder}: {chosen.label}, {chosen.why}")
    with appearing(out) as folder:
        measured = write_package(found, chosen, wanted, folder)
    _tell(out, chosen, measured)


def _tell(out: Path, chosen: "Chosen", measured: "Measured") -> None:
    from fed_core.data.inspect import size_text

    if any(one.outputs for one in measured.files):
        typer.echo(f"compared with PyTorch on {measured.compared_on}")
    for one in measured.files:
        told = f"{one.difference:.2g} away, {one.relative:.1g} of the largest value" if one.outputs else "bit by bit"
        typer.echo(f"{out / one.file}  {size_text(one.size_bytes)}  {told}")
    typer.echo(f"{out / 'README.md'}  {chosen.run.plan.config.network}, {measured.parameters:,} parameters")
