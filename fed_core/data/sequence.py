"""What every reader, bag and generator gives: a named sequence of RGB-D frames, or of all sensors of a vehicle."""

from typing import Protocol

from fed_core.types import BevFrame, DepthFrame, DetectionFrame


class DepthSequence(Protocol):
    """RGB-D frames in time order, read one at a time.

    Attributes:
        name: short name, unique in its data set ("office_seg2").
        source: where it comes from (a path, or "generated").
    """

    name: str
    source: str

    def __len__(self) -> int:
        """Return the number of frames."""

    def __getitem__(self, index: int) -> DepthFrame:
        """Return frame ``index``; raises ``IndexError`` past the end and ``DataError`` for a broken frame."""


class BevSequence(Protocol):
    """Frames of vehicles that look around, in a fixed order, read one at a time.

    Attributes:
        name: short name, unique in its data set ("bus", "client_1").
        source: where it comes from (a folder).
    """

    name: str
    source: str

    def __len__(self) -> int:
        """Return the number of frames."""

    def __getitem__(self, index: int) -> BevFrame:
        """Return frame ``index``; raises ``IndexError`` past the end and ``DataError`` for a broken frame."""


class DetectionSequence(Protocol):
    """Scans of a vehicle with boxes around it, in time order within a scene, read one at a time.

    Attributes:
        name: short name, unique in its data set ("boston_day").
        source: where it comes from (a folder).
    """

    name: str
    source: str

    def __len__(self) -> int:
        """Return the number of frames."""

    def __getitem__(self, index: int) -> DetectionFrame:
        """Return frame ``index``; raises ``IndexError`` past the end and ``DataError`` for a broken frame."""
