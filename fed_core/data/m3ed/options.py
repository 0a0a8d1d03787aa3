"""How an M3ED recording becomes RGB-D frames; the data set leaves these choices open."""

from dataclasses import dataclass

from fed_core.config import check, option
from fed_core.errors import ConfigError

STRICT, POSE = "strict", "pose"
DEPTH_TO_RGB, RGB_TO_EVENT = "depth_to_rgb", "rgb_to_event"


@dataclass(frozen=True)
class M3edOptions:
    """Options of :func:`fed_core.data.m3ed.open_m3ed`."""

    pairing: str = option(
        POSE,
        help="strict: near in time, as recorded; pose: farther, and the points move to the time of the image",
        choices=(STRICT, POSE),
    )
    strict_ms: float = option(5.0, help="largest |dt| of image and depth, strict", unit="ms", low=0.0)
    pose_ms: float = option(20.0, help="largest |dt| of image and depth, pose", unit="ms", low=0.0)
    frame: str = option(
        DEPTH_TO_RGB,
        help="depth_to_rgb: depth in the colour camera; rgb_to_event: colour turned to the left event camera, "
        "correct at infinity only",
        choices=(DEPTH_TO_RGB, RGB_TO_EVENT),
    )
    height: int = option(384, help="output rows; a smaller image gives the largest multiple of 32", unit="px", low=1)
    width: int = option(640, help="output columns; as for the rows", unit="px", low=1)
    min_valid: float = option(0.01, help="share of pixels with depth that a prepared frame needs", low=0.0, high=1.0)
    min_depth_m: float = option(0.1, help="nearer depth counts as missing", unit="m", low=0.0)
    max_depth_m: float = option(80.0, help="farther depth counts as missing", unit="m", low=0.0)

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)
        if not self.min_depth_m < self.max_depth_m:
            raise ConfigError(
                f"M3edOptions.min_depth_m is {self.min_depth_m}; it must be below max_depth_m, {self.max_depth_m}"
            )

    @property
    def tolerance_us(self) -> int:
        """Largest time between image and depth, in the microseconds of the files, inclusive."""
        return round(1000.0 * (self.strict_ms if self.pairing == STRICT else self.pose_ms))
