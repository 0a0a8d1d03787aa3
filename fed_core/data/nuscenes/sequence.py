"""Keyframes of nuScenes as scans with boxes in the LiDAR frame."""

from dataclasses import dataclass
from pathlib import Path

from fed_core.config import check, option
from fed_core.data.nuscenes.domains import DOMAINS, SPLITS
from fed_core.types import DetectionFrame

CAMERAS = (
    "CAM_FRONT",
    "CAM_FRONT_RIGHT",
    "CAM_FRONT_LEFT",
    "CAM_BACK",
    "CAM_BACK_LEFT",
    "CAM_BACK_RIGHT",
)


@dataclass(frozen=True)
class NuScenesOptions:
    """Which frames of a folder are taken, and what of them."""

    version: str = option("", help='version folder, "v1.0-trainval"; default: the only one')
    domain: str = option("", help="scenes of one domain only", choices=("", *DOMAINS.values()))
    split: str = option("", help="scenes of one split only", choices=("", *SPLITS))
    scenes: tuple[str, ...] = option((), help="only these scenes")
    cameras: tuple[str, ...] = option(CAMERAS, help="channels of the cameras, in the order that frames give them")
    sweeps: int = option(5, help="earlier scans added to that of a keyframe", unit="count", low=0)
    load_interval: int = option(1, help="take every n-th keyframe of each scene", unit="count", low=1)
    min_points: int = option(0, help="leave out boxes with fewer LiDAR points", unit="count", low=0)

    def __post_init__(self) -> None:
        """Check the bounds and the cameras."""
        check(self)


class NuScenesSequence:
    """Keyframes in time order within each scene; follows :class:`fed_core.data.sequence.DetectionSequence`."""

    def __init__(
        self, name: str, root: Path, options: NuScenesOptions | None = None, part: slice = slice(None)
    ) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        """Return the number of frames."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> DetectionFrame:
        """Return frame ``index``; a missing or broken file raises :class:`DataError`."""
        raise NotImplementedError

    def token(self, index: int) -> str:
        """Return the sample token of frame ``index`` without reading it."""
        raise NotImplementedError

    def scene(self, index: int) -> str:
        """Return the name of the scene of frame ``index`` without reading it."""
        raise NotImplementedError

    def present_classes(self, index: int) -> frozenset[int]:
        """Return the classes that have boxes in frame ``index``, from the tables alone."""
        raise NotImplementedError
