"""Where scans come from: an entry of a fleet file."""

from pathlib import Path
from typing import Any

from fed_core.data.sequence import DetectionSequence

READER = "nuscenes"


def open_source(source: Any, base: Path) -> DetectionSequence:
    """Open an entry of a fleet file: a nuScenes dataroot, or several under ``parts``."""
    raise NotImplementedError
