"""Opens what the robots of a task learn from, without PyTorch: nodes and commands that run no network use this."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fed_core.data import open as depth
from fed_core.data.nuscenes import source as detection
from fed_core.data.opv2v import source as bev
from fed_core.errors import ConfigError, DataError

#: By task. :meth:`fed_core.tasks.base.Task.open` gives the same.
_OPEN: Mapping[str, Callable[[Any, Path], Any]] = {
    "depth": depth.open_source,
    "bev": bev.open_source,
    "detection": detection.open_source,
}
TASKS = tuple(_OPEN)


def open_samples(task: str, source: Any, base: Path) -> Any:
    """Open an entry of a fleet file.

    Args:
        task: name of the task.
        source: keys and values of :class:`fed_core.data.open.SourceConfig`, or one.
        base: folder of the fleet file; relative paths start here unless ``FED_PERCEPTION_DATA`` is set.

    Returns:
        A sequence of samples: one of the protocols in :mod:`fed_core.data.sequence`.
    """
    if task not in _OPEN:
        raise ConfigError(f"no recordings are known for task {task!r}; known: {', '.join(TASKS)}")
    return _OPEN[task](source, base)


def first_readable(sequence: Any) -> Any:
    """Return the first sample that can be read, for who must know one before all others; DataError where none can."""
    told = ""
    for index in range(len(sequence)):
        try:
            return sequence[index]
        except DataError as err:
            told = told or str(err)
    raise DataError(f"no frame of {sequence.name} can be read; the first: {told}")
