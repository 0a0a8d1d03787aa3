"""Commands that the pages show are real: every ``fedperc VERB --option`` of README and docs exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from fed_cli.main import app, load_verbs

load_verbs()
ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TREE: Any = typer.main.get_command(app)
#: Blocks of these are typed into a shell, whole (sh) or behind a prompt (console).
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(fedperc [^`\n]+)`(?!`)")


def shown(text: str) -> Iterator[str]:
    """Give the command lines of a page: of shell blocks, of indented blocks, and within sentences."""
    for language, block in _FENCE.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        if language == "console":
            yield from (line[2:] for line in lines if line.startswith("$ "))
        elif language in ("sh", "bash", ""):
            yield from lines
    rest = _FENCE.sub("", text)
    yield from (line.strip() for line in rest.splitlines() if line.startswith("    "))
    yield from _INLINE.findall(rest)


def commands(line: str) -> Iterator[list[str]]:
    """Give the words behind each ``fedperc`` of a line, without variables before it, comments, and usage's brackets."""
    line = re.sub(r"\[([^\]]*)\]", r"\1", line.split(" #")[0])
    for part in re.split(r"&&|;| \| ", line):
        words = part.replace("'", "").replace('"', "").split()
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if words and words[0] == "fedperc":
            yield words[1:]


def fault(words: list[str]) -> str:
    """Return what is wrong with a command, "" = nothing. ``fedperc COMMAND``, a form to fill in, is right."""
    command, ctx = TREE, click.Context(TREE, info_name="fedperc")
    for number, word in enumerate(words):
        if word.startswith("-"):
            name = word.split("=")[0].split("|")[0].rstrip("],)")
            known = {o for c in (command, TREE) for p in c.params for o in (*p.opts, *p.secondary_opts)}
            if name not in known | {"--help", "-h"}:
                return f"fedperc {' '.join(words)}: no option {name}"
        elif hasattr(command, "commands") and not _is_value(command, words, number):
            if word.isupper() or "|" in word:
                return ""
            found = command.get_command(ctx, word)
            if found is None:
                return f"fedperc {' '.join(words)}: no command {word}"
            command = found
    return ""


def _is_value(command: Any, words: list[str], number: int) -> bool:
    """Tell whether a word belongs to the option before it."""
    if not number or not words[number - 1].startswith("--") or "=" in words[number - 1]:
        return False
    takes = [p for p in command.params if words[number - 1] in p.opts]
    return bool(takes) and not takes[0].is_flag


def faults(text: str) -> list[str]:
    """Return all that is wrong with the commands of a page."""
    return [told for line in shown(text) for words in commands(line) if (told := fault(words))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_the_page_exists(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8")) == []


PAGE = """Say `fedperc inspekt PATH`, or:

    A=1 fedperc demo --dat x   # no such option

```sh
fedperc prepare m3ed --none && fedperc prepare kitti
fedperc simulate --out runs/a \\
  --robots 4
```

```console
$ fedperc stop
fedperc is not typed here
```
"""


def test_what_does_not_exist_is_found_wherever_it_stands() -> None:
    assert faults(PAGE) == [
        "fedperc prepare m3ed --none: no option --none",
        "fedperc prepare kitti: no command kitti",
        "fedperc simulate --out runs/a --robots 4: no option --robots",
        "fedperc stop: no command stop",
        "fedperc demo --dat x: no option --dat",
        "fedperc inspekt PATH: no command inspekt",
    ]


def test_what_exists_is_right_in_every_form() -> None:
    right = """
    fedperc --plugin mine.py simulate --strategy mine
    fedperc simulate --plugin mine.py --out x
    fedperc convert SOURCE TARGET [--storage mcap|sqlite3|ros1] [--compress]
    fedperc COMMAND --help
    fedperc top --once | less
    """
    assert faults(right) == []
    assert [len(list(commands(line))) for line in shown(right)][:5] == [1] * 5


def test_the_pages_show_many_commands() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(1 for text in texts for line in shown(text) for _ in commands(line)) > 80
