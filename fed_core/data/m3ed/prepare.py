"""M3ED recordings into sequence stores: which ones, which frames, and what is noted with them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fed_core.config import check, option
from fed_core.data.m3ed.files import recording_names
from fed_core.data.m3ed.options import M3edOptions
from fed_core.data.m3ed.sequence import M3edSequence, open_m3ed
from fed_core.data.m3ed.split import M3edEntry
from fed_core.data.store import INDEX, read_index, write_store
from fed_core.errors import DataError

#: Told while a recording is prepared: what is done, how much of it, of how much.
OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PrepareOptions:
    """How recordings are prepared."""

    m3ed: M3edOptions = option(M3edOptions(), help="how frames are made")
    max_frames: int = option(600, help="most frames of one recording, uniform in time", unit="count", low=1)

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)


def find_recordings(root: Path) -> dict[str, Path]:
    """Return the folders of the recordings under ``root`` by name: ROOT/NAME/NAME_data.h5, or flat in ROOT.

    Raises:
        DataError: nothing is there.
    """
    if not root.is_dir():
        raise DataError(f"{root} is no folder")
    folders = [root, *sorted(child for child in root.iterdir() if child.is_dir())]
    found: dict[str, Path] = {}
    for folder in folders:
        for name in recording_names(folder):
            found.setdefault(name, folder)
    if not found:
        raise DataError(f"{root} holds no M3ED recording; expected NAME/NAME_data.h5 and NAME/NAME_depth_gt.h5")
    return dict(sorted(found.items()))


def spread(times: npt.NDArray[np.int64], count: int) -> list[int]:
    """Return ``count`` indexes whose times are as evenly spread as they can be; all where there are not more.

    Args:
        times: (N,) int64, growing.
        count: at least 1.
    """
    if len(times) <= count:
        return list(range(len(times)))
    chosen: list[int] = []
    for place, wanted in enumerate(np.linspace(times[0], times[-1], count)):
        after = int(np.searchsorted(times, wanted))
        nearest = min((i for i in (after - 1, after) if 0 <= i < len(times)), key=lambda i: abs(times[i] - wanted))
        lowest = chosen[-1] + 1 if chosen else 0
        # As many must be left as are still to be chosen.
        chosen.append(min(max(nearest, lowest), len(times) - (count - place)))
    return chosen


def choose_frames(sequence: M3edSequence, options: PrepareOptions, on_step: OnStep) -> list[int]:
    """Return the frames to prepare: those with depth enough, at most ``max_frames`` of them, uniform in time.

    Whether depth is enough is judged here by the published map, which is cheap; the store looks at the frame itself.
    """
    candidates = list(range(len(sequence)))
    if len(candidates) <= options.max_frames:
        return candidates
    kept = []
    for index in candidates:
        try:
            if sequence.native_share(index) >= options.m3ed.min_valid:
                kept.append(index)
        except DataError:
            pass  # a damaged map; the rest of the recording is of use
        on_step("looks for depth", index + 1, len(candidates))
    times = np.array([sequence.stamp_ns(index) for index in kept], dtype=np.int64)
    return [kept[i] for i in spread(times, options.max_frames)]


def prepare_recording(
    folder: Path,
    entry: M3edEntry,
    out: Path,
    options: PrepareOptions,
    on_step: OnStep = lambda *_: None,
    *,
    role: str = "client",
) -> Path:
    """Write one recording into the store ``out/NAME``; a finished one stays, an interrupted one goes on.

    Args:
        folder: where its files are.
        entry: the recording.
        out: folder of the stores.
        options: how.
        on_step: called with what is done, how much, of how much.
        role: "client" trains, "test" is never trained on.

    Raises:
        DataError: the files are broken, no frame is usable, or the store was prepared with other options.
    """
    store = out / entry.name
    how = _recipe(options)
    if (store / INDEX).exists():
        _require_same(store, how)
        return store
    sequence = open_m3ed(folder, options.m3ed, name=entry.name)
    try:
        return write_store(
            sequence,
            store,
            info={"role": role, **entry.info, **how, "dt": str(sequence.histogram)},
            indexes=choose_frames(sequence, options, on_step),
            min_valid=options.m3ed.min_valid,
            on_progress=lambda done, total: on_step("frames", done, total),
        )
    finally:
        sequence.close()


def _recipe(options: PrepareOptions) -> dict[str, str]:
    m3ed = options.m3ed
    return {
        "data_set": "m3ed",
        "pairing": f"{m3ed.pairing}, {m3ed.tolerance_us / 1000:g} ms",
        "camera": m3ed.frame,
        "size": f"{m3ed.width}x{m3ed.height}",
        "depth": f"{m3ed.min_depth_m:g}..{m3ed.max_depth_m:g} m",
        "max_frames": str(options.max_frames),
    }


def _require_same(store: Path, how: dict[str, str]) -> None:
    info = read_index(store).get("info", {})
    for key, wanted in how.items():
        if info.get(key) != wanted:
            raise DataError(
                f"{store} was prepared with {key} {info.get(key, 'unknown')!r}, not {wanted!r}; "
                "choose another folder, or delete it"
            )
