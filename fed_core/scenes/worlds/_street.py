"""Things that stand in a street: cars, people, lamps, signs, benches."""

import numpy as np

from fed_core.scenes.lighting import Lamp
from fed_core.scenes.meshes import Floats, Mesh, blob, box, cylinder, disc, merged, sphere, tapered_box
from fed_core.scenes.scene import Layout

CAR_PAINT = (
    (0.55, 0.04, 0.04),
    (0.05, 0.12, 0.42),
    (0.75, 0.76, 0.78),
    (0.06, 0.06, 0.07),
    (0.30, 0.32, 0.34),
    (0.85, 0.85, 0.82),
    (0.06, 0.28, 0.20),
    (0.75, 0.48, 0.05),
    (0.16, 0.35, 0.52),
)
CLOTHES = ((0.6, 0.1, 0.1), (0.1, 0.2, 0.5), (0.12, 0.12, 0.14), (0.65, 0.6, 0.5), (0.15, 0.4, 0.25), (0.7, 0.45, 0.1))


def _pick(rng: np.random.Generator, choices: tuple[tuple[float, ...], ...]) -> Floats:
    return np.array(choices[int(rng.integers(len(choices)))])


def add_car(rng: np.random.Generator, layout: Layout, place: Floats, yaw: float, lights: bool) -> None:
    """Add a car, about 4.3 x 1.8 m, that looks along its x axis; ``lights`` turns its lamps on."""
    kind = int(rng.integers(3))  # 0 hatchback, 1 saloon, 2 van
    length, height = ((3.9, 1.46), (4.5, 1.42), (4.6, 1.95))[kind]
    waist = (0.82, 0.80, 1.05)[kind]
    hull = tapered_box((length, 1.78, waist - 0.3), (length * 0.96, 1.66), step=1.2, bottom=True).moved((0, 0, 0.3))
    back, roof = ((-0.25, 1.5), (-0.2, 1.7), (-0.3, 3.1))[kind]
    cabin_base = (2.4, 2.6, 3.9)[kind]
    cabin = tapered_box((cabin_base, 1.6, height - waist), (roof, 1.28), shift=-0.1).moved((back, 0, waist))
    top = tapered_box((roof + 0.06, 1.34, 0.05), (roof - 0.1, 1.2)).moved((back - 0.1, 0, height - 0.03))
    paint = _pick(rng, CAR_PAINT)
    layout.add(merged([hull, top]).tinted(paint).moved(place, yaw), "paint", "car")
    layout.add(cabin.tinted((0.05, 0.06, 0.075)).moved(place, yaw), "glass", "car")
    wheel = cylinder(0.32, 0.22, sides=12).tilted(np.pi / 2).moved((-0.11, 0, 0), np.pi / 2)
    rim = cylinder(0.19, 0.24, sides=8).tilted(np.pi / 2).moved((-0.12, 0, 0), np.pi / 2)
    spots = [(sx * length * 0.31, sy * 0.82 - (0.12 if sy > 0 else -0.0), 0.32) for sx in (-1, 1) for sy in (-1, 1)]
    layout.add(merged([wheel.moved(s) for s in spots]).tinted((0.03, 0.03, 0.03)).moved(place, yaw), "plain", "car")
    layout.add(merged([rim.moved(s) for s in spots]).tinted((0.35, 0.36, 0.38)).moved(place, yaw), "plain", "car")
    _add_car_lights(layout, (length, waist), place, yaw, lights)


def _add_car_lights(layout: Layout, size: tuple[float, float], place: Floats, yaw: float, lights: bool) -> None:
    length, waist = size
    lamp = box((0.08, 0.36, 0.16))
    front = merged([lamp.moved((length / 2 - 0.03, s * 0.62, waist - 0.28)) for s in (-1, 1)])
    rear = merged([lamp.moved((-length / 2 + 0.03, s * 0.64, waist - 0.24)) for s in (-1, 1)])
    plate = box((0.04, 0.5, 0.12)).moved((-length / 2 - 0.01, 0, 0.5))
    on = "glow" if lights else "plain"
    layout.add(front.tinted((0.9, 0.9, 0.8)).moved(place, yaw), on, "car")
    layout.add(rear.tinted((0.6, 0.02, 0.02)).moved(place, yaw), on, "car")
    layout.add(plate.tinted((0.8, 0.8, 0.75)).moved(place, yaw), "plain", "car")
    if lights:
        c, s = np.cos(yaw), np.sin(yaw)
        ahead = np.array([c, s, -0.08])
        spot = place + np.array([c, s, 0]) * (length / 2 + 0.12) + np.array([0, 0, 0.6])
        layout.lamps.append(Lamp(spot[None], np.array([7.0, 6.6, 5.6]), ahead / np.linalg.norm(ahead), 18.0))
        behind = place - np.array([c, s, 0]) * (length / 2 + 0.12) + np.array([0, 0, 0.6])
        layout.lamps.append(Lamp(behind[None], np.array([1.0, 0.05, 0.04]), -np.array([c, s, 0.0]), 6.0))


def add_person(rng: np.random.Generator, layout: Layout, place: Floats, yaw: float) -> None:
    """Add a person who walks along ``yaw``."""
    tall = rng.uniform(0.92, 1.06)
    leg = cylinder(0.075, 0.85 * tall, 0.09, sides=7)
    legs = merged([leg.tilted(a).moved((-0.85 * tall * np.sin(a), s * 0.1, 0)) for a, s in ((0.22, 1), (-0.2, -1))])
    body = cylinder(0.17, 0.62 * tall, 0.20, sides=8).moved((0, 0, 0.82 * tall))
    arm = cylinder(0.05, 0.6 * tall, 0.06, sides=6)
    arms = merged(
        [arm.tilted(a).moved((-0.6 * tall * np.sin(a), s * 0.25, 0.82 * tall)) for a, s in ((-0.3, 1), (0.3, -1))]
    )
    head = sphere(2)
    skull = Mesh(head.vertices * 0.115 + [0, 0, 1.6 * tall], head.faces, head.normals, head.uvs, head.colors)
    skin = np.array([0.75, 0.5, 0.38]) * rng.uniform(0.35, 1.05)
    layout.add(legs.tinted(_pick(rng, CLOTHES) * 0.5).moved(place, yaw), "cloth", "person")
    layout.add(merged([body, arms]).tinted(_pick(rng, CLOTHES)).moved(place, yaw), "cloth", "person")
    layout.add(skull.tinted(skin).moved(place, yaw), "plain", "person")


def add_street_lamp(layout: Layout, place: Floats, yaw: float, lit: bool, color: Floats) -> None:
    """Add a 6.5 m street lamp whose arm points along ``yaw``."""
    pole = merged([cylinder(0.09, 6.4, 0.05, sides=8, rings=3), box((0.3, 0.3, 0.5))])
    arm = box((1.5, 0.07, 0.07), bottom=True).moved((0.7, 0, 6.35))
    head = box((0.7, 0.26, 0.10)).moved((1.35, 0, 6.38))
    bulb = tapered_box((0.5, 0.16, 0.07), (0.66, 0.24), bottom=True).moved((1.35, 0, 6.31))
    layout.add(merged([pole, arm, head]).tinted((0.10, 0.12, 0.12)).moved(place, yaw), "plain", "lamp")
    layout.add(bulb.tinted(color).moved(place, yaw), "glow" if lit else "plain", "lamp")
    if lit:
        spot = np.asarray(place) + [1.35 * np.cos(yaw), 1.35 * np.sin(yaw), 6.27]
        layout.lamps.append(Lamp(spot[None], color * 34.0, np.array([0, 0, -1.0]), 24.0))


def add_traffic_light(layout: Layout, place: Floats, yaw: float, state: int, lit: bool) -> None:
    """Add a traffic light that faces ``yaw``; ``state`` 0 red, 1 amber, 2 green."""
    pole = cylinder(0.07, 3.4, 0.06, sides=8)
    head = box((0.22, 0.32, 0.95)).moved((0.02, 0, 2.5))
    layout.add(merged([pole, head]).tinted((0.06, 0.07, 0.06)).moved(place, yaw), "plain", "traffic light")
    for k, color in enumerate(((0.9, 0.05, 0.03), (0.9, 0.5, 0.03), (0.05, 0.8, 0.25))):
        lens = disc(0.10, 10).tilted(np.pi / 2).moved((0.135, 0, 3.27 - 0.29 * k))
        on = k == state
        material = "glow" if on and lit else "plain"
        layout.add(lens.tinted(np.array(color) * (1.0 if on else 0.15)).moved(place, yaw), material, "traffic light")


def add_sign(rng: np.random.Generator, layout: Layout, place: Floats, yaw: float) -> None:
    """Add a traffic sign that faces ``yaw``."""
    layout.add(cylinder(0.035, 2.5, sides=6).tinted((0.4, 0.4, 0.42)).moved(place, yaw), "plain", "sign")
    color = _pick(rng, ((0.05, 0.15, 0.55), (0.65, 0.05, 0.05), (0.8, 0.65, 0.05)))
    plate = disc(0.33, 14 if rng.random() < 0.6 else 4).tilted(np.pi / 2).moved((0.05, 0, 2.2))
    inner = disc(0.22, 14).tilted(np.pi / 2).moved((0.06, 0, 2.2))
    layout.add(plate.tinted(color).moved(place, yaw), "plain", "sign")
    layout.add(inner.tinted((0.85, 0.85, 0.85)).moved(place, yaw), "plain", "sign")


def add_small(rng: np.random.Generator, layout: Layout, place: Floats, yaw: float) -> None:
    """Add a bench, a litter bin, a hydrant, a planter or a post box."""
    kind = int(rng.integers(5))
    if kind == 0:
        boards = [box((1.6, 0.12, 0.04), bottom=True).moved((0, y, 0.44)) for y in (-0.15, 0.0, 0.15)]
        back = box((1.6, 0.04, 0.34), bottom=True).moved((0, 0.24, 0.52))
        feet = [box((0.06, 0.42, 0.44)).moved((x, 0, 0)) for x in (-0.65, 0.65)]
        layout.add(merged([*boards, back]).tinted((0.42, 0.25, 0.12)).moved(place, yaw), "wood", "bench")
        layout.add(merged(feet).tinted((0.08, 0.08, 0.08)).moved(place, yaw), "plain", "bench")
    elif kind == 1:
        bin_ = merged([cylinder(0.24, 0.85, 0.28, sides=10), cylinder(0.30, 0.08, 0.2, sides=10).moved((0, 0, 0.85))])
        layout.add(bin_.tinted((0.07, 0.16, 0.10)).moved(place, yaw), "plain", "bin")
    elif kind == 2:
        post = merged(
            [
                cylinder(0.14, 0.6, 0.13, sides=10),
                cylinder(0.16, 0.16, 0.04, sides=10).moved((0, 0, 0.6)),
                box((0.44, 0.12, 0.12), bottom=True).moved((0, 0, 0.36)),
            ]
        )
        layout.add(post.tinted((0.62, 0.06, 0.04)).moved(place, yaw), "plain", "hydrant")
    elif kind == 3:
        layout.add(tapered_box((0.9, 0.6, 0.5), (1.0, 0.7)).moved(place, yaw), "concrete", "planter")
        green = blob((0.5, 0.36, 0.34), rng, 0.3, 2).moved((0, 0, 0.66))
        layout.add(green.tinted((0.2, 0.4, 0.1)).moved(place, yaw), "leaves", "planter")
    else:
        layout.add(box((0.5, 0.4, 1.2)).tinted((0.05, 0.12, 0.4)).moved(place, yaw), "paint", "post box")
