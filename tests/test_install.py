"""The ways of installing: what pip is told covers what is imported, what is packaged is all there, files agree."""

import ast
import fnmatch
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.nodes.test_manifests import PIP

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("fed_core", "fed_cli", "models/fed_models", "fed_nodes", "fed_flower")
#: Folders whose modules only those import who have asked for an extra.
OF_EXTRAS = {"fed_cli/web": "dashboard", "fed_flower": "flower"}


def metadata() -> dict[str, Any]:
    """What setup.py hands to setuptools."""
    code = "import json, setuptools; setuptools.setup = lambda **k: print(json.dumps(k)); exec(open('setup.py').read())"
    run = [sys.executable, "-W", "ignore", "-c", f"__file__ = 'setup.py'; {code}"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[=<>;~! ]", line)[0].lower().replace("_", "-") for line in requirements}


SETUP = metadata()
BASE = names(SETUP["install_requires"])
EXTRAS: dict[str, list[str]] = SETUP["extras_require"]


def at_start(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a module is imported: in no function, and not only for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "TYPE_CHECKING" not in ast.unparse(
            getattr(node, "test", ast.Constant(0))
        ):
            yield from at_start(node)


def modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    return [node.module.split(".")[0]] if node.module and not node.level else []


def installed(where: Path) -> set[str]:
    """What pip has installed for those who import a module."""
    extras = [extra for folder, extra in OF_EXTRAS.items() if where.is_relative_to(folder)]
    return BASE.union(*(names(EXTRAS[extra]) for extra in extras))


@pytest.mark.parametrize("package", PACKAGES)
def test_what_modules_import_at_their_start_is_installed(package: str) -> None:
    files = {path.relative_to(ROOT): path for path in (ROOT / package).rglob("*.py")}
    missing = {
        f"{where}:{node.lineno}": name
        for where, path in files.items()
        for node in at_start(ast.parse(path.read_text(encoding="utf-8")))
        for name in modules(node)
        if name in PIP and PIP[name][0].lower() not in installed(where)
    }
    assert not missing, f"in no install_requires; import it inside a function under fed_core.extras.needs: {missing}"


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"test"}))
def test_an_extra_is_tried_and_told(extra: str) -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from extra_trials import TRIALS
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    assert set(TRIALS) == set(EXTRAS) - {"test"}
    assert f"| `{extra}` |" in (ROOT / "docs/install.md").read_text(encoding="utf-8")
    night = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text(encoding="utf-8"))
    assert extra == "detection" or extra in night["jobs"]["extra"]["strategy"]["matrix"]["extra"]


def test_what_the_lines_for_users_name_are_extras() -> None:
    named = {
        (extra, str(path.relative_to(ROOT)))
        for folder in (*PACKAGES, "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md")
        for extra in re.findall(
            r"""fed_perception\[(\w+)\]|(?:needs|install)\(\s*"(\w+)"|'\.\[(\w+)\]'""", path.read_text(encoding="utf-8")
        )
    }
    assert {"ray", "report", "depth"} <= {name for found, _ in named for name in found}
    unknown = {(name, where) for found, where in named for name in found if name and name not in EXTRAS}
    assert not unknown, f"no extra of setup.py: {unknown}"


def test_extras_are_pinned() -> None:
    pinned = names([line for line in (ROOT / "requirements/lock.txt").read_text().splitlines() if "==" in line])
    wanted = BASE | {name for extra, lines in EXTRAS.items() for name in names(lines)}
    assert not wanted - pinned, f"in setup.py, but not in requirements/lock.txt: {sorted(wanted - pinned)}"


def test_every_file_of_the_packages_is_packaged() -> None:
    data = SETUP["package_data"]
    left_out = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            inside = str(path.relative_to(ROOT / package))
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                patterns = data.get(Path(package).name, [])
                if not any(fnmatch.fnmatch(inside, p) and inside.count("/") == p.count("/") for p in patterns):
                    left_out.append(f"{package}/{inside}")
    assert not left_out, f"in no package_data of setup.py: {left_out}"


def test_the_dev_container_builds_a_stage_of_the_dockerfile() -> None:
    config = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    dockerfile = (ROOT / ".devcontainer" / config["build"]["dockerfile"]).resolve()
    assert dockerfile == ROOT / "Dockerfile"
    assert (ROOT / ".devcontainer" / config["build"]["context"]).resolve() == ROOT
    assert config["build"]["target"] in re.findall(r"^FROM \S+ AS (\w+)$", dockerfile.read_text(), re.MULTILINE)
    assert set(config) <= {"name", "build", "remoteUser", "init", "runArgs", "containerEnv", "postCreateCommand"} | {
        "customizations"
    }


def test_the_image_copies_what_exists_and_is_not_ignored() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [line.split()[-2] for line in text.splitlines() if line.startswith("COPY ") and "--from" not in line]
    assert "package.xml" in copied
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name in copied:
        assert (ROOT / name).exists(), name
        assert not any(part in ignored for part in Path(name).parts), name
    assert f'version="{SETUP["version"]}"' in text


def test_an_unknown_extra_and_a_folder_in_use_are_refused(tmp_path: Path) -> None:
    for words, told in (
        (["nope"], "error: no extra is called 'nope'; known: depth, bev,"),
        (["--folder", str(tmp_path)], f"error: {tmp_path} exists; name a new folder"),
    ):
        run = [sys.executable, "scripts/try_extras.py", *words]
        done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        assert told in done.stderr
