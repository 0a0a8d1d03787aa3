"""How to open a recording: the same options for folders, bags, the fleet YAML and the command line."""

from dataclasses import dataclass

from fed_core.config import check, option
from fed_core.errors import ConfigError

#: Start of recordings that carry no times: 2001-09-09 01:46:40 UTC, easy to tell from a real one, and never zero
#: (which means "not set" in ROS).
DEFAULT_EPOCH_NS = 1_000_000_000 * 1_000_000_000


@dataclass(frozen=True)
class TopicNames:
    """Topics of a bag; an empty name is found by type and encoding."""

    colour: str = option("", help="colour Image or CompressedImage topic")
    depth: str = option("", help="depth Image topic, registered to the colour camera")
    info: str = option("", help="CameraInfo topic of the colour camera")


@dataclass(frozen=True)
class OpenOptions:
    """Options of :func:`fed_core.data.open.open_sequence`."""

    name: str = option("", help="name of the sequence; default: name of the folder or bag")
    rate_hz: float = option(10.0, help="frame rate of folders without times", unit="Hz", low=1e-3, high=1e6)
    epoch_ns: int = option(DEFAULT_EPOCH_NS, help="time of frame 0 of folders without times", unit="ns", low=0)
    intrinsics: tuple[float, ...] = option((), help="fx fy cx cy in pixels; default: from the recording")
    frame_id: str = option("", help="optical frame; default: from the recording")
    topics: TopicNames = option(TopicNames(), help="topics of a bag")
    slop_s: float = option(0.02, help="largest time between colour and depth of a frame", unit="s", low=0.0)
    depth_unit: str = option("", help='unit of 16 bit depth in a bag; default: "mm" (REP 118)')

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)
        if self.intrinsics and len(self.intrinsics) != 4:
            raise ConfigError(f"OpenOptions.intrinsics needs fx, fy, cx, cy; got {len(self.intrinsics)} values")
        if self.intrinsics and not (self.intrinsics[0] > 0 and self.intrinsics[1] > 0):
            raise ConfigError(f"OpenOptions.intrinsics: focal lengths {self.intrinsics[:2]} must be positive")
