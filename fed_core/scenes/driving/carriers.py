"""What carries cameras, and the four clients: mounts, traffic, look (feddwa spec 6, 13)."""

from collections.abc import Mapping
from dataclasses import dataclass

from fed_core.errors import ConfigError

#: Length, width and height [m] of vehicles by kind.
SIZES_M: Mapping[str, tuple[float, float, float]] = {
    "compact": (3.8, 1.75, 1.50),
    "saloon": (4.7, 1.85, 1.45),
    "van": (5.3, 2.00, 2.20),
    "truck": (8.4, 2.50, 3.40),
    "bus": (11.8, 2.55, 3.20),
}
#: Horizontal field of view of all cameras [deg].
VIEW_DEG = 100.0


@dataclass(frozen=True)
class Mount:
    """Where a camera sits on its vehicle, which looks along x; axes as CARLA's, y and yaw to the right.

    Attributes:
        x: metres forward.
        y: metres to the right.
        z: metres over the ground.
        yaw_deg: turn to the right.
    """

    x: float
    y: float
    z: float
    yaw_deg: float


def _four(front: Mount, right: Mount, back: Mount) -> tuple[Mount, ...]:
    left = Mount(right.x, -right.y, right.z, -right.yaw_deg)
    return front, right, left, back


#: Cameras by id: 0 front, 1 right, 2 left, 3 back.
MOUNTS: Mapping[str, tuple[Mount, ...]] = {
    "car": _four(Mount(2.5, 0, 1.0, 0), Mount(0, 0.3, 1.8, 100), Mount(-2.0, 0, 1.5, 180)),
    "bus": _four(Mount(4.6, 0, 2.6, 0), Mount(1.0, 1.3, 2.9, 100), Mount(-4.6, 0, 2.7, 180)),
    "truck": _four(Mount(3.6, 0, 2.1, 0), Mount(1.5, 1.2, 2.4, 100), Mount(-3.4, 0, 2.9, 180)),
}
#: LiDAR on the roof, as a mount.
LIDAR = Mount(-0.5, 0, 1.9, 0)


@dataclass(frozen=True)
class ClientKind:
    """How the data of one client differs from that of the others.

    Attributes:
        vehicle: key of :data:`MOUNTS`.
        body: key of :data:`SIZES_M`: what others see of it.
        layouts: streets it drives in, see ``streets``.
        palette: colours and light, see ``palettes``.
        gap_m: mean free distance between vehicles of a lane.
        parked: share of parking places that are taken.
        mix: share of each kind of vehicle.
        share: size of its data in parts of all, the frames that the paper counts.
    """

    vehicle: str
    body: str
    layouts: tuple[str, ...]
    palette: str
    gap_m: float
    parked: float
    mix: Mapping[str, float]
    share: int


_CITY_MIX = {"compact": 0.42, "saloon": 0.38, "van": 0.14, "truck": 0.04, "bus": 0.02}

CLIENTS: Mapping[str, ClientKind] = {
    "bus": ClientKind(
        "bus", "bus", ("avenue", "junction"), "overcast", 11.0, 0.55,
        {"compact": 0.34, "saloon": 0.28, "van": 0.16, "truck": 0.06, "bus": 0.16}, 1398,
    ),
    "truck": ClientKind(
        "truck", "truck", ("motorway",), "evening", 24.0, 0.0,
        {"compact": 0.16, "saloon": 0.26, "van": 0.16, "truck": 0.38, "bus": 0.04}, 1459,
    ),
    # Car A and Car B differ in streets and look only.
    "car_a": ClientKind("car", "saloon", ("avenue", "junction"), "noon", 15.0, 0.4, _CITY_MIX, 11636),
    "car_b": ClientKind("car", "saloon", ("suburb", "crossing"), "morning", 15.0, 0.4, _CITY_MIX, 7142),
}  # fmt: skip


def client_kind(name: str) -> ClientKind:
    """Return the client of a name; an unknown one raises :class:`ConfigError`."""
    if name not in CLIENTS:
        raise ConfigError(f"no driving client is called {name!r}; known: {', '.join(CLIENTS)}")
    return CLIENTS[name]
