"""Configs of mmdet3d: what of a file makes the model, and what tells how its inputs look."""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fed_core.errors import ConfigError
from fed_core.types import DETECTION_CLASSES
from fed_models.openmmlab.libraries import Libraries, reason, silent

#: Names that other data sets give to our classes.
SYNONYMS = {"cyclist": "bicycle"}
#: Columns of our clouds: x, y, z, intensity, time lag.
NUM_COLUMNS = 5
#: What mmdet3d keeps of clouds of several sweeps unless the config says otherwise: x, y, z, time lag.
_SWEEP_COLUMNS = (0, 1, 2, 4)
_DEFAULT_RANGE = (-51.2, -51.2, -5.0, 51.2, 51.2, 3.0)
#: Normalisations that wait for other processes; a robot trains in one.
_ONE_PROCESS = {"SyncBN": "BN", "naiveSyncBN1d": "BN1d", "naiveSyncBN2d": "BN2d", "naiveSyncBN3d": "BN3d"}
_PREFIX = "mmdet3d::"


@dataclass(frozen=True)
class DetectorPlan:
    """What the adapter takes out of a config.

    Attributes:
        path: the config, as the user named it.
        model: keys and values that mmdet3d builds the model from.
        labels: our class of each class of the config, -1 where we have none.
        point_range: (x_min, y_min, z_min, x_max, y_max, z_max) [m].
        columns: columns of our clouds that the model takes.
        image_size: (H, W) in pixels, None without cameras.
        single_view: it takes one picture, not several.
    """

    path: str
    model: Any
    labels: tuple[int, ...]
    point_range: tuple[float, float, float, float, float, float]
    columns: tuple[int, ...]
    image_size: tuple[int, int] | None
    single_view: bool


def read_plan(libs: Libraries, path: str) -> DetectorPlan:
    """Read a config file; one that is absent, broken or not for boxes in the LiDAR frame raises ConfigError.

    Args:
        libs: the libraries.
        path: a file, or "mmdet3d::pointpillars/..." for one that comes with mmdet3d. A Python file is run.
    """
    config = _read(libs, path)
    if "model" not in config:
        raise ConfigError(f"mmdet3d config {path} has no 'model'; name the config of a detector, not a part of one")
    steps = list(_steps(_pipeline(config)))
    kinds = [str(step.get("type")) for step in steps]
    _check_frame(config, path)
    model = copy.deepcopy(config["model"])
    _simplify(model)
    views = [kind for kind in kinds if re.match(r"Load.*Image", kind)]
    sees = bool(views) or (not kinds and "img_backbone" in model)
    return DetectorPlan(
        path,
        model,
        _labels(config, path),
        _point_range(config),
        _columns(steps),
        _image_size(steps, path) if sees else None,
        bool(views) and not any("MultiView" in kind for kind in views),
    )


def _read(libs: Libraries, path: str) -> Any:
    folder = Path(libs.folder, ".mim", "configs")
    file = folder / path.removeprefix(_PREFIX) if path.startswith(_PREFIX) else Path(path)
    if not file.is_file():
        raise ConfigError(
            f"mmdet3d config {path} does not exist; give its path, or {_PREFIX}FOLDER/FILE of those shipped"
        )
    try:
        with silent():
            return libs.config.fromfile(str(file))
    except Exception as err:  # a Python config runs code, so anything may come out of it
        raise ConfigError(f"mmdet3d config {path} cannot be read: {reason(err)}") from err


def _pipeline(config: Any) -> Sequence[Any]:
    for key in ("test_pipeline", "train_pipeline"):
        if config.get(key):
            return list(config[key])
    dataset = (config.get("test_dataloader") or {}).get("dataset") or {}
    return list(dataset.get("pipeline") or ())


def _steps(steps: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a pipeline, those inside others too."""
    for step in steps:
        yield step
        if isinstance(step.get("transforms"), Sequence):
            yield from _steps(step["transforms"])


def _check_frame(config: Any, path: str) -> None:
    dataset = (config.get("test_dataloader") or {}).get("dataset") or {}
    frame = str(dataset.get("box_type_3d", "LiDAR"))
    if frame.lower() != "lidar":
        place = "a depth sensor" if frame == "Depth" else "a camera"
        text = f"mmdet3d config {path} finds boxes in the frame of {place}; take a detector of boxes in the LiDAR frame"
        raise ConfigError(text)


def _simplify(tree: Any) -> None:
    """Take out of a model's config what loads weights by itself or waits for other processes."""
    if isinstance(tree, list | tuple):
        for item in tree:
            _simplify(item)
    elif isinstance(tree, dict):
        if "pretrained" in tree:
            tree["pretrained"] = None
        if isinstance(tree.get("init_cfg"), dict) and tree["init_cfg"].get("type") == "Pretrained":
            tree["init_cfg"] = None
        if tree.get("type") in _ONE_PROCESS:
            tree["type"] = _ONE_PROCESS[tree["type"]]
        for item in tree.values():
            _simplify(item)


def _labels(config: Any, path: str) -> tuple[int, ...]:
    names = config.get("class_names") or (config.get("metainfo") or {}).get("classes")
    if not names:
        raise ConfigError(f"mmdet3d config {path} has no 'class_names'; add the list in the order of its head")
    ours = [SYNONYMS.get(str(name).lower(), str(name).lower()) for name in names]
    labels = tuple(DETECTION_CLASSES.index(name) if name in DETECTION_CLASSES else -1 for name in ours)
    if all(label < 0 for label in labels):
        known = ", ".join(DETECTION_CLASSES)
        raise ConfigError(f"mmdet3d config {path} knows none of our classes (it has {', '.join(names)}); ours: {known}")
    return labels


def _point_range(config: Any) -> tuple[float, float, float, float, float, float]:
    layer = (config["model"].get("data_preprocessor") or {}).get("voxel_layer") or {}
    found = layer.get("point_cloud_range") or config.get("point_cloud_range") or _DEFAULT_RANGE
    x_min, y_min, z_min, x_max, y_max, z_max = (float(value) for value in found)
    return x_min, y_min, z_min, x_max, y_max, z_max


def _columns(steps: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    columns: tuple[int, ...] = tuple(range(4))
    for step in steps:
        kind = step.get("type")
        if kind in ("LoadPointsFromFile", "LoadPointsFromMultiSweeps"):
            default = _SWEEP_COLUMNS if kind == "LoadPointsFromMultiSweeps" else (0, 1, 2)
            dims = step.get("use_dim", default)
            columns = tuple(range(dims)) if isinstance(dims, int) else tuple(int(dim) for dim in dims)
    return tuple(column for column in columns if column < NUM_COLUMNS)


def _image_size(steps: Sequence[Mapping[str, Any]], path: str) -> tuple[int, int]:
    """Return (H, W) of the last step that names a size; mmdet3d gives most sizes as (W, H)."""
    size: tuple[int, int] | None = None
    for step in steps:
        scale = step.get("scale") or step.get("img_scale")
        scale = scale[0] if isinstance(scale, list) and scale and not isinstance(scale[0], int) else scale
        if isinstance(scale, list | tuple) and len(scale) == 2:
            size = (int(scale[1]), int(scale[0]))
        if step.get("final_dim"):
            size = (int(step["final_dim"][0]), int(step["final_dim"][1]))
    if size is None:
        raise ConfigError(
            f"mmdet3d config {path} takes pictures, but its pipeline names no size; add a Resize step to it"
        )
    return size
