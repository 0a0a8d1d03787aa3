"""The sequence store: a recording prepared once, in a form that opens fast and loses little.

A folder with ``rgb/000000.png`` (8 bit), ``depth/000000.png`` (16 bit, 1/256 m, 0 = unknown, up to 255.99 m) and
``index.json``, which is written last: a folder with it is complete. Frames are written one by one, so an interrupted
preparation goes on where it stopped. The reader is :mod:`fed_core.data.readers.stored`.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from fed_core.data.sequence import DepthSequence
from fed_core.data.units import valid_share
from fed_core.errors import DataError
from fed_core.types import Array, DepthFrame
from fed_core.wire.files import write_text

INDEX = "index.json"
SCHEMA_VERSION = 1
UNIT = "1/256 m"
COUNTS_PER_M = 256.0
#: Least share of pixels with a depth in a stored frame (fedepth spec 10.4).
MIN_VALID = 0.01
_LARGEST = np.iinfo(np.uint16).max
_PART = ".part.json"

OnProgress = Callable[[int, int], None]


def write_store(
    sequence: DepthSequence,
    folder: Path,
    *,
    info: Mapping[str, str],
    indexes: Sequence[int] | None = None,
    min_valid: float = MIN_VALID,
    on_progress: OnProgress = lambda done, total: None,
) -> Path:
    """Write frames of a sequence into a store; a finished store stays as it is, a half-done one goes on.

    Args:
        sequence: frames, read once each and in order.
        folder: of the store.
        info: what belongs to the recording (platform, environment, site); kept in the index.
        indexes: frames to take; default: all.
        min_valid: frames with a smaller share of known depth are left out, as are broken ones.
        on_progress: called with frames done and frames in all.

    Returns:
        The folder.

    Raises:
        DataError: no frame is usable, or the folder holds half of another preparation.
    """
    if (folder / INDEX).exists():
        return folder
    chosen = list(range(len(sequence)) if indexes is None else indexes)
    part = _Part(folder, {"name": sequence.name, "indexes": chosen, "info": dict(info), "min_valid": min_valid})
    for place, index in enumerate(chosen):
        if not part.has(index):
            part.add(index, _usable(sequence, index, min_valid))
        on_progress(place + 1, len(chosen))
    part.finish(sequence.source)
    return folder


def read_index(folder: Path) -> dict[str, Any]:
    """Return the index of a store; a missing, broken or newer one raises :class:`DataError`."""
    path = folder / INDEX
    try:
        tree: dict[str, Any] = json.loads(path.read_text())
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror}") from err
    except ValueError as err:
        raise DataError(f"{path} is broken; delete the folder and prepare the recording again") from err
    if not isinstance(tree, dict) or tree.get("schema") != SCHEMA_VERSION:
        found = tree.get("schema") if isinstance(tree, dict) else None
        raise DataError(f"{path} has schema {found}, this version reads schema {SCHEMA_VERSION}")
    return tree


class _Part:
    """A store that is being written: frames on disk, and a list of what was done."""

    def __init__(self, folder: Path, recipe: dict[str, Any]) -> None:
        self._folder, self._path = folder, folder / _PART
        try:
            for name in ("rgb", "depth"):
                (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise DataError(f"cannot make the store {folder}: {err.strerror} ({err.filename})") from err
        self._recipe, self._done = recipe, {}
        if self._path.exists():
            self._done = self._resume()
        else:
            write_text(self._path, json.dumps(recipe) + "\n")

    def _resume(self) -> dict[int, dict[str, Any] | None]:
        first, *lines = self._path.read_text().split("\n")
        if json.loads(first) != self._recipe:
            text = f"{self._folder} holds half of another preparation; delete it, or repeat that one to its end"
            raise DataError(text)
        done: dict[int, dict[str, Any] | None] = {}
        for line in lines:
            try:
                index, frame = json.loads(line)
            except ValueError:  # the last line may be cut off
                break
            done[int(index)] = frame
        write_text(self._path, "".join(line + "\n" for line in (first, *map(_line, done.items()))))
        return done

    def has(self, index: int) -> bool:
        return index in self._done

    def add(self, index: int, frame: DepthFrame | None) -> None:
        entry = None
        if frame is not None:
            name = f"{index:06d}.png"
            _write_png(self._folder / "rgb" / name, np.ascontiguousarray(frame.rgb[..., ::-1]))
            _write_png(self._folder / "depth" / name, to_counts(frame.depth_m))
            matrix = [float(value) for value in frame.intrinsics.ravel()]
            entry = {"file": name, "stamp_ns": frame.stamp_ns, "intrinsics": matrix, "frame_id": frame.frame_id}
        self._done[index] = entry
        with self._path.open("a") as file:
            file.write(_line((index, entry)) + "\n")

    def finish(self, source: str) -> None:
        frames = [self._done[index] for index in self._recipe["indexes"]]
        kept = [frame for frame in frames if frame is not None]
        if not kept:
            text = f"none of the {len(frames)} frames of {self._recipe['name']!r} loads and has a depth"
            raise DataError(f"{text} in {self._recipe['min_valid']:.0%} of its pixels; nothing to store")
        tree = {
            "schema": SCHEMA_VERSION,
            "name": self._recipe["name"],
            "source": source,
            "unit": UNIT,
            "info": self._recipe["info"],
            "skipped": len(frames) - len(kept),
            "frames": kept,
        }
        write_text(self._folder / INDEX, json.dumps(tree))
        self._path.unlink()


def _line(item: tuple[int, dict[str, Any] | None]) -> str:
    return json.dumps(list(item))


def to_counts(depth_m: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return depth (H, W) float32 metres as (H, W) uint16 of 1/256 m; unknown and too far depth becomes 0."""
    counts = np.rint(np.nan_to_num(depth_m, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float64) * COUNTS_PER_M)
    return np.where((counts > 0) & (counts <= _LARGEST), counts, 0).astype(np.uint16)


def _usable(sequence: DepthSequence, index: int, min_valid: float) -> DepthFrame | None:
    try:
        frame = sequence[index]
    except DataError:
        return None
    return frame if valid_share(frame.depth_m) >= min_valid else None


def _write_png(path: Path, image: Array) -> None:
    done, data = cv2.imencode(".png", image)
    if not done:
        raise DataError(f"{path}: an image {image.dtype} {image.shape} cannot be written as PNG")
    part = path.with_suffix(".part")
    try:
        part.write_bytes(data.tobytes())
        os.replace(part, path)
    except OSError as err:
        raise DataError(f"cannot write {path}: {err.strerror}") from err
