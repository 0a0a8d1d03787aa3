"""Where frames of all cameras come from: an entry of a fleet file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fed_core.config import from_tree, to_tree
from fed_core.data.open import SourceConfig
from fed_core.data.opv2v.sequence import DRAWN, open_bev
from fed_core.data.pooled import Pooled
from fed_core.data.sequence import BevSequence
from fed_core.errors import ConfigError

READER = "opv2v"
_PASSED = ("data", "name", "start", "stop", "step", "scenarios", "options")


def open_source(source: Any, base: Path) -> BevSequence:
    """Open an entry of a fleet file: a folder of OPV2V's layout, or several under ``parts``.

    Args:
        source: keys and values of :class:`SourceConfig`, or one; ``options`` are those of
            :class:`fed_core.data.opv2v.sequence.BevOptions`.
        base: folder of the fleet file.

    Raises:
        ConfigError: another reader is named, or an option is unknown.
        DataError: a folder is missing or holds no scenario.
    """
    config = source if isinstance(source, SourceConfig) else from_tree(SourceConfig, source, "source")
    if config.generated is not None or config.reader not in ("", READER):
        asked = "a generated sequence" if config.generated is not None else f"the layout {config.reader!r}"
        raise ConfigError(f"task bev reads folders of the layout {READER!r}, not {asked}")
    if config.parts:
        parts = [open_source(part, base) for part in config.parts]
        return Pooled(parts, config.name, slice(config.start, config.stop, config.step))
    tree = to_tree(config)
    return open_bev({key: tree[key] for key in _PASSED}, base)


def at_round(source: Any, number: int) -> Any:
    """Return the entry of a fleet file for round ``number``, from 1: with ``vehicle: drawn`` other vehicles.

    Every round counts as an epoch (feddwa spec 6). An entry that draws nothing is returned itself.
    """
    tree = source if isinstance(source, Mapping) else to_tree(source)
    parts, options = tree.get("parts") or (), tree.get("options") or {}
    if parts:
        anew = [at_round(part, number) for part in parts]
        return {**tree, "parts": anew} if any(a is not b for a, b in zip(anew, parts, strict=True)) else source
    if options.get("vehicle") != DRAWN:
        return source
    return {**tree, "options": {**options, "epoch": options.get("epoch", 0) + number - 1}}
