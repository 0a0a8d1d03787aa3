"""Vehicles as cuboids with a little shape: all of it lies inside length x width x height."""

from dataclasses import dataclass, replace

import numpy as np

from fed_core.scenes.meshes import Floats, Mesh, box, merged, tapered_box

#: Linear colours of paint.
PAINTS = (
    (0.55, 0.04, 0.04),
    (0.05, 0.12, 0.42),
    (0.75, 0.76, 0.78),
    (0.05, 0.05, 0.06),
    (0.30, 0.32, 0.34),
    (0.85, 0.85, 0.82),
    (0.06, 0.28, 0.20),
    (0.75, 0.48, 0.05),
    (0.16, 0.35, 0.52),
)
_GLASS = (0.05, 0.06, 0.075)
_DARK = (0.04, 0.04, 0.045)


@dataclass(frozen=True)
class Vehicle:
    """A vehicle at one time. World axes as ``meshes``: x east, y north, yaw to the left.

    Attributes:
        number: its id.
        kind: key of ``SIZES_M``.
        size_m: length, width, height.
        place: (x, y) of its middle on the ground [m].
        yaw: heading [rad], anticlockwise from x.
        paint: linear colour.
        speed_mps: forward speed.
        on_road: parked ones stand beside the road.
    """

    number: int
    kind: str
    size_m: tuple[float, float, float]
    place: tuple[float, float]
    yaw: float
    paint: tuple[float, float, float]
    speed_mps: float = 0.0
    on_road: bool = True

    def moved(self, time_s: float) -> "Vehicle":
        """Return the vehicle ``time_s`` later, straight on."""
        far = self.speed_mps * time_s
        x, y = self.place
        return replace(self, place=(x + far * float(np.cos(self.yaw)), y + far * float(np.sin(self.yaw))))

    def corners(self) -> Floats:
        """Return the corners of its base, (4, 2) metres in the world."""
        length, width, _ = self.size_m
        flat = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * np.array([length, width]) / 2
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        result: Floats = flat @ np.array([[c, s], [-s, c]]) + np.array(self.place)
        return result


def vehicle_parts(vehicle: Vehicle) -> list[tuple[Mesh, str]]:
    """Return the meshes of a vehicle in the world, each with its material."""
    build = {"truck": _truck, "bus": _bus, "van": _bus}.get(vehicle.kind, _car)
    place = (*vehicle.place, 0.0)
    return [(mesh.moved(place, vehicle.yaw), material) for mesh, material in build(vehicle)]


def _body(size: tuple[float, float, float], low: float, x: float = 0.0) -> Mesh:
    return box(size, bottom=True).moved((x, 0, low))


def _lights(length: float, width: float, height: float) -> list[tuple[Mesh, str]]:
    """Return lamps and a plate, flush with the ends, so that front and back differ."""
    lamp = box((0.05, 0.16 * width, 0.14), bottom=True)
    ends = ((length / 2 - 0.025, (0.9, 0.9, 0.8)), (-length / 2 + 0.025, (0.6, 0.02, 0.02)))
    return [
        (merged([lamp.moved((x, side * 0.36 * width, height)) for side in (-1, 1)]).tinted(color), "plain")
        for x, color in ends
    ]


def _car(vehicle: Vehicle) -> list[tuple[Mesh, str]]:
    length, width, height = vehicle.size_m
    waist = 0.56 * height
    hull = tapered_box((length, width, waist - 0.2), (0.95 * length, 0.94 * width), bottom=True).moved((0, 0, 0.2))
    cabin = tapered_box((0.58 * length, 0.9 * width, height - waist - 0.04), (0.40 * length, 0.72 * width))
    roof = box((0.42 * length, 0.74 * width, 0.04))
    back = -0.06 * length
    return [
        (merged([hull, roof.moved((back, 0, height - 0.04))]).tinted(vehicle.paint), "paint"),
        (cabin.moved((back, 0, waist)).tinted(_GLASS), "glass"),
        (_body((0.86 * length, 0.9 * width, 0.2), 0.0).tinted(_DARK), "plain"),
        *_lights(length, width, 0.62 * waist),
    ]


def _truck(vehicle: Vehicle) -> list[tuple[Mesh, str]]:
    length, width, height = vehicle.size_m
    cab = 0.24 * length
    front = length / 2 - cab / 2
    load = _body((length - cab - 0.3, width, height - 0.9), 0.9, -(cab + 0.3) / 2)
    window = _body((0.06, 0.86 * width, 0.26 * height), 0.50 * height, length / 2 - 0.03)
    return [
        (_body((cab - 0.06, 0.96 * width, 0.80 * height - 0.4), 0.4, front - 0.03).tinted(vehicle.paint), "paint"),
        (load.tinted(tuple(0.5 * c + 0.4 for c in vehicle.paint)), "plain"),
        (window.tinted(_GLASS), "glass"),
        (_body((length - 0.1, 0.8 * width, 0.9), 0.0, -0.05).tinted(_DARK), "plain"),
        *_lights(length, width, 0.7),
    ]


def _bus(vehicle: Vehicle) -> list[tuple[Mesh, str]]:
    length, width, height = vehicle.size_m
    low, sill, top = 0.3, 0.48 * height, 0.82 * height
    return [
        (_body((length, width, sill - low), low).tinted(vehicle.paint), "paint"),
        (_body((length - 0.06, width - 0.06, top - sill), sill).tinted(_GLASS), "glass"),
        (_body((length, width, height - top), top).tinted(vehicle.paint), "paint"),
        (_body((0.9 * length, 0.86 * width, low), 0.0).tinted(_DARK), "plain"),
        *_lights(length, width, low + 0.25),
    ]
