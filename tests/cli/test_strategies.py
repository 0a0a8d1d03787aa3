"""``fedperc strategies``: the list of methods, and the options of one."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_cli.strategies import allowed, options, shown
from fed_core.config import option
from fed_core.strategies import strategies as registry
from fed_core.strategies.base import make_strategy
from scripts.write_strategies import document

load_verbs()


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["strategies", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_lists_every_strategy_with_its_paper() -> None:
    rows = {row["name"]: row for row in json.loads(run("--json"))}
    assert list(rows) == registry.names()
    assert rows["fedprox"] == {
        "name": "fedprox",
        "paper": "Li et al. 2020, arXiv:1812.06127",
        "summary": "FedProx: FedAvg whose robots are pulled back to where the round started",
    }
    assert all(row["summary"] for row in rows.values())
    assert all(row["paper"] for name, row in rows.items() if name not in ("local", "centralised"))


def test_the_table_shows_what_the_json_holds() -> None:
    text = run()
    for name in registry.names():
        assert any(name in line.split() for line in text.splitlines())
    assert "FedProx: FedAvg whose robots are pulled back to where the round started" in text


def test_options_of_one_strategy() -> None:
    tree = json.loads(run("scaffold", "--json"))
    found = {entry["name"]: entry for entry in tree["options"]}
    assert found["control"]["choices"] == ["gradient", "path"] and found["control"]["default"] == "gradient"
    assert found["eta_g"] == {
        "name": "eta_g", "type": "float", "default": 1.0, "required": False, "low": 0.001, "high": 10.0, "choices": [],
        "unit": "", "help": "step of the model towards the mean of the robots' models",
    }  # fmt: skip
    text = run("scaffold")
    assert text.startswith("scaffold: Karimireddy et al. 2020")
    rows = [[cell.strip() for cell in line.split("│")] for line in text.splitlines()]
    assert ["eta_g", "float", "1.0", "0.001 to 10", found["eta_g"]["help"]] in [row[1:-1] for row in rows]
    assert "It has no options." in run("fedavg")


@pytest.mark.parametrize("name", registry.names())
def test_defaults_that_are_shown_build_the_strategy(name: str) -> None:
    tree = json.loads(run(name, "--json"))
    shown_defaults = {entry["name"]: entry["default"] for entry in tree["options"] if not entry["required"]}
    assert make_strategy(name, shown_defaults) == make_strategy(name, {})
    assert all(entry["help"] for entry in tree["options"])


def test_an_unknown_name_ends_in_one_line() -> None:
    result = CliRunner().invoke(app, ["strategies", "fedsgd"])
    assert result.exit_code == 2
    assert result.output.startswith("error: no strategy is called 'fedsgd'; known: ") and result.output.count("\n") == 1


@dataclass(frozen=True)
class Options:
    must: int = option(help="needed", low=1, unit="count")
    most: float = option(0.5, help="at most", high=1.0)
    any: tuple[int, ...] = option((), help="numbers")
    maybe: float | None = option(None, help="unset")
    empty: str = option("", help="text")


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, ("int", "required", "at least 1 [count]")),
        (1, ("float", "0.5", "at most 1")),
        (2, ("tuple", "[]", "")),
        (3, ("float | None", "null", "")),
        (4, ("str", "", "")),
    ],
)
def test_words_for_all_kinds_of_options(index: int, expected: tuple[str, str, str]) -> None:
    entry: dict[str, Any] = options(Options)[index]
    assert (entry["type"], shown(entry), allowed(entry)) == expected


def test_it_needs_no_pytorch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; import fed_cli.strategies; from fed_cli.main import app;"
        "CliRunner().invoke(app, ['strategies', 'scaffold']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_the_page_of_the_docs_is_up_to_date() -> None:
    page = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text(encoding="utf-8")
    assert page == document(), "run scripts/write_strategies.py"
