"""Plugins: files and modules of one's own, each test in a process of its own, since what registers stays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fed_core.plugins import VARIABLE

STRATEGY = """
from dataclasses import dataclass
from fed_core.strategies.base import strategies
from fed_core.strategies.fedavg import FedAvg

@strategies.register("{name}")
@dataclass(frozen=True)
class Mine(FedAvg):
    pass
"""
ASK = "from fed_core.strategies import strategies; print(strategies.get('mine').__module__)"


def python(code: str, folder: Path, plugins: str = "") -> str:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.path.join(root, "models"), str(folder)])
    env = {**os.environ, "PYTHONPATH": path, VARIABLE: plugins}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, timeout=90)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(("plugin", "module"), [("mine.py", "fed_plugin_mine"), ("mine", "mine")])
def test_a_file_or_a_module_registers_its_strategy(plugin: str, module: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRATEGY.format(name="mine"))
    assert python(ASK, tmp_path, plugin) == module


def test_added_plugins_are_told_to_child_processes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRATEGY.format(name="mine"))
    code = "import os; from fed_core import plugins; [plugins.add('mine.py') for _ in 'ab'];"
    code += f"print(os.environ['{VARIABLE}'])"
    assert python(code, tmp_path) == str(tmp_path / "mine.py")


def test_a_file_that_was_imported_before_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRATEGY.format(name="mine"))
    assert python("import mine;" + ASK, tmp_path, "./mine.py") == "mine"


def test_a_plugin_may_ask_a_registry_while_it_is_loaded(tmp_path: Path) -> None:
    text = "from fed_core.strategies.base import strategies\nstrategies.get('fedavg')\n"
    (tmp_path / "mine.py").write_text(text + STRATEGY.format(name="mine"))
    assert python(ASK, tmp_path, "mine.py") == "fed_plugin_mine"


def test_an_installed_package_names_its_plugin_by_entry_point(tmp_path: Path) -> None:
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fed_perception.plugins]\nmine = mine_methods\n")
    (tmp_path / "mine_methods.py").write_text(STRATEGY.format(name="mine"))
    assert python(ASK, tmp_path) == "mine_methods"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library' (line 1)"),
        ("a = 1\ndef broken(:\n", "SyntaxError: invalid syntax (line 2)"),
        ("def f():\n    return 1 / 0\nf()\n", "ZeroDivisionError: division by zero (line 2)"),
        ("raise SystemExit('stop')\n", "SystemExit: stop (line 1)"),
        (STRATEGY.format(name="fedavg"), "ValueError: strategy 'fedavg' is registered twice (line 6)"),
    ],
)
def test_a_plugin_with_a_mistake_is_told_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    code = (
        "from fed_core.strategies import strategies\nfrom fed_core.errors import ConfigError\n"
        "said = []\n"
        "for _ in range(2):\n"
        "    try: strategies.get('fedavg')\n"
        "    except ConfigError as err: said.append(str(err))\n"
        "print(said[0] if said[0] == said[1] else said)\n"
    )
    expected = f"plugin mine.py cannot be loaded: {told}; correct it, or leave the plugin out"
    assert python(code, tmp_path, "mine.py") == expected


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        ("gone.py", "plugin gone.py: there is no such file; name a Python file or a module that can be imported"),
        (
            "gone",
            "plugin gone cannot be loaded: ModuleNotFoundError: No module named 'gone'; "
            "correct it, or leave the plugin out",
        ),
        (
            "mine.py:other/mine.py",
            "plugin other/mine.py: {}/mine.py has the same name and is loaded already; rename one of the two files",
        ),
    ],
)
def test_a_plugin_that_is_not_there_is_told(plugin: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").write_text("")
    said = python(ASK, tmp_path, plugin)
    assert said == f"fed_core.errors.ConfigError: {told.format(tmp_path)}"


def test_names_of_plugins_are_checked_without_running_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise RuntimeError\n@networks.register('mine')\nclass Mine: ...\n")
    code = "from fed_core.registry import check_name; check_name('network', 'mine', 'fed_models'); print('known')"
    assert python(code, tmp_path, "mine.py") == "known"
    assert python(code, tmp_path).startswith("fed_core.errors.UnknownNameError: no network is called 'mine'; known: ")


def test_a_plugin_counts_as_code_of_a_study(tmp_path: Path) -> None:
    code = "from fed_core.study.provenance import code_digest; print(code_digest())"
    digests = set()
    for text in ("", "a = 1\n"):
        (tmp_path / "mine.py").write_text(text)
        digests.add(python(code, tmp_path, "mine.py"))
    assert len(digests) == 2


def verb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fed_cli", *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2])]), "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=90)


@pytest.mark.parametrize(
    "words",
    [("--plugin", "mine.py", "strategies", "mine", "--json"), ("strategies", "mine", "--json", "--plugin=mine.py")],
)
def test_every_verb_takes_a_plugin(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('"""Mine: a test."""' + STRATEGY.format(name="mine"))
    done = verb(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["name"], told["summary"], told["file"]) == ("mine", "Mine: a test", str(tmp_path / "mine.py"))


def test_a_verb_tells_a_broken_plugin_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("1 / 0\n")
    done = verb(tmp_path, "strategies", "--plugin", "mine.py")
    assert done.returncode == 2 and done.stdout == ""
    line = f"plugin {tmp_path}/mine.py cannot be loaded: ZeroDivisionError: division by zero (line 1)"
    assert done.stderr == f"error: {line}; correct it, or leave the plugin out\n"
