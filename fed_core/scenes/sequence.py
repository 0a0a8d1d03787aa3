"""A rendered recording: one platform in one environment."""

import zlib
from functools import cached_property

import numpy as np

from fed_core.errors import ConfigError
from fed_core.scenes.meshes import Floats
from fed_core.scenes.platforms import Motion, platform
from fed_core.scenes.raycast import Raycaster
from fed_core.scenes.renderer import render
from fed_core.scenes.scene import World
from fed_core.scenes.sensor import Sensor
from fed_core.scenes.worlds import worlds
from fed_core.types import DepthFrame

RANGE_M = 80.0
CLEARANCE_M = 0.4
TRIES = 25
#: 1 January 2018, 00:00 UTC; sequences start up to 8 years later.
EPOCH_NS = 1_514_764_800_000_000_000
SPAN_S = 8 * 365 * 24 * 3600


class GeneratedSequence:
    """RGB-D frames of a made-up world with exact depth.

    The world follows from ``environment`` and ``seed``, so robots of different platforms can share one. Every frame
    is a function of the arguments and its index alone: the same call gives the same bits on the same kind of CPU.
    Follows :class:`fed_core.data.sequence.DepthSequence`.

    Args:
        platform: one of ``PLATFORMS``.
        environment: one of ``ENVIRONMENTS``.
        seed: 0 or more; another seed is another world and another drive.
        num_frames: length.
        width: of the pictures in pixels.
        height: of the pictures in pixels.
        name: of the sequence; default made of the other arguments.
        rate_hz: frames per second.
    """

    source = "generated"

    def __init__(
        self,
        platform: str,
        environment: str,
        *,
        seed: int,
        num_frames: int,
        width: int = 160,
        height: int = 120,
        name: str | None = None,
        rate_hz: float = 10.0,
    ) -> None:
        self._robot = _platform(platform)
        self._build = worlds.get(environment)
        for what, value, low in (
            ("seed", seed, 0),
            ("num_frames", num_frames, 1),
            ("width", width, 8),
            ("height", height, 8),
        ):
            if value < low:
                raise ConfigError(f"{what} of a generated sequence is {value}; it must be {low} or more")
        if not rate_hz > 0:
            raise ConfigError(f"rate_hz of a generated sequence is {rate_hz}; it must be above 0")
        self.platform, self.environment = platform, environment
        self.name = name or f"{platform}_{environment}_{seed}"
        self._seed, self._num_frames, self._rate_hz = seed, num_frames, rate_hz
        self._camera = self._robot.camera(width, height)

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._num_frames

    def __getitem__(self, index: int) -> DepthFrame:
        """Return frame ``index``; raises ``IndexError`` past the end."""
        pose = self.pose(index)
        light, depth = render(self.world, self._camera, pose, RANGE_M)
        rgb = self._sensor.develop(light, self.world.exposure, self._rng("frame", index))
        return DepthFrame(rgb, depth, self._stamp_ns(index), self._camera.matrix)

    def pose(self, index: int) -> Floats:
        """Return the pose of frame ``index``, (4, 4) float64, camera to world, optical frame."""
        if not 0 <= index < self._num_frames:
            raise IndexError(f"frame {index} of {self.name}, which has {self._num_frames}")
        return self._motion.pose(index / self._rate_hz)

    @cached_property
    def world(self) -> World:
        """The world, built on first use."""
        # The place is drawn without the platform, so that several robots can meet in it.
        return self._build(np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, 1]))))

    @cached_property
    def _motion(self) -> Motion:
        """The first drawn drive that keeps its distance to everything in every frame."""
        route = self.world.routes[self._robot.route]
        for attempt in range(TRIES):
            motion = Motion(self._robot, route, self.world.air, self._rng("motion", attempt))
            poses = [motion.pose(i / self._rate_hz) for i in range(self._num_frames)]
            if keeps_clear(self.world.rays, np.array([p[:3, 3] for p in poses]), CLEARANCE_M):
                return motion
        raise ConfigError(f"{self.name} finds no free path in its world; take another seed than {self._seed}")

    @cached_property
    def _sensor(self) -> Sensor:
        dark = float(np.clip(self.world.exposure, 1.0, 3.0))  # a long exposure brings more noise
        return Sensor.drawn(self._rng("sensor", 0), self._robot.noise * dark)

    def _stamp_ns(self, index: int) -> int:
        start_s = int(self._rng("stamp", 0).integers(SPAN_S))
        return EPOCH_NS + start_s * 1_000_000_000 + round(index * 1e9 / self._rate_hz)

    def _rng(self, purpose: str, number: int) -> np.random.Generator:
        words = [zlib.crc32(w.encode()) for w in (self.platform, self.environment, purpose)]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, *words, number])))


_platform = platform


def keeps_clear(rays: Raycaster, positions: Floats, clearance_m: float) -> bool:
    """Return whether a path (N, 3) stays in the open and ``clearance_m`` away from every triangle."""
    if (rays.distances(positions, clearance_m) < clearance_m).any():
        return False
    start, way = positions[:-1].astype(np.float32), np.diff(positions, axis=0).astype(np.float32)
    if len(way) and rays.occluded(start, way, np.ones(len(way), np.float32)).any():
        return False
    return not starts_inside(rays, positions[0])


def starts_inside(rays: Raycaster, point: Floats) -> bool:
    """Return whether ``point`` lies in a solid: most of what it sees are back faces."""
    return rays.back_share(point) > 0.5
