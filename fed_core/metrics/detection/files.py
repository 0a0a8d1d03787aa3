"""A file of predictions against nuScenes tables: which samples it covers, and whether its boxes are sound."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fed_core.data.nuscenes.domains import OWN_SPLITS
from fed_core.data.nuscenes.tables import find_version, open_tables
from fed_core.errors import ConfigError, DataError
from fed_core.metrics.detection.devkit import Results, Truth, protocol
from fed_core.metrics.detection.scores import Figures

#: Numbers of each box, and how many.
_NUMBERS: Mapping[str, int] = {"translation": 3, "size": 3, "rotation": 4, "velocity": 2}
_TEXTS = ("sample_token", "detection_name", "attribute_name")
#: Missing samples that a message names.
_SHOWN = 3


@dataclass(frozen=True)
class Evaluated:
    """Scores of a file.

    Attributes:
        figures: of the devkit.
        version: folder of the tables.
        scenes: names of the scored scenes, in the order of the tables.
        num_samples: scored samples.
    """

    figures: Figures
    version: str
    scenes: tuple[str, ...]
    num_samples: int


def evaluate_file(dataroot: Path, file: Path, split: str = "", version: str = "") -> Evaluated:
    """Score a file of predictions (a nuScenes submission).

    Args:
        dataroot: holds a folder ``v1.0-*`` with the tables.
        file: JSON with ``results``.
        split: scenes that are scored; "" = those whose samples the file names, each of which it must cover.
        version: folder of the tables; "" = the only one.

    Raises:
        DataError: tables or file are missing or broken, or the file leaves out samples.
    """
    version = version or find_version(dataroot)
    results = read_results(file)
    tables = open_tables(dataroot, version)
    unknown = sorted(set(results) - {sample["token"] for sample in tables.sample})
    if unknown:
        raise DataError(f"{file} names sample {unknown[0]}, which is not in {dataroot / version}")
    samples = _by_scene(tables)
    scenes = _scenes_of_split(tables, dataroot / version, split) if split else _named_scenes(samples, results)
    for scene in scenes:
        _check_covered(file, scene, samples[scene], results)
    tokens = [token for scene in scenes for token in samples[scene]]
    return Evaluated(Truth(tables, tokens).evaluate(results), version, tuple(scenes), len(tokens))


def read_results(file: Path) -> Results:
    """Return the boxes of each sample of a submission; every box is checked."""
    try:
        tree = json.loads(file.read_text())
    except OSError as err:
        raise DataError(f"cannot read {file}: {err.strerror}") from err
    except (ValueError, RecursionError) as err:
        raise DataError(f"{file} is no JSON: {err}") from err
    results = tree.get("results") if isinstance(tree, dict) else None
    if not isinstance(results, dict) or not results:
        raise DataError(f"{file} is no nuScenes submission: it has no 'results' by sample")
    most = protocol().max_boxes_per_sample
    for token, boxes in results.items():
        if not isinstance(boxes, list):
            raise DataError(f"{file}: 'results' of sample {token} is no list of boxes")
        if len(boxes) > most:
            raise DataError(f"{file}: sample {token} has {len(boxes)} boxes; the devkit takes {most} at most")
        for number, box in enumerate(boxes):
            _check_box(box, token, f"{file}: box {number} of sample {token}")
    found: Results = results
    return found


def _check_box(box: Any, token: str, where: str) -> None:
    if not isinstance(box, dict):
        raise DataError(f"{where} is no box but {type(box).__name__}")
    missing = [name for name in (*_TEXTS, *_NUMBERS, "detection_score") if name not in box]
    if missing:
        raise DataError(f"{where} has no {', '.join(missing)}")
    for name, count in _NUMBERS.items():
        if not (isinstance(box[name], list) and len(box[name]) == count and all(map(_is_number, box[name]))):
            raise DataError(f"{where}: {name} is {box[name]!r}; it needs {count} finite numbers")
    if not min(box["size"]) > 0:
        raise DataError(f"{where}: size is {box['size']!r}; all three must be above 0")
    if not any(box["rotation"]):
        raise DataError(f"{where}: rotation is {box['rotation']!r}, which is no quaternion")
    if not _is_number(box["detection_score"]):
        raise DataError(f"{where}: detection_score is {box['detection_score']!r}; it needs a finite number")
    _check_names(box, token, where)


def _check_names(box: Mapping[str, Any], token: str, where: str) -> None:
    from nuscenes.eval.detection.constants import ATTRIBUTE_NAMES, DETECTION_NAMES

    if box["sample_token"] != token:
        raise DataError(f"{where} belongs to another sample: its sample_token is {box['sample_token']!r}")
    if box["detection_name"] not in DETECTION_NAMES:
        known = ", ".join(DETECTION_NAMES)
        raise DataError(f"{where}: no class is called {box['detection_name']!r}; known: {known}")
    if box["attribute_name"] not in ("", *ATTRIBUTE_NAMES):
        known = ", ".join(ATTRIBUTE_NAMES)
        raise DataError(f"{where}: no attribute is called {box['attribute_name']!r}; known: {known}, or '' for none")


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _by_scene(tables: Any) -> dict[str, list[str]]:
    """Return the samples of every scene by its name, in the order of the tables."""
    names = {scene["token"]: scene["name"] for scene in tables.scene}
    found: dict[str, list[str]] = {name: [] for name in names.values()}
    for sample in tables.sample:
        found[names[sample["scene_token"]]].append(sample["token"])
    return found


def _named_scenes(samples: Mapping[str, Sequence[str]], results: Results) -> list[str]:
    return [name for name, tokens in samples.items() if any(token in results for token in tokens)]


def _scenes_of_split(tables: Any, folder: Path, split: str) -> list[str]:
    """Return the scenes of a split that the tables hold; their own ``splits.json`` comes before the official ones."""
    from nuscenes.utils.splits import create_splits_scenes

    splits: dict[str, Any] = dict(create_splits_scenes())
    own = folder / OWN_SPLITS
    if own.exists():
        try:
            splits.update(json.loads(own.read_text()))
        except (OSError, ValueError, TypeError) as err:
            raise DataError(f"cannot read {own}: {err}") from err
    if split not in splits:
        raise ConfigError(f"no split is called {split!r}; known: {', '.join(splits)}")
    wanted = set(splits[split])
    found = [scene["name"] for scene in tables.scene if scene["name"] in wanted]
    if not found:
        raise DataError(f"{folder} holds no scene of the split {split!r}")
    return found


def _check_covered(file: Path, scene: str, tokens: Sequence[str], results: Results) -> None:
    missing = [token for token in tokens if token not in results]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        text = f"{file} leaves out {len(missing)} of the {len(tokens)} samples of {scene}"
        raise DataError(f"{text}: {', '.join(missing[:_SHOWN])}{more}; a sample without detections needs an empty list")
