"""``fedperc strategies``: which federated methods there are, and the options of each."""

import dataclasses
import inspect
import json
import re
import sys
import typing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fed_cli.main import app
from fed_core.config import to_tree
from fed_core.plugins import PREFIX

if TYPE_CHECKING:
    from fed_core.strategies.base import Strategy

#: A source in brackets at the end of a line: the paper has a column of its own.
_SOURCE = re.compile(r"\s*\([^()]*\)\.?$")


@app.command()
def strategies(
    name: Annotated[str, typer.Argument(help="Strategy whose options to show; default: list all.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """List the federated methods, or the options of one.

    fedperc strategies

    fedperc strategies fedepth
    """
    from fed_core.strategies import strategies as registry

    if name:
        entry = describe(name, registry.get(name))
        _print_json(entry) if as_json else _show_one(entry)
        return
    entries = [describe(known, registry.get(known)) for known in registry.names()]
    if as_json:
        _print_json([{key: entry[key] for key in ("name", "paper", "summary")} for entry in entries])
    else:
        _show_all(entries)


def describe(name: str, cls: "type[Strategy]") -> dict[str, Any]:
    """Return what people want to know of a strategy: name, paper, summary, text, file, descriptor, options."""
    text = inspect.getdoc(sys.modules[cls.__module__]) or ""
    return {
        "name": name,
        "paper": cls.paper,
        "summary": _SOURCE.sub("", text.partition("\n")[0]).rstrip("."),
        "text": text,
        "file": _file(cls.__module__),
        "descriptor": cls.descriptor,
        "options": options(cls),
    }


def _file(module: str) -> str:
    own = str(sys.modules[module].__file__) if module.startswith(PREFIX) else ""
    return own or module.replace(".", "/") + ".py"


def options(cls: type) -> list[dict[str, Any]]:
    """Return the options of a strategy: its fields, as :func:`fed_core.config.option` made them."""
    hints = typing.get_type_hints(cls)
    return [
        {
            "name": field.name,
            "type": getattr(hints[field.name], "__name__", str(hints[field.name])),
            "default": _default(field),
            "required": _default(field) is None and _is_required(field),
            **{key: field.metadata.get(key) for key in ("low", "high")},
            "choices": list(field.metadata.get("choices", ())),
            "unit": field.metadata.get("unit", ""),
            "help": field.metadata.get("help", ""),
        }
        for field in dataclasses.fields(cls)
        if field.init
    ]


def allowed(entry: dict[str, Any]) -> str:
    """Return the values that an option takes, in words."""
    if entry["choices"]:
        return ", ".join(entry["choices"])
    low, high, unit = (entry[key] for key in ("low", "high", "unit"))
    if low is None and high is None:
        bounds = ""
    elif high is None:
        bounds = f"at least {low:g}"
    else:
        bounds = f"at most {high:g}" if low is None else f"{low:g} to {high:g}"
    return f"{bounds} [{unit}]".strip() if unit else bounds


def shown(entry: dict[str, Any]) -> str:
    """Return the default of an option as text."""
    if entry["required"]:
        return "required"
    return entry["default"] if isinstance(entry["default"], str) else json.dumps(entry["default"])


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return to_tree(field.default)
    return None if field.default_factory is dataclasses.MISSING else to_tree(field.default_factory())


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _print_json(tree: Any) -> None:
    typer.echo(json.dumps(tree, indent=2))


def _show_all(entries: list[dict[str, Any]]) -> None:
    from rich.text import Text

    rows = [[Text(e["name"], style="cyan"), Text(e["paper"]), Text(e["summary"])] for e in entries]
    _table(("strategy", "paper", "what it does"), rows)


def _show_one(entry: dict[str, Any]) -> None:
    from rich.text import Text

    typer.echo(f"{entry['name']}: {entry['paper']}\n" if entry["paper"] else f"{entry['name']}\n")
    typer.echo(entry["text"].replace("``", "`") + "\n")
    if not entry["options"]:
        typer.echo("It has no options.")
        return
    rows = [
        [Text(o["name"], style="cyan"), *map(Text, (o["type"], shown(o), allowed(o), o["help"]))]
        for o in entry["options"]
    ]
    _table(("option", "type", "default", "allowed", "meaning"), rows)


def _table(head: tuple[str, ...], rows: list[list[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for number, title in enumerate(head):
        table.add_column(title, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    Console(file=sys.stdout).print(table)
