"""Write docs/commands.md: every command of fedperc, from its own help (``python -m scripts.write_commands``)."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer

from fed_cli.main import app, load_verbs
from scripts.write_strategies import table

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Commands

Written by `scripts/write_commands.py` from the help of the commands: `fedperc COMMAND --help` shows it in a terminal.

"""
EXITS = """
Every command ends with 0 when all is well, 1 when a check or comparison failed, 2 on bad input and 130 when you stopped
it. Errors are one line: what, where, what to do.
"""


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Give every command that does something with its full name, by name."""
    for verb, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {verb}")
        else:
            yield f"{name} {verb}", command


def prose(text: str) -> str:
    """Return a help text as Markdown; what is typed becomes a block of code."""
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    parts = [f"    {part}" if part.startswith(("fedperc ", "pytest ")) else part for part in parts]
    return re.sub(r"(?<=\n)(    .*)\n\n(?=    )", r"\1\n", "\n\n".join(parts))


def meaning(text: str) -> str:
    """Return the help of an argument or option; click puts defaults and bounds into brackets behind it."""
    text, _, extra = text.partition("\\[")
    return f"{text.strip()} ({extra.rstrip(']')})".lstrip() if extra else text


def parameters(command: Any, name: str) -> str:
    """Return the table of a command's arguments and options; nothing where it has none."""
    ctx = click.Context(command, info_name=name)
    records = [record for p in command.params if (record := p.get_help_record(ctx))]
    rows = [(f"`{head.rstrip()}`", meaning(text)) for head, text in records]
    return table(("argument, option", "meaning"), rows) if rows else ""


def section(name: str, command: Any) -> str:
    """Return the section of one command."""
    usage = " ".join([name, *command.collect_usage_pieces(click.Context(command, info_name=name))])
    parts = (f"## {name}", prose(command.help), f"Usage: `{usage}`", parameters(command, name))
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def document() -> str:
    """Return the text of docs/commands.md."""
    load_verbs()
    root = typer.main.get_command(app)
    entries = list(commands(root, "fedperc"))
    rows = [(f"[`{name}`](#{name.replace(' ', '-')})", command.help.split("\n\n")[0]) for name, command in entries]
    shared = "Options of all commands, behind `fedperc` itself; `--plugin` may also stand behind the command:\n\n"
    head = [HEAD + table(("command", "what it does"), rows), shared + parameters(root, "fedperc"), EXITS.lstrip()]
    return "\n".join([*head, *(section(name, command) for name, command in entries)])


def main() -> int:
    """Write the file."""
    (ROOT / "docs" / "commands.md").write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
