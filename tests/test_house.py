"""The house rules that a machine can check: budgets, names, manifests, versions, imports."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import fed_core

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("fed_core", "models/fed_models", "fed_nodes", "fed_cli", "fed_flower")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "examples", "launch", "scripts")
MAX_FILE, MAX_FUNCTION, MAX_NODE, MAX_LAUNCH, MAX_POSITIONAL = 400, 40, 150, 80, 5
DRAWERS = {"utils", "helpers", "common", "misc", "util", "helper"}


def python_files(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(p for p in (ROOT / folder).rglob("*.py") if "__pycache__" not in p.parts)


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Lines of a definition without its docstring and decorators."""
    doc = node.body[0]
    has_doc = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    doc_lines = (doc.end_lineno or 0) - doc.lineno + 1 if has_doc else 0
    return (node.end_lineno or 0) - node.lineno + 1 - doc_lines


def definitions(folders: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    for path in python_files(folders):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_files_stay_small() -> None:
    long = {str(p.relative_to(ROOT)): n for p in python_files(FOLDERS) if (n := count_lines(p)) >= MAX_FILE}
    assert not long, f"files of {MAX_FILE} lines or more: {long}"
    launch = {p.name: n for p in python_files(("launch",)) if (n := count_lines(p)) >= MAX_LAUNCH}
    assert not launch, f"launch files of {MAX_LAUNCH} lines or more: {launch}"


def test_functions_stay_small() -> None:
    long = [
        f"{where}: {body_lines(node)} lines"
        for where, node in definitions(PACKAGES)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) >= MAX_FUNCTION
    ]
    assert not long, "functions of 40 lines or more:\n" + "\n".join(long)


def test_nodes_stay_thin() -> None:
    fat = [
        where
        for where, node in definitions(("fed_nodes",))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Node") and body_lines(node) >= MAX_NODE
    ]
    assert not fat, f"node classes of {MAX_NODE} lines or more: {fat}"


def test_few_positional_arguments() -> None:
    many = []
    for where, node in definitions(PACKAGES):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
            # typer builds options from the signature, so a verb has as many as it has options.
            verb = any("command" in ast.unparse(d) for d in node.decorator_list)
            if len(names) > MAX_POSITIONAL and not verb:
                many.append(f"{where}: {', '.join(names)}")
    assert not many, "more than 5 positional arguments:\n" + "\n".join(many)


def test_no_drawers_for_odds_and_ends() -> None:
    bad = [str(p.relative_to(ROOT)) for p in python_files(PACKAGES) if DRAWERS & {p.stem, p.parent.name}]
    assert not bad


@pytest.mark.parametrize("manifest", ["package.xml", "msgs/package.xml"])
def test_manifest_parses(manifest: str) -> None:
    # colcon demotes a package with a broken manifest to plain Python without a word.
    catkin_pkg = pytest.importorskip("catkin_pkg.package", reason="catkin_pkg comes with colcon-ros")
    warnings: list[str] = []
    package = catkin_pkg.parse_package(str(ROOT / manifest), warnings=warnings)
    package.validate(warnings=warnings)
    assert warnings == []
    assert package.package_format == 3
    assert package.get_build_type() == {"package.xml": "ament_python", "msgs/package.xml": "ament_cmake"}[manifest]


def test_one_version_everywhere() -> None:
    setup = re.search(r'version="([^"]+)"', (ROOT / "setup.py").read_text())
    changelog = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert setup and changelog
    manifests = [ElementTree.parse(ROOT / f).getroot().findtext("version") for f in ("package.xml", "msgs/package.xml")]
    assert {setup[1], changelog[1], *manifests} == {fed_core.__version__}


def test_requirements_are_pinned_and_locked() -> None:
    lock = dict(line.split("==") for line in (ROOT / "requirements/lock.txt").read_text().split("\n") if "==" in line)
    names = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lock.items()}
    for file in ("runtime", "ros", "dev", "detection"):
        for line in (ROOT / f"requirements/{file}.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                name, _, version = line.partition(";")[0].partition("==")
                assert names.get(re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()) == version, line


def test_programs_named_in_setup_exist() -> None:
    for module in re.findall(r"= (fed_\w+\.\w+):main", (ROOT / "setup.py").read_text()):
        path = ROOT / (module.replace(".", "/") + ".py")
        assert "def main(" in path.read_text(), f"{module}:main is an entry point in setup.py"


def test_every_package_folder_is_a_package() -> None:
    # setup.py finds packages by __init__.py; a folder without one would be missing from the wheel and from colcon.
    bare = {p.parent for p in python_files(PACKAGES) if not (p.parent / "__init__.py").is_file()}
    assert not bare, f"folders without __init__.py: {sorted(str(p.relative_to(ROOT)) for p in bare)}"


def test_workspace_links_lead_to_both_packages() -> None:
    assert (ROOT / "ros2_ws/src/fed_perception/package.xml").samefile(ROOT / "package.xml")
    assert (ROOT / "ros2_ws/src/fed_msgs/package.xml").samefile(ROOT / "msgs/package.xml")


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nodes_side_of_the_core_does_not_load_torch() -> None:
    # PyTorch costs seconds and 200 MB in every node; only the trainer and the model loader may pay.
    run_python(
        "import importlib, pkgutil, sys, fed_core\n"
        "for name in 'roles strategies wire store similarity clustering data'.split():\n"
        "    package = importlib.import_module(f'fed_core.{name}')\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(module.name)\n"
        "        assert 'torch' not in sys.modules, f'{module.name} imports torch at module level'\n"
    )


def test_help_of_the_cli_is_light() -> None:
    loaded = run_python(
        "import sys; from fed_cli.main import load_verbs; load_verbs(); print(' '.join(sys.modules))"
    ).split()
    heavy = {"torch", "rclpy", "matplotlib", "scipy", "cv2", "embreex", "rosbags", "networkx"}
    assert not heavy & set(loaded)
