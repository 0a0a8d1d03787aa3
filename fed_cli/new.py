"""``fedperc new``: a file to start from, for a strategy, a network or a reader of one's own."""

import keyword
import re
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from fed_cli.main import app
from fed_core.errors import ConfigError

TEMPLATES = Path(__file__).parent / "templates"

new_app = typer.Typer(no_args_is_help=True, help="Write a file to start from, used with --plugin.")
app.add_typer(new_app, name="new")

Name = Annotated[str, typer.Argument(help="Registered name; small letters, digits and _, as in loss_weighted.")]
Out = Annotated[Path, typer.Option(help="Folder of the new files.")]


@new_app.callback()
def new() -> None:
    """Write a file to start from, used with --plugin."""


@new_app.command("strategy")
def new_strategy(name: Name, out: Out = Path()) -> None:
    """Write a federated method and its tests, which pass at once.

    fedperc new strategy mine

    pytest test_mine.py

    fedperc simulate --plugin mine.py --strategy mine
    """
    from fed_core.strategies import strategies

    files = {out / f"{name}.py": "strategy", out / f"test_{name}.py": "strategy_test"}
    write("strategy", name, strategies.names(), files)


@new_app.command("model")
def new_model(name: Name, out: Out = Path()) -> None:
    """Write a depth network that a fleet can train.

    fedperc new model my_net

    fedperc simulate --plugin my_net.py --fleet my_fleet.yaml
    """
    from fed_models.base import networks

    write("network", name, networks.names(), {out / f"{name}.py": "model"})


@new_app.command("dataset")
def new_dataset(name: Name, out: Out = Path()) -> None:
    """Write a reader of RGB-D folders.

    fedperc new dataset my_folders

    fedperc inspect --plugin my_folders.py recordings/office
    """
    from fed_core.data.readers import readers

    write("reader", name, readers.names(), {out / f"{name}.py": "dataset"})


def write(kind: str, name: str, known: list[str], files: dict[Path, str]) -> None:
    """Write templates under a name; nothing is written where one of the files cannot be.

    Args:
        kind: what it is, for messages.
        name: registered name.
        known: names that are taken.
        files: templates by the file that each becomes.

    Raises:
        ConfigError: the name is none or taken, a file is there already or cannot be written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name.startswith("test_"):
        rule = "small letters, digits and _, a letter first, no word of Python, no test_ in front"
        raise ConfigError(f"{name!r} is no name for a {kind}: {rule}")
    if name in known:
        raise ConfigError(f"a {kind} {name!r} exists already; known: {', '.join(known)}; take another name")
    texts = {path: filled(template, name) for path, template in files.items()}
    there = next((path for path in files if path.exists()), None)
    if there is not None:
        raise ConfigError(f"{there} exists already; take another name, or another folder with --out")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as err:
            raise ConfigError(f"cannot write {path}: {err.strerror}; choose another folder with --out") from err
        typer.echo(path)


def filled(template: str, name: str) -> str:
    """Return the text of a template for a registered name.

    Raises:
        ConfigError: the class of that name would hide what the template imports.
    """
    text = (TEMPLATES / f"{template}.py.txt").read_text(encoding="utf-8")
    title = "".join(word.capitalize() for word in name.split("_"))
    if re.search(rf"(?<!\$)\b{title}\b", text):
        raise ConfigError(f"the class of {name!r} would be {title}, which the new file needs itself; take another name")
    return Template(text).substitute(name=name, Name=title)
