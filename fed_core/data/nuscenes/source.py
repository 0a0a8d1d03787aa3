"""Where scans come from: an entry of a fleet file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fed_core.config import from_tree
from fed_core.data.nuscenes.sequence import NuScenesOptions, NuScenesSequence
from fed_core.data.open import SourceConfig, data_path
from fed_core.data.pooled import Pooled
from fed_core.data.sequence import DetectionSequence
from fed_core.errors import ConfigError

READER = "nuscenes"


def open_source(source: Any, base: Path) -> DetectionSequence:
    """Open an entry of a fleet file: a nuScenes dataroot, or several under ``parts``.

    Args:
        source: keys and values of :class:`SourceConfig`, or one; ``options`` are those of
            :class:`fed_core.data.nuscenes.sequence.NuScenesOptions`.
        base: folder of the fleet file.

    Raises:
        ConfigError: another reader is named, or an option is unknown.
        DataError: a folder or a table is missing or broken, or no frame is left.
    """
    config = source if isinstance(source, SourceConfig) else from_tree(SourceConfig, source, "source")
    if config.generated is not None or config.reader not in ("", READER):
        asked = "a generated sequence" if config.generated is not None else f"the layout {config.reader!r}"
        raise ConfigError(f"task detection reads folders of the layout {READER!r}, not {asked}")
    if config.scenarios:
        raise ConfigError("source: 'scenarios' belong to folders of opv2v; nuScenes has 'options: {scenes: [...]}'")
    part = slice(config.start, config.stop, config.step)
    if config.parts:
        return Pooled([open_source(each, base) for each in config.parts], config.name, part)
    tree: Mapping[str, Any] = config.options
    options = from_tree(NuScenesOptions, dict(tree), "source.options")
    root = data_path(config.data, base)
    return NuScenesSequence(config.name or options.domain or root.name, root, options, part)
