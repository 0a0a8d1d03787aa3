"""What is in a recording, as plain data; the command line draws it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.data.bag_files import BagFile
from fed_core.data.bags import BagSequence
from fed_core.data.colour_only import COLOUR
from fed_core.data.m3ed.sequence import M3edSequence
from fed_core.data.nuscenes.contents import content_table
from fed_core.data.nuscenes.tables import PART, list_versions, open_tables, told_of
from fed_core.data.open import BAG, find_reader, open_sequence
from fed_core.data.readers.base import FolderSequence
from fed_core.data.readers.stored import StoredSequence
from fed_core.data.sequence import DepthSequence
from fed_core.data.units import valid_share
from fed_core.errors import DataError
from fed_core.types import DepthFrame

# Frames that are decoded for depth range and valid share, evenly spread.
_SAMPLED_FRAMES = 20
# Bytes of a bag that are read for sizes and rates.
_SAMPLED_BYTES = 4 << 30


@dataclass(frozen=True)
class Report:
    """A table about something on disk.

    Attributes:
        title: one line.
        rows: (field, value).
        columns: heads of ``table``.
        table: rows of text: topics of a bag, or kinds of files of a folder.
        notes: what is wrong or left out, one line each.
    """

    title: str
    rows: tuple[tuple[str, str], ...]
    columns: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = field(default=())


def describe(path: Path, **options: Any) -> Report:
    """Return what is in a folder of RGB-D images, in a bag or in a nuScenes folder.

    A bag without RGB-D frames is described too; ``notes`` says why it has none.

    Args:
        path: folder or bag.
        **options: fields of :class:`fed_core.data.options.OpenOptions`.

    Raises:
        DataError: missing, of no known layout, or broken.
    """
    if path.exists() and find_reader(path) == BAG:
        return _describe_bag(path, options)
    if path.name in list_versions(path.parent) and (path / "scene.json").is_file():
        return _describe_scans(path.parent, [path.name])
    if versions := list_versions(path):
        return _describe_scans(path, versions)
    sequence = open_sequence(path, **options)
    rows, notes = _frames(sequence)
    kind = find_reader(path)
    return Report(
        f"{path}: {kind} folder",
        (("layout", kind), *rows),
        ("files", "count", "size"),
        tuple(_file_kinds(path)),
        notes,
    )


def _pictures(path: Path, options: dict[str, Any]) -> tuple[str, ...]:
    """Return a line on what a bag without RGB-D frames is good for; nothing where it has no images of one camera."""
    try:
        images = len(open_sequence(path, reader=COLOUR, **options))
    except DataError:
        return ()
    return (f"{images} colour images: fedperc play shows them to a trained network",)


def _describe_bag(path: Path, options: dict[str, Any]) -> Report:
    with BagFile(path) as bag:
        table, read_bytes, is_partial = _topic_table(bag)
        first_ns, last_ns = bag.span_ns
        rows = [
            ("messages", str(bag.num_messages)),
            ("topics", str(len(bag.topics))),
            ("recorded", _span(first_ns, last_ns)),
            ("size", size_text(_size_of(path))),
        ]
    notes: tuple[str, ...] = ()
    if is_partial:
        notes = (f"rates and sizes are of the first {size_text(read_bytes)}",)
    try:
        sequence = open_sequence(path, reader=BAG, **options)
    except DataError as err:
        notes = (*notes, f"no RGB-D frames: {err}", *_pictures(path, options))
    else:
        more, warnings = _frames(sequence)
        rows += more
        notes = (*notes, *warnings)
    return Report(f"{path}: bag", tuple(rows), ("topic", "type", "count", "rate", "size"), table, notes)


def _describe_scans(path: Path, versions: list[str]) -> Report:
    """Return the domains of a nuScenes folder; of the first version where there are several."""
    tables = open_tables(path, versions[0])
    with told_of(tables):
        rows, columns, table = content_table(tables)
    notes: tuple[str, ...] = ()
    if versions[0].startswith(PART):
        notes = (f"not finished, {len(versions)} scenes are there; the command that generates it goes on",)
    elif len(versions) > 1:
        notes = (f"other versions, to see one name its folder: {', '.join(versions[1:])}",)
    return Report(f"{path}: nuscenes folder", (("layout", "nuscenes"), *rows), columns, table, notes)


def _topic_table(bag: BagFile) -> tuple[tuple[tuple[str, ...], ...], int, bool]:
    """Return one row per topic, the bytes that were read for them, and whether that was only a part of the bag."""
    spans: dict[str, list[int]] = {}
    read_bytes, is_partial = 0, False
    for raw in bag.messages():
        if read_bytes > _SAMPLED_BYTES:
            is_partial = True
            break
        read_bytes += len(raw.data)
        seen = spans.setdefault(raw.topic, [raw.log_ns, raw.log_ns, 0, 0])
        seen[0], seen[1] = min(seen[0], raw.log_ns), max(seen[1], raw.log_ns)
        seen[2] += 1
        seen[3] += len(raw.data)
    rows = []
    for topic in bag.topics.values():
        first, last, count, size = spans.get(topic.name, [0, 0, 0, 0])
        rate = f"{(count - 1) * 1e9 / (last - first):.1f} Hz" if count > 1 and last > first else ""
        rows.append((topic.name, topic.type, str(topic.count), rate, size_text(size)))
    return tuple(rows), read_bytes, is_partial


def _frames(sequence: DepthSequence) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Return rows about the frames of a sequence, and what is wrong with some."""
    num_frames = len(sequence)
    sampled = sorted({round(i) for i in np.linspace(0, num_frames - 1, min(num_frames, _SAMPLED_FRAMES))})
    frames: list[DepthFrame] = []
    rows, notes = [("frames", str(num_frames)), *_stated(sequence)], []
    stats = _Stats()
    for index in sampled:
        try:
            frame = sequence[index]
        except DataError as err:
            notes.append(str(err))
            continue
        stats.add(frame)
        frames = [*frames[:1], frame]
    if frames:
        k = frames[0].intrinsics
        rows += [
            ("resolution", " and ".join(sorted(stats.sizes))),
            ("depth range", f"{stats.low_m:.2f} .. {stats.high_m:.2f} m"),
            ("valid depth", f"{np.mean(stats.shares):.1%} of the pixels ({min(stats.shares):.1%} at least)"),
            ("intrinsics", f"fx {k[0, 0]:.1f}, fy {k[1, 1]:.1f}, cx {k[0, 2]:.1f}, cy {k[1, 2]:.1f} px"),
            ("stamps", _span(frames[0].stamp_ns, frames[-1].stamp_ns)),
            ("frame", frames[0].frame_id),
        ]
    if num_frames > len(sampled):
        notes.append(f"depth range and valid depth are of {len(sampled)} frames, evenly spread")
    return rows, tuple(notes)


@dataclass
class _Stats:
    sizes: set[str] = field(default_factory=set)
    shares: list[float] = field(default_factory=list)
    low_m: float = float("inf")
    high_m: float = 0.0

    def add(self, frame: DepthFrame) -> None:
        height, width = frame.depth_m.shape
        self.sizes.add(f"{width}x{height}")
        self.shares.append(valid_share(frame.depth_m))
        self.low_m = min(self.low_m, float(np.nanmin(frame.depth_m)))
        self.high_m = max(self.high_m, float(np.nanmax(frame.depth_m)))


def _stated(sequence: DepthSequence) -> Iterator[tuple[str, str]]:
    if isinstance(sequence, FolderSequence):
        yield "depth unit", sequence.coding.unit
    elif isinstance(sequence, BagSequence):
        yield "depth unit", sequence.unit or "mm for 16 bit, m for float"
        yield "colour topic", sequence.topics.colour
        yield "depth topic", sequence.topics.depth
        if sequence.topics.info:
            yield "camera topic", sequence.topics.info
    elif isinstance(sequence, M3edSequence):
        yield from sequence.facts()
    elif isinstance(sequence, StoredSequence):
        yield from sequence.info.items()


def _file_kinds(folder: Path) -> Iterator[tuple[str, ...]]:
    kinds: dict[str, list[int]] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            where = file.parent.relative_to(folder)
            seen = kinds.setdefault(str(where / f"*{file.suffix}"), [0, 0])
            seen[0] += 1
            seen[1] += file.stat().st_size
    for kind, (count, size) in kinds.items():
        yield kind, str(count), size_text(size)


def _size_of(path: Path) -> int:
    return sum(f.stat().st_size for f in path.iterdir() if f.is_file()) if path.is_dir() else path.stat().st_size


def size_text(size_bytes: int) -> str:
    """Return bytes for people: "1.4 MB" (powers of 1000)."""
    value, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def _span(first_ns: int, last_ns: int) -> str:
    """Return start (UTC) and length of a time span."""
    length = f"{(last_ns - first_ns) / 1e9:.1f} s"
    if first_ns <= 0:
        return length
    start = datetime.fromtimestamp(first_ns / 1e9, tz=timezone.utc)
    return f"{length} from {start:%Y-%m-%d %H:%M:%S} UTC"
