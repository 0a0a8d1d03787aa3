"""One door to all recordings: a path, a URI, or the entry of a fleet file."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlparse

from fed_core.config import check, from_tree, option
from fed_core.data.bag_files import METADATA, SUFFIXES, is_bag, storage_files
from fed_core.data.bags import BagSequence
from fed_core.data.colour_only import COLOUR, open_colour
from fed_core.data.concatenated import Concatenated
from fed_core.data.options import DEFAULT_EPOCH_NS, OpenOptions, TopicNames
from fed_core.data.readers import readers
from fed_core.data.readers.generic import no_unit
from fed_core.data.segment import Segment
from fed_core.data.sequence import DepthSequence
from fed_core.errors import ConfigError, DataError

#: Folder that relative data paths start from, where it is set.
DATA_VARIABLE = "FED_PERCEPTION_DATA"
BAG = "bag"
#: How the name of a file ends that a robot's recorder is writing.
UNFINISHED = ".mcap.part"


@dataclass(frozen=True)
class GeneratedConfig:
    """A sequence that the scene generator renders on the spot."""

    platform: str = option(help="what carries the camera")
    environment: str = option(help="what it moves through")
    seed: int = option(0, help="seed of the world and the path", low=0)
    frames: int = option(100, help="number of frames", unit="count", low=1)
    width: int = option(160, help="image width", unit="px", low=8)
    height: int = option(120, help="image height", unit="px", low=8)

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)


@dataclass(frozen=True)
class SourceConfig:
    """What feeds a robot: a recording (``data``), the generator (``generated``), or several of them (``parts``).

    ``start``, ``stop`` and ``step`` take a part of what is named.
    """

    data: str = option("", help="folder or bag")
    generated: GeneratedConfig | None = option(None, help="sequence to render")
    reader: str = option("", help='layout of the folder, "bag", or "colour" (no depth); default: found out')
    name: str = option("", help="name of the sequence")
    start: int = option(0, help="first frame; negative counts from the end")
    stop: int | None = option(None, help="frame after the last")
    step: int = option(1, help="take every step-th frame", unit="count", low=1)
    topics: TopicNames = option(TopicNames(), help="topics of a bag")
    slop_s: float = option(0.02, help="largest time between colour and depth of a frame", unit="s", low=0.0)
    rate_hz: float = option(10.0, help="frame rate of folders without times", unit="Hz", low=1e-3, high=1e6)
    epoch_ns: int = option(DEFAULT_EPOCH_NS, help="time of frame 0 of folders without times", unit="ns", low=0)
    intrinsics: tuple[float, ...] = option((), help="fx fy cx cy; default: from the recording", unit="px")
    frame_id: str = option("", help="optical frame; default: from the recording")
    depth_unit: str = option("", help='unit of 16 bit depth in a bag; default: "mm" (REP 118)')
    parts: tuple["SourceConfig", ...] = option((), help="sources whose frames follow each other")
    scenarios: tuple[str, ...] = option((), help="opv2v: only these scenarios of the folder")
    options: Mapping[str, Any] = field(
        default_factory=dict,
        hash=False,
        metadata={"help": "opv2v: cameras, label, vehicle, amcm_mask; nuscenes: version, domain, split, scenes, ..."},
    )

    def __post_init__(self) -> None:
        """Check the bounds and that there is exactly one source."""
        check(self)
        if [bool(self.data), self.generated is not None, bool(self.parts)].count(True) != 1:
            one = "a source needs either 'data: PATH' or 'generated: {platform, environment, ...}'"
            raise ConfigError(f"{one} or 'parts: [SOURCE, ...]'")

    @property
    def open_options(self) -> OpenOptions:
        """Options for :func:`open_sequence`."""
        return OpenOptions(
            name=self.name,
            rate_hz=self.rate_hz,
            epoch_ns=self.epoch_ns,
            intrinsics=self.intrinsics,
            frame_id=self.frame_id,
            topics=self.topics,
            slop_s=self.slop_s,
            depth_unit=self.depth_unit,
        )


def open_sequence(source: str | Path, *, reader: str = "", **options: Any) -> DepthSequence:
    """Open a recording.

    Args:
        source: folder, bag, ``file:`` URI, or ``generated:PLATFORM/ENVIRONMENT?seed=1&frames=100``.
        reader: layout (a name in :data:`fed_core.data.readers.readers`), "bag", or "colour" for pictures of a bag or a
            folder without their depth; default: found out.
        **options: fields of :class:`OpenOptions`.

    Raises:
        DataError: missing, of no known layout (tells what was tried and what is there), or broken.
        ConfigError: an option is unknown or out of its bounds.
    """
    checked = from_tree(OpenOptions, options, "open_sequence")
    uri = urlparse(str(source))
    if uri.scheme == "generated":
        platform, _, environment = (uri.netloc + uri.path).strip("/").partition("/")
        numbers = {key: _to_int(key, value) for key, value in parse_qsl(uri.query)}
        tree = {"platform": platform, "environment": environment, **numbers}
        return _generate(from_tree(GeneratedConfig, tree, str(source)), checked.name)
    path = Path(unquote(uri.path)) if uri.scheme == "file" else Path(source)
    return _open_path(path, reader, checked)


def open_source(tree: Any, base: Path) -> DepthSequence:
    """Open an entry of a fleet file.

    Args:
        tree: keys and values of :class:`SourceConfig`, or one.
        base: folder of the fleet file; relative paths start here unless ``FED_PERCEPTION_DATA`` is set.
    """
    config = tree if isinstance(tree, SourceConfig) else from_tree(SourceConfig, tree, "source")
    if config.scenarios or config.options:
        tasks = "opv2v and nuscenes, which the tasks bev and detection read"
        raise ConfigError(f"source: 'scenarios' and 'options' belong to folders of {tasks}")
    whole: DepthSequence
    if config.parts:
        whole = Concatenated([partial(open_source, part, base) for part in config.parts], config.name)
    elif config.generated is not None:
        whole = _generate(config.generated, config.name)
    else:
        whole = _open_path(data_path(config.data, base), config.reader, config.open_options)
    if (config.start, config.stop, config.step) == (0, None, 1):
        return whole
    return Segment(whole, config.start, config.stop, config.step, config.name)


def data_path(data: str | Path, base: Path) -> Path:
    """Return the path of a recording: relative ones start at ``FED_PERCEPTION_DATA`` where set, else at ``base``."""
    root = os.environ.get(DATA_VARIABLE)
    return (Path(root) if root else base) / Path(data).expanduser()


def find_reader(path: Path) -> str:
    """Return the layout of a path: "bag" or the name of a reader; "" where none fits.

    A ``sequence.yaml`` beats what the names of the files suggest.
    """
    if not path.is_dir():
        return BAG if path.suffix in SUFFIXES else ""
    try:
        fitting = [name for name in readers.names() if readers.get(name)().matches(path)]
        fitting = fitting or ([BAG] if is_bag(path) else [])
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror}") from err
    if "generic" in fitting:
        return "generic"
    if len(fitting) > 1:
        raise DataError(f"{path} fits several layouts: {', '.join(fitting)}; name one with reader:")
    return fitting[0] if fitting else ""


def list_recordings(folder: Path) -> list[Path]:
    """Return the recordings in a folder, sorted by name; the folder itself where it is one.

    Only the folder and its direct children are looked at.
    """
    if not folder.exists():
        raise DataError(f"{folder} does not exist")
    if not folder.is_dir():
        return [folder] if find_reader(folder) else []
    many_bags = not (folder / METADATA).exists() and len(storage_files(folder)) > 1
    if find_reader(folder) and not many_bags:
        return [folder]
    return sorted(child for child in folder.iterdir() if find_reader(child))


def what_is_in(folder: Path) -> str:
    """Return one line on the files of a folder: "122 files (40 .jpg, 40 .png, 41 .txt), folders: color, depth"."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as err:
        raise DataError(f"cannot read {folder}: {err.strerror}") from err
    files = Counter(f.suffix or "without suffix" for f in entries if f.is_file())
    folders = [f.name for f in entries if f.is_dir()]
    kinds = ", ".join(f"{count} {suffix}" for suffix, count in files.most_common(6))
    texts = [f"{sum(files.values())} files ({kinds})"] if files else []
    if folders:
        texts.append(f"folders: {', '.join(folders[:8])}{' ...' if len(folders) > 8 else ''}")
    return "; ".join(texts) or "nothing"


def _open_path(path: Path, reader: str, options: OpenOptions) -> DepthSequence:
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if reader == COLOUR:
        return open_colour(path, options)
    name = reader or find_reader(path)
    if name == BAG:
        return BagSequence(path, options)
    if name:
        entry = readers.get(name)
        if not path.is_dir():
            raise DataError(f"{path} is a file; the layout {name} is a folder with {entry.layout}")
        return entry().open(path, options)
    if unfinished := _unfinished(path):
        mended = "the robot that records there mends it at its next start"
        raise DataError(f"{path}: {unfinished} is a recording that was not closed; {mended}")
    if path.is_file():
        raise DataError(f"{path} is not a recording; expected a folder or {', '.join(SUFFIXES)}")
    if (path / "depth").is_dir() and any((path / colour).is_dir() for colour in ("rgb", "color", "image")):
        raise no_unit(path)
    tried = ", ".join([BAG, *readers.names()])
    inside = ", ".join(child.name for child in list_recordings(path)[:8])
    advice = f"; recordings in it, name one: {inside}" if inside else ""
    raise DataError(f"{path} has no known layout (tried {tried}); it holds {what_is_in(path)}{advice}")


def _unfinished(path: Path) -> str:
    """Return the name of the file that a recorder was writing in a folder, or that a path is; "" = none."""
    files = [path] if path.is_file() else sorted(path.glob("*" + UNFINISHED))
    return next((file.name for file in files if file.name.endswith(UNFINISHED)), "")


def _generate(config: GeneratedConfig, name: str) -> DepthSequence:
    # Imported on use: rendering needs libraries that reading does not.
    scenes = import_module("fed_core.scenes")
    sequence: DepthSequence = scenes.GeneratedSequence(
        config.platform,
        config.environment,
        seed=config.seed,
        num_frames=config.frames,
        width=config.width,
        height=config.height,
        name=name or None,
    )
    return sequence


def _to_int(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as err:
        raise ConfigError(f"generated: {key} is {text!r}; expected a whole number") from err
