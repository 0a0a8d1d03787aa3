"""The command ``fedperc``.

Each verb is one module of this package: it imports :data:`app` and decorates a function with ``@app.command()``.
Modules are imported for ``fedperc --help``, so they import PyTorch, matplotlib and the like inside their functions, and
ROS never: nodes are started as processes. What a verb needs beside it goes into a sub-package, which is not searched.
"""

import importlib
import pkgutil
from itertools import islice
from typing import Annotated, Any, Optional

import typer
from typer.core import TyperGroup

import fed_cli
import fed_core
from fed_core import plugins
from fed_core.errors import FedError

#: Exit codes: 1 a check or comparison failed, 2 bad input, 130 stopped by the user.
BAD_INPUT = 2
STOPPED = 130


class EdgeGroup(TyperGroup):
    """The one place where errors become text and an exit code; ``--debug`` lets them through."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--plugin`` from behind the verb, too: every verb has it."""
        return super().parse_args(ctx, _plugins_first(args))

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except FedError as err:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"error: {err}", err=True)
            raise typer.Exit(BAD_INPUT) from err
        except KeyboardInterrupt as err:
            if ctx.params.get("debug"):
                raise
            typer.echo("stopped", err=True)
            raise typer.Exit(STOPPED) from err


app = typer.Typer(
    name="fedperc",
    cls=EdgeGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _plugins_first(args: list[str]) -> list[str]:
    named, others = [], []
    left = iter(args)
    for word in left:
        if word == "--":
            others += [word, *left]
        elif word == "--plugin":
            named += [word, *islice(left, 1)]
        else:
            (named if word.startswith("--plugin=") else others).append(word)
    return [*named, *others]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedperc {fed_core.__version__}")
        raise typer.Exit


@app.callback()
def fedperc(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")] = False,
    plugin: Annotated[
        Optional[list[str]],  # noqa: UP007, UP045 - typer on Python 3.10 reads this form
        typer.Option(metavar="FILE|MODULE", help="Python file or module of your own strategies, networks, readers."),
    ] = None,
) -> None:
    """Federated perception for fleets of robots.

    Try: fedperc doctor
    """
    for name in plugin or ():
        plugins.add(name)


def load_verbs() -> None:
    """Import every module of this package, so that all verbs are registered."""
    for module in pkgutil.iter_modules(fed_cli.__path__):
        if not module.ispkg and not module.name.startswith("_") and module.name != "main":
            importlib.import_module(f"fed_cli.{module.name}")


def main() -> None:
    """Run ``fedperc`` with the arguments of the process."""
    load_verbs()
    app()
