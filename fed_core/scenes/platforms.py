"""Three robots: how high they carry the camera, how they move and what they see."""

from dataclasses import dataclass

import numpy as np

from fed_core.errors import ConfigError
from fed_core.scenes.meshes import Floats
from fed_core.scenes.renderer import Pinhole
from fed_core.scenes.routes import Route
from fed_core.scenes.scene import Air


@dataclass(frozen=True)
class Platform:
    """A kind of robot.

    Attributes:
        name: its name.
        route: which of a world's routes it takes.
        height_m: lowest and highest height of the camera over the ground; a UAV takes the world's.
        pitch_deg: range of the camera's downward pitch; a UAV takes the world's.
        speed_mps: range of its speed.
        view_deg: horizontal field of view.
        bob_m: rise and fall of the body with every step.
        sway_deg: roll, pitch and yaw with every step.
        step_hz: steps per second.
        drift_deg: slow roll, pitch and yaw.
        noise: factor on the camera's noise.
    """

    name: str
    route: str
    height_m: tuple[float, float]
    pitch_deg: tuple[float, float]
    speed_mps: tuple[float, float]
    view_deg: float
    bob_m: float
    sway_deg: tuple[float, float, float]
    step_hz: float
    drift_deg: tuple[float, float, float]
    noise: float

    def camera(self, width: int, height: int) -> Pinhole:
        """Return its camera for pictures of this size in pixels."""
        return Pinhole(width, height, width / 2 / float(np.tan(np.radians(self.view_deg) / 2)))


_KNOWN = {
    p.name: p
    for p in (
        Platform("uav", "air", (0, 0), (0, 0), (2.5, 4.0), 82.0, 0.03, (0.5, 0.5, 0.3), 0.7, (3.5, 2.5, 6.0), 1.3),
        Platform(
            "ugv",
            "drive",
            (1.58, 1.66),
            (1.0, 5.0),
            (3.0, 5.0),
            70.0,
            0.008,
            (0.25, 0.35, 0.1),
            2.3,
            (0.4, 0.5, 4.0),
            0.8,
        ),
        Platform(
            "legged",
            "walk",
            (0.49, 0.55),
            (-9.0, -3.0),
            (0.8, 1.3),
            90.0,
            0.022,
            (1.8, 1.6, 0.8),
            2.0,
            (0.6, 1.0, 9.0),
            1.0,
        ),
    )
}
PLATFORMS = tuple(_KNOWN)


def platform(name: str) -> Platform:
    """Return the platform called ``name``."""
    if name not in _KNOWN:
        raise ConfigError(f"no platform is called {name!r}; known: {', '.join(PLATFORMS)}")
    return _KNOWN[name]


class Motion:
    """A drive, walk or flight along a route: a pose for every time.

    Args:
        robot: who moves.
        route: closed path over the ground.
        air: the world's flight heights, pitch and speed.
        rng: draws speed, start, direction, height and the phases of the gait.
    """

    def __init__(self, robot: Platform, route: Route, air: Air, rng: np.random.Generator) -> None:
        flies = robot.route == "air"
        self._robot, self._route = robot, route
        self._height_m = rng.uniform(*(air.flight_m if flies else robot.height_m))
        self._pitch = np.radians(rng.uniform(*(air.flight_pitch_deg if flies else robot.pitch_deg)))
        self._speed_mps = rng.uniform(*robot.speed_mps) * air.speed
        self._start_m = rng.uniform(0, route.length_m)
        self._way = float(rng.choice([-1.0, 1.0]))
        self._phase = rng.uniform(0, 2 * np.pi, 8)
        # A UAV climbs and sinks slowly; on the ground the height is fixed to the body.
        self._climb_m = 0.07 * self._height_m if flies else 0.0

    def pose(self, time_s: float) -> Floats:
        """Return the camera's pose, (4, 4), optical frame to world."""
        p, robot = self._phase, self._robot
        along = self._start_m + self._way * self._speed_mps * time_s
        heading = self._route.heading(along) + (np.pi if self._way < 0 else 0.0)
        step = 2 * np.pi * robot.step_hz * time_s
        height = self._height_m + robot.bob_m * np.sin(step + p[0]) + self._climb_m * np.sin(0.35 * time_s + p[1])
        position = self._route.point(along) + np.array([0.0, 0.0, height])
        roll, pitch, yaw = (
            np.radians(d) * np.sin(0.5 * time_s * (1 + 0.2 * k) + p[2 + k]) for k, d in enumerate(robot.drift_deg)
        )
        sway = np.radians(robot.sway_deg)
        roll += sway[0] * np.sin(step / 2 + p[5])
        pitch += self._pitch + sway[1] * np.sin(step + p[6])
        yaw += heading + sway[2] * np.sin(step / 2 + p[7])
        return optical_pose(position, yaw, pitch, roll)


def optical_pose(position: Floats, yaw: float, pitch: float, roll: float) -> Floats:
    """Return the pose (4, 4) of a camera that looks along ``yaw``, ``pitch`` radians below the horizon.

    Columns of the rotation are the image's right, down and forward axes in the world (REP 103 optical frame).
    """
    forward = np.array([np.cos(yaw) * np.cos(pitch), np.sin(yaw) * np.cos(pitch), -np.sin(pitch)])
    right = np.array([np.sin(yaw), -np.cos(yaw), 0.0])
    down = np.cross(forward, right)
    pose = np.eye(4)
    pose[:3, 0] = np.cos(roll) * right + np.sin(roll) * down
    pose[:3, 1] = np.cos(roll) * down - np.sin(roll) * right
    pose[:3, 2] = forward
    pose[:3, 3] = position
    return pose
