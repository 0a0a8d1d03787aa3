"""``fedperc import-checkpoint``: weights that a paper's authors published, for a network of ours."""

from pathlib import Path
from typing import Annotated

import typer

from fed_cli.main import app


@app.command()
def import_checkpoint(
    network: Annotated[str, typer.Option(help="Network, such as adabins_b5, newcrfs_large or dcdepth_large.")],
    checkpoint: Annotated[Path, typer.Option(help="Published file: .pth, .ckpt or .safetensors.")],
    out: Annotated[Path, typer.Option(help="Safetensors file to write; the account of all keys goes beside it.")],
    options: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the network, as window=12; may be repeated.")
    ] = None,
) -> None:
    """Turn a published checkpoint into weights that a network starts from.

    fedperc import-checkpoint --network adabins_b5 --checkpoint AdaBins_nyu.pt --out adabins_nyu.safetensors
    """
    from fed_models.checkpoints.files import import_checkpoint as convert
    from fed_models.checkpoints.files import report_path

    result = convert(network, _options(options or []), checkpoint, out)
    for action, count in result.counts().items():
        typer.echo(f"{count:6d} {action}")
    typer.echo(f"weights: {out}")
    typer.echo(f"account of all keys: {report_path(out)}")


def _options(texts: list[str]) -> dict[str, object]:
    import yaml

    from fed_core.errors import ConfigError

    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ConfigError(f"--set needs NAME=VALUE, got {text!r}")
        try:
            values[name] = yaml.safe_load(value)
        except yaml.YAMLError as err:
            raise ConfigError(f"--set {name}: {value!r} is not a value") from err
    return values
