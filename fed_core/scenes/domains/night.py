"""Light of lamps in the dark, worked out per pixel: street lamps, headlights and tail lamps of others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.scenes.driving.palettes import sky_light
from fed_core.scenes.driving.vehicles import Vehicle
from fed_core.scenes.lighting import Sky
from fed_core.scenes.meshes import Floats, Mesh, box, cylinder

F32 = npt.NDArray[np.float32]

LAMP_GAP_M = 27.0
_LAMP_HEIGHT_M = 6.5
_ARM_M = 1.6
_STREET_RGB = (24.0, 17.0, 9.0)
_HEAD_RGB = (14.0, 13.0, 11.0)
_TAIL_RGB = (0.35, 0.02, 0.01)
#: The vehicle's own headlights, which shine along the optical axis of the front camera.
HEADLIGHT = np.array([34.0, 32.0, 27.0])
_REACH_M = 32.0
_DRIVING = ("compact", "saloon", "van", "truck", "bus", "motorcycle")


@dataclass(frozen=True)
class Beam:
    """A source of light.

    Attributes:
        place: (3,) metres.
        rgb: (3,) light on a facing surface at d metres is rgb / d**2.
        way: (3,) unit direction of the middle of its cone.
        narrow: power of the cosine to that direction; larger is narrower.
    """

    place: tuple[float, float, float]
    rgb: tuple[float, float, float]
    way: tuple[float, float, float]
    narrow: int


def lamp_posts(reach_m: float, kerb_m: float, rng: np.random.Generator) -> tuple[list[tuple[Mesh, str]], list[Beam]]:
    """Return street lamps on both sides of the street: meshes with materials, and their light."""
    parts: list[tuple[Mesh, str]] = []
    beams: list[Beam] = []
    pole = cylinder(0.10, _LAMP_HEIGHT_M, 0.07, sides=5)
    for side in (-1, 1):
        for x in np.arange(-reach_m + float(rng.uniform(0, LAMP_GAP_M)), reach_m, LAMP_GAP_M):
            y, head = side * (kerb_m + 0.4), side * (kerb_m + 0.4 - _ARM_M)
            arm = box((0.08, _ARM_M, 0.08)).moved((x, (y + head) / 2, _LAMP_HEIGHT_M - 0.1))
            lamp = box((0.35, 0.7, 0.12), bottom=True).moved((x, head, _LAMP_HEIGHT_M - 0.22))
            parts += [
                (pole.moved((x, y, 0)).tinted((0.25, 0.26, 0.27)), "plain"),
                (arm.tinted((0.25, 0.26, 0.27)), "plain"),
                (lamp.tinted((0.95, 0.85, 0.65)), "street_lamp"),
            ]
            beams.append(Beam((float(x), float(head), _LAMP_HEIGHT_M - 0.3), _STREET_RGB, (0.0, 0.0, -1.0), 1))
    return parts, beams


def vehicle_beams(vehicles: Iterable[Vehicle]) -> list[Beam]:
    """Return head and tail lamps of what drives or waits on the road."""
    beams: list[Beam] = []
    for vehicle in vehicles:
        if vehicle.kind in _DRIVING and vehicle.on_road:
            c, s = float(np.cos(vehicle.yaw)), float(np.sin(vehicle.yaw))
            half = vehicle.size_m[0] / 2 + 0.1
            x, y = vehicle.place
            beams.append(Beam((x + c * half, y + s * half, 0.75), _HEAD_RGB, (c, s, -0.05), 10))
            beams.append(Beam((x - c * half, y - s * half, 0.75), _TAIL_RGB, (-c, -s, 0.0), 1))
    return beams


def lamp_gain(sky: Sky, points: Floats, normals: Floats, beams: Sequence[Beam]) -> F32:
    """Return the factor, (N, 3), by which lamps brighten surfaces that so far have the sky's light alone.

    Args:
        sky: its light is what the surfaces have.
        points: (N, 3) metres.
        normals: (N, 3) unit length.
        beams: lamps; no shadows are cast.
    """
    order = np.argsort(points[:, 0], kind="stable")
    # Rows of one coordinate each, by x: what a lamp reaches is one slice.
    place, facing = (np.ascontiguousarray(rows[order].T, np.float32) for rows in (points, normals))
    light = np.zeros_like(place)
    for beam in beams:
        first, last = np.searchsorted(place[0], [beam.place[0] - _REACH_M, beam.place[0] + _REACH_M])
        if first < last:
            strength = _strength(beam, place[:, first:last], facing[:, first:last])
            light[:, first:last] += np.array(beam.rgb, np.float32)[:, None] * strength
    gain = np.empty((len(points), 3), np.float32)
    gain[order] = light.T
    gain /= np.maximum(sky_light(sky, normals), 1e-3)
    gain += 1
    return gain


def _strength(beam: Beam, place: F32, facing: F32) -> F32:
    """Return what a lamp of intensity 1 gives to surfaces, (N,); ``place`` and ``facing`` are (3, N)."""
    to = np.array(beam.place, np.float32)[:, None] - place
    square = np.maximum(to[0] * to[0] + to[1] * to[1] + to[2] * to[2], np.float32(0.25))
    cosine = np.maximum(to[0] * facing[0] + to[1] * facing[1] + to[2] * facing[2], 0)
    x, y, z = (np.float32(-part) for part in beam.way)
    far = np.sqrt(square)
    cone = np.maximum(to[0] * x + to[1] * y + to[2] * z, 0) / far
    if beam.narrow != 1:
        cone **= beam.narrow
    fade = np.maximum(1 - square / np.float32(_REACH_M**2), 0)
    result: F32 = cosine * cone * fade / (far * square)
    return result
