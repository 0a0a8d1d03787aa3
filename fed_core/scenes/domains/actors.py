"""What drives, walks and stands on the streets of the five domains: sizes, names and simple shapes by kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fed_core.scenes.driving.carriers import SIZES_M
from fed_core.scenes.driving.vehicles import Vehicle, vehicle_parts
from fed_core.scenes.meshes import Mesh, box, cylinder, merged, sphere, tapered_box

Parts = list[tuple[Mesh, str]]
Size = tuple[float, float, float]

_DARK = (0.04, 0.04, 0.045)
_SKIN = (0.55, 0.36, 0.26)
_ORANGE = (0.80, 0.20, 0.03)
_WHITE = (0.85, 0.85, 0.85)
#: Slower than this stands still [m/s], as the devkit's attributes have it.
STILL_MPS = 0.2


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    Attributes:
        label: one of ``DETECTION_CLASSES``.
        size_m: mean length (along the heading), width, height.
    """

    label: str
    size_m: Size


_VEHICLE_LABELS = {"compact": "car", "saloon": "car", "van": "car", "truck": "truck", "bus": "bus"}

KINDS: Mapping[str, Kind] = {
    **{name: Kind(label, SIZES_M[name]) for name, label in _VEHICLE_LABELS.items()},
    "motorcycle": Kind("motorcycle", (2.10, 0.80, 1.60)),
    "motorcycle_parked": Kind("motorcycle", (2.05, 0.78, 1.06)),
    "bicycle": Kind("bicycle", (1.75, 0.58, 1.72)),
    "bicycle_parked": Kind("bicycle", (1.75, 0.58, 1.05)),
    "pedestrian": Kind("pedestrian", (0.70, 0.64, 1.74)),
    "traffic_cone": Kind("traffic_cone", (0.42, 0.42, 0.95)),
    "barrier": Kind("barrier", (0.55, 2.40, 1.00)),
    "trailer": Kind("trailer", (10.0, 2.40, 3.50)),
    "construction_vehicle": Kind("construction_vehicle", (6.2, 2.40, 3.00)),
}


def label_of(actor: Vehicle) -> str:
    """Return the class of an object, one of ``DETECTION_CLASSES``."""
    return KINDS[actor.kind].label


def attribute_of(actor: Vehicle) -> str:
    """Return the nuScenes attribute that fits its kind and speed; "" for cones and barriers."""
    label, moves = label_of(actor), actor.speed_mps > STILL_MPS
    if label in ("traffic_cone", "barrier"):
        return ""
    if label == "pedestrian":
        return "pedestrian.moving" if moves else "pedestrian.standing"
    if label in ("motorcycle", "bicycle"):
        return "cycle.without_rider" if actor.kind.endswith("_parked") else "cycle.with_rider"
    if moves:
        return "vehicle.moving"
    # What waits on the road or at a stop will go on; so the devkit guesses for buses, too.
    return "vehicle.stopped" if actor.on_road or label == "bus" else "vehicle.parked"


def actor_parts(actor: Vehicle) -> Parts:
    """Return the meshes of an object in the world, each with its material; all lies inside its size."""
    if actor.kind not in _BUILDERS:
        *body, front, back = vehicle_parts(actor)
        return [*body, (front[0], "headlamp"), (back[0], "tail_lamp")]
    place = (*actor.place, 0.0)
    return [(mesh.moved(place, actor.yaw), material) for mesh, material in _BUILDERS[actor.kind](actor)]


def _at(size: Size, x: float, z: float, y: float = 0.0) -> Mesh:
    return box(size, bottom=True).moved((x, y, z))


def _rider(actor: Vehicle, seat: float) -> Parts:
    _, width, height = actor.size_m
    torso = tapered_box((0.30, 0.62 * width, height - seat - 0.28), (0.26, 0.75 * width), bottom=True)
    head = sphere(1).moved((0, 0, 0))
    ball = _scaled(head, (0.13, 0.12, 0.14)).moved((0.02, 0, height - 0.14))
    return [
        (torso.moved((-0.05, 0, seat)).tinted(actor.paint), "plain"),
        (ball.tinted((0.06, 0.06, 0.07)), "plain"),
        (_at((0.34, 0.5 * width, 0.16), 0.1, seat - 0.1).tinted((0.10, 0.11, 0.16)), "plain"),
    ]


def _scaled(mesh: Mesh, factor: Size) -> Mesh:
    """Return a mesh stretched along its axes; its normals stay, which is near enough for heads."""
    return Mesh(mesh.vertices * np.array(factor), mesh.faces, mesh.normals, mesh.uvs, mesh.colors)


def _cycle(actor: Vehicle, thick: float, body: Size, lift: float) -> Parts:
    """Return two wheels, a body and a handlebar; ``thick`` [m] is the width of the wheels."""
    length, width, _ = actor.size_m
    wheel = 0.32 * length
    wheels = merged([_at((wheel, thick, wheel), side * (length - wheel) / 2, 0.0) for side in (-1, 1)])
    return [
        (wheels.tinted(_DARK), "plain"),
        (_at(body, -0.05, lift).tinted(actor.paint), "paint"),
        (_at((0.08, width, 0.06), 0.24 * length, 0.98).tinted(_DARK), "plain"),
        (_at((0.10, 0.10, 0.55), 0.28 * length, 0.45).tinted(_DARK), "plain"),
    ]


def _motorcycle(actor: Vehicle) -> Parts:
    parts = _cycle(actor, 0.16, (0.62 * actor.size_m[0], 0.36, 0.5), 0.35)
    lamp = _at((0.06, 0.18, 0.14), 0.36 * actor.size_m[0], 0.82)
    parts.append((lamp.tinted((0.9, 0.9, 0.8)), "headlamp"))
    return parts if actor.kind.endswith("_parked") else [*parts, *_rider(actor, 0.82)]


def _bicycle(actor: Vehicle) -> Parts:
    parts = _cycle(actor, 0.07, (0.55 * actor.size_m[0], 0.07, 0.32), 0.45)
    return parts if actor.kind.endswith("_parked") else [*parts, *_rider(actor, 0.86)]


def _pedestrian(actor: Vehicle) -> Parts:
    length, width, height = actor.size_m
    stride = 0.32 * length if actor.speed_mps > STILL_MPS else 0.0
    legs = merged(
        [
            tapered_box((0.16, 0.16, 0.48 * height), (0.18, 0.18), shift=-side * stride).moved(
                (side * stride, side * 0.11, 0.0)
            )
            for side in (-1, 1)
        ]
    )
    torso = tapered_box((0.24, 0.60 * width, 0.37 * height), (0.28, 0.80 * width), bottom=True)
    arms = merged([_at((0.11, 0.10, 0.36 * height), -side * 0.5 * stride, 0.46 * height, side * (width / 2 - 0.05))
                   for side in (-1, 1)])  # fmt: skip
    head = _scaled(sphere(1), (0.11, 0.10, 0.075 * height)).moved((0.0, 0.0, 0.925 * height))
    return [
        (legs.tinted((0.07, 0.08, 0.12)), "plain"),
        (merged([torso.moved((0, 0, 0.46 * height)), arms]).tinted(actor.paint), "plain"),
        (head.tinted(_SKIN), "plain"),
    ]


def _cone(actor: Vehicle) -> Parts:
    length, width, height = actor.size_m
    low, mid = 0.36 * length, 0.22 * length
    return [
        (_at((length, width, 0.06), 0.0, 0.0).tinted(_ORANGE), "plain"),
        (cylinder(low, 0.45 * height, mid, sides=8).moved((0, 0, 0.05)).tinted(_ORANGE), "plain"),
        (cylinder(mid, 0.25 * height, 0.6 * mid, sides=8).moved((0, 0, 0.45 * height)).tinted(_WHITE), "plain"),
        (cylinder(0.6 * mid, 0.30 * height, 0.02, sides=8).moved((0, 0, 0.70 * height)).tinted(_ORANGE), "plain"),
    ]


def _barrier(actor: Vehicle) -> Parts:
    length, width, height = actor.size_m
    foot = tapered_box((length, width, 0.35 * height), (0.5 * length, width), bottom=True)
    wall = _at((0.5 * length, width, 0.65 * height), 0.0, 0.35 * height)
    stripe = _at((0.52 * length, width, 0.16 * height), 0.0, 0.68 * height)
    return [(merged([foot, wall]).tinted((0.62, 0.60, 0.57)), "plain"), (stripe.tinted(_ORANGE), "plain")]


def _trailer(actor: Vehicle) -> Parts:
    length, width, height = actor.size_m
    load = _at((length, width, height - 1.0), 0.0, 1.0)
    wheels = _at((0.3 * length, 0.9 * width, 1.0), -0.3 * length, 0.0)
    leg = _at((0.3, 0.5 * width, 1.0), 0.35 * length, 0.0)
    return [
        (load.tinted(tuple(0.4 * c + 0.5 for c in actor.paint)), "plain"),
        (merged([wheels, leg]).tinted(_DARK), "plain"),
    ]


def _construction(actor: Vehicle) -> Parts:
    length, width, height = actor.size_m
    yellow = (0.85, 0.50, 0.03)
    tracks = [_at((0.62 * length, 0.24 * width, 0.8), -0.17 * length, 0.0, side * 0.38 * width) for side in (-1, 1)]
    body = _at((0.5 * length, 0.9 * width, 0.38 * height), -0.25 * length, 0.8)
    cabin = _at((0.22 * length, 0.45 * width, height - 0.8 - 0.38 * height), -0.2 * length, 0.8 + 0.38 * height)
    arm = _at((0.48 * length, 0.35, 0.4), 0.2 * length, 0.72 * height)
    stick = _at((0.35, 0.32, 0.55 * height), 0.42 * length, 0.25 * height)
    bucket = _at((0.16 * length, 0.5 * width, 0.25 * height), 0.42 * length, 0.02)
    return [
        (merged([body, arm, stick]).tinted(yellow), "paint"),
        (cabin.tinted((0.05, 0.06, 0.075)), "glass"),
        (merged([*tracks, bucket]).tinted(_DARK), "plain"),
    ]


_BUILDERS: Mapping[str, Callable[[Vehicle], Parts]] = {
    "motorcycle": _motorcycle,
    "motorcycle_parked": _motorcycle,
    "bicycle": _bicycle,
    "bicycle_parked": _bicycle,
    "pedestrian": _pedestrian,
    "traffic_cone": _cone,
    "barrier": _barrier,
    "trailer": _trailer,
    "construction_vehicle": _construction,
}
