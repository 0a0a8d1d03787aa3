"""Rendered sources on disk: robots record before they train, and so no job renders anything."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from fed_core.config import to_tree
from fed_core.data.bag_writer import record_once
from fed_core.data.open import SourceConfig, open_source


def on_disk(
    source: SourceConfig,
    base: Path,
    folder: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> SourceConfig:
    """Return a source whose frames lie on disk: a rendered one as a bag, any other one as it is.

    Args:
        source: of a robot.
        base: folder that relative paths of sources start from.
        folder: where the bag goes; one of the same source that is there is taken.
        on_progress: called with frames done and frames in all.
    """
    if source.generated is None:
        return source
    digest = hashlib.sha256(json.dumps(to_tree(source), sort_keys=True).encode()).hexdigest()
    path = (folder / f"samples-{digest[:12]}").absolute()
    return SourceConfig(data=str(record_once(open_source(source, base), path, on_progress)))
