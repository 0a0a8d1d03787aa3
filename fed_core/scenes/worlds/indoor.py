"""A flat of four furnished rooms joined in a ring by doorways."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fed_core.scenes import textures
from fed_core.scenes.lighting import Ambient, Lamp, Sky
from fed_core.scenes.materials import Material
from fed_core.scenes.meshes import Floats, box, cylinder, disc, merged, patch
from fed_core.scenes.routes import Route
from fed_core.scenes.scene import Air, Layout, Look, World, build_world
from fed_core.scenes.worlds import _furniture as furniture
from fed_core.scenes.worlds import worlds

STEP_M = 0.4  # cells of walls and floors
DOOR_M = (1.5, 2.35)  # width and height of a doorway
WALL_M = 0.16
OVERLAP_M = 0.01  # walls run on past their corners, so that no ray slips through
KEEP_M = 0.72  # free space on both sides of the route
PAINTS = (
    (0.86, 0.84, 0.79),
    (0.62, 0.70, 0.72),
    (0.80, 0.68, 0.50),
    (0.60, 0.68, 0.54),
    (0.84, 0.72, 0.68),
    (0.46, 0.54, 0.64),
    (0.82, 0.80, 0.68),
    (0.70, 0.45, 0.34),
)
ROOMS: dict[str, tuple[str, tuple[furniture.Maker, ...]]] = {
    "living": (
        "planks",
        (
            furniture.sofa,
            furniture.tv,
            furniture.bookshelf,
            furniture.armchair,
            furniture.plant,
            furniture.floor_lamp,
            furniture.coffee_table,
        ),
    ),
    "office": (
        "carpet",
        (furniture.desk, furniture.bookshelf, furniture.desk, furniture.boxes, furniture.plant, furniture.wardrobe),
    ),
    "kitchen": ("tiles", (furniture.kitchen, furniture.table, furniture.plant, furniture.boxes, furniture.wardrobe)),
    "bedroom": (
        "planks",
        (furniture.bed, furniture.wardrobe, furniture.armchair, furniture.desk, furniture.plant, furniture.floor_lamp),
    ),
}
Opening = tuple[float, float, float, float]  # from, to along the wall; from, to in height


@dataclass(frozen=True)
class Room:
    """A rectangle of the floor plan: its corners, its doorways and windows by wall.

    Walls count anticlockwise from the one at low y; openings are measured from each wall's start.
    """

    low: Floats
    high: Floats
    doors: dict[int, float]
    windows: dict[int, list[Opening]]


@worlds.register("indoor")
def build(rng: np.random.Generator) -> World:
    """Return a flat; rooms, colours, furniture and daylight follow from ``rng``."""
    xs, ys = (np.array([-rng.uniform(4.6, 6.6), 0.0, rng.uniform(4.6, 6.6)]) for _ in range(2))
    cross_x, cross_y = (
        np.array([(a + b) / 2 + rng.uniform(-0.5, 0.5) for a, b in zip(c[:-1], c[1:], strict=True)]) for c in (xs, ys)
    )
    corners = [
        (cross_x[0], cross_y[0], 0),
        (cross_x[1], cross_y[0], 0),
        (cross_x[1], cross_y[1], 0),
        (cross_x[0], cross_y[1], 0),
    ]
    route = Route(np.array(corners, float), 1.6)
    tall = rng.uniform(2.75, 3.1)
    layout = Layout(_materials(rng))
    kinds = list(rng.permutation(list(ROOMS)))
    paints = rng.permutation(len(PAINTS))
    for k, (i, j) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
        inset = WALL_M / 2
        low = np.array([xs[i] + inset * (i == 1), ys[j] + inset * (j == 1)])
        high = np.array([xs[i + 1] - inset * (i == 0), ys[j + 1] - inset * (j == 0)])
        doors = {1 if i == 0 else 3: float(cross_y[j]), 2 if j == 0 else 0: float(cross_x[i])}
        outer = {3 if i == 0 else 1, 0 if j == 0 else 2}
        room = Room(low, high, doors, {w: _windows(rng, low, high, w) for w in outer})
        _add_shell(rng, layout, room, tall, np.array(PAINTS[paints[k]]))
        _furnish(rng, layout, room, kinds[k], route)
    _add_door_frames(layout, (xs, ys), cross_x, cross_y)
    _add_backdrop(layout, xs, ys, tall)
    return build_world(layout, _look(rng), {"air": route, "drive": route, "walk": route})


def _add_backdrop(layout: Layout, xs: Floats, ys: Floats, tall: float) -> None:
    """Add a dark box around the flat, so that the hair-thin gaps between walls do not show the sky."""
    shell = box((xs[2] - xs[0] + 1.2, ys[2] - ys[0] + 1.2, tall + 1.2), bottom=True)
    shell = shell.moved(((xs[0] + xs[2]) / 2, (ys[0] + ys[2]) / 2, -0.6))
    inward = replace(shell, faces=shell.faces[:, ::-1].copy(), normals=-shell.normals)
    layout.add(inward.tinted((0.1, 0.1, 0.1)), "wall", "backdrop", casts_shadow=False)


def _materials(rng: np.random.Generator) -> dict[str, Material]:
    mask = np.array([1, 1, 1, 0]), np.array([0, 0, 0, 1.0])
    plain = textures.plain(rng)
    lit = plain * mask[0] + mask[1]
    return {
        "wall": Material(textures.speckle(rng, (0.93, 0.93, 0.92), (1.0, 1.0, 1.0), 32), 2.0),
        "planks": Material(textures.planks(rng), 1.9),
        "tiles": Material(textures.tiles(rng, 6, 0.03, 0.3), 2.4),
        "carpet": Material(textures.weave(rng), 0.9),
        "cloth": Material(textures.weave(rng), 0.6),
        "wood": Material(textures.wood(rng), 1.2),
        "panels": Material(textures.panels(rng), 1.9),
        "stone": Material(textures.speckle(rng, (0.75, 0.74, 0.72), (1.0, 1.0, 1.0), 64), 0.8),
        "spines": Material(textures.spines(rng), 1.9),
        "painting": Material(textures.painting(rng), 0.9),
        "painting2": Material(textures.painting(rng), 0.7),
        "plain": Material(plain, 1.0),
        "foliage": Material(plain, 1.0, soft=True),
        "screen": Material(textures.screen(rng), 0.6, 0.9),
        "view": Material(textures.view(rng), 3.0, 1.9),
        "glow": Material(lit, 1.0, 3.2),
        "shade": Material(lit, 1.0, 1.4),
    }


def _look(rng: np.random.Generator) -> Look:
    high, turn = np.radians(rng.uniform(22, 42)), rng.uniform(0, 6.28)
    sky = Sky(
        zenith=np.array([0.5, 0.62, 0.85]),
        horizon=np.array([0.75, 0.78, 0.82]),
        sun_dir=np.array([np.cos(high) * np.cos(turn), np.cos(high) * np.sin(turn), np.sin(high)]),
        sun_rgb=np.array([3.2, 2.8, 2.2]),
    )
    air = Air(0.0, flight_m=(1.35, 1.65), flight_pitch_deg=(8.0, 18.0), speed=0.3)
    warm = np.array([0.52, 0.47, 0.41]) * rng.uniform(0.75, 1.1)
    return Look(sky, Ambient(warm, 0.6, 48), air, exposure=1.05)


def _windows(rng: np.random.Generator, low: Floats, high: Floats, wall: int) -> list[Opening]:
    """Return one or two windows along an outer wall."""
    length = float((high - low)[wall % 2])
    count = 1 if rng.random() < 0.6 else 2
    wide, sill = rng.uniform(1.1, 1.7), rng.uniform(0.75, 1.0)
    return [
        (c - wide / 2, c + wide / 2, sill, 2.2)
        for c in length * (np.arange(count) + 0.5) / count + rng.uniform(-0.2, 0.2)
    ]


def _wall_frame(room: Room, wall: int) -> tuple[Floats, Floats, Floats, float]:
    """Return start, direction along, inward normal and length of a wall seen from inside."""
    (x0, y0), (x1, y1) = room.low, room.high
    start = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)][wall])
    along = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)][wall], float)
    inward = np.array([-along[1], along[0]])
    return (
        np.array([*start, 0.0]),
        np.array([*along, 0.0]),
        np.array([*inward, 0.0]),
        float((room.high - room.low)[wall % 2]),
    )


def _add_shell(rng: np.random.Generator, layout: Layout, room: Room, tall: float, paint: Floats) -> None:
    """Add walls with their openings, skirting, windows and ceiling; the floor comes with the furniture."""
    up = np.array([0.0, 0.0, 1.0])
    for wall in range(4):
        start, along, inward, length = _wall_frame(room, wall)
        openings = list(room.windows.get(wall, []))
        if wall in room.doors:
            at = abs(room.doors[wall] - start[wall % 2])
            openings.append((at - DOOR_M[0] / 2, at + DOOR_M[0] / 2, 0.0, DOOR_M[1]))
        for u0, u1, v0, v1 in _solid_parts(length, tall, openings):
            # Seen from inside the wall's start is at its right, so the face turns inward.
            face = patch(start + along * u1 + up * v0, -along * (u1 - u0), up * (v1 - v0), STEP_M)
            layout.add(replace(face, uvs=face.uvs + [u0, v0]).tinted(paint), "wall", "wall")
            if v0 == 0:
                board = box((u1 - u0, 0.03, 0.09), 1.5).moved((0, 0, 0), float(np.arctan2(along[1], along[0])))
                layout.add(
                    board.moved(start + along * (u0 + u1) / 2 + inward * 0.015).tinted((0.82, 0.81, 0.78)),
                    "plain",
                    "skirting",
                )
        for opening in room.windows.get(wall, []):
            _add_window(layout, (start, along, inward), opening, paint)
    (x0, y0), (x1, y1) = room.low, room.high
    o = OVERLAP_M
    ceiling = patch((x0 - o, y1 + o, tall), (x1 - x0 + 2 * o, 0, 0), (0, y0 - y1 - 2 * o, 0), STEP_M)
    layout.add(ceiling.tinted((0.88, 0.88, 0.86)), "wall", "ceiling")
    _add_ceiling_lamp(rng, layout, (room.low + room.high) / 2, tall)


def _solid_parts(length: float, tall: float, openings: Sequence[Opening]) -> list[Opening]:
    """Return the rectangles of a wall that remain around its openings."""
    parts, at = [], -OVERLAP_M
    length, tall = length + OVERLAP_M, tall + OVERLAP_M
    for u0, u1, v0, v1 in sorted(openings):
        parts += [(at, u0, 0.0, tall), (u0, u1, v1, tall)]
        if v0 > 0:
            parts.append((u0, u1, 0.0, v0))
        at = u1
    return [*parts, (at, length, 0.0, tall)]


def _add_window(layout: Layout, frame: tuple[Floats, Floats, Floats], opening: Opening, paint: Floats) -> None:
    """Add pane, reveal, bars and sill, and the daylight that comes through."""
    start, along, inward = frame
    u0, u1, v0, v1 = opening
    wide, high, deep = u1 - u0, v1 - v0, 0.22
    yaw = float(np.arctan2(along[1], along[0]))
    middle = start + along * (u0 + u1) / 2
    pane = patch((wide / 2, -deep, v0), (-wide, 0, 0), (0, 0, high))
    pane = replace(pane, uvs=pane.uvs + [0.4, 0.2])
    layout.add(pane.moved((0, 0, 0), yaw).moved(middle), "view", "window", casts_shadow=False)
    reveal = [box((0.04, deep, high)).moved((s * (wide / 2 - 0.02), -deep / 2, v0)) for s in (-1, 1)]
    reveal += [
        box((wide, deep, 0.04), bottom=True).moved((0, -deep / 2, v1 - 0.04)),
        box((wide + 0.1, deep + 0.1, 0.04), bottom=True).moved((0, -deep / 2 + 0.05, v0)),
    ]
    bars = [
        box((0.05, 0.05, high)).moved((0, -deep + 0.04, v0)),
        box((wide, 0.05, 0.05), bottom=True).moved((0, -deep + 0.04, v0 + high * 0.62)),
    ]
    layout.add(merged(reveal + bars).moved((0, 0, 0), yaw).moved(middle).tinted((0.86, 0.86, 0.84)), "plain", "window")
    spots = [
        middle + inward * 0.02 + along * (a * wide * 0.3) + [0, 0, v0 + high * b]
        for a in (-1, 0, 1)
        for b in (0.3, 0.75)
    ]
    layout.lamps.append(Lamp(np.array(spots), np.array([0.95, 1.05, 1.2]) * wide * high * 0.75, inward, 12.0))


def _add_ceiling_lamp(rng: np.random.Generator, layout: Layout, place: Floats, tall: float) -> None:
    color = np.array([1.0, 0.84, 0.62]) if rng.random() < 0.6 else np.array([0.95, 0.98, 1.0])
    at = np.array([*place, 0.0])
    if rng.random() < 0.5:
        plate = box((0.9, 0.5, 0.05), bottom=True).moved((*place, tall - 0.06))
    else:
        plate = cylinder(0.26, 0.07, 0.30, sides=18).moved((*place, tall - 0.08))
        below = disc(0.26, 18)
        flipped = replace(below, faces=below.faces[:, ::-1].copy(), normals=-below.normals)
        plate = merged([plate, flipped.moved((*place, tall - 0.08))])
    layout.add(plate.tinted(color), "glow", "ceiling lamp", casts_shadow=False)
    spots = at + np.array([[a, b, tall - 0.12] for a in (-0.25, 0.25) for b in (-0.15, 0.15)])
    layout.lamps.append(Lamp(spots, color * rng.uniform(0.9, 1.7), np.array([0, 0, -1.0]), 12.0))


def _add_door_frames(layout: Layout, lines: tuple[Floats, Floats], cross_x: Floats, cross_y: Floats) -> None:
    """Add a casing around each of the four doorways; it also closes the thickness of the wall."""
    wide, high = DOOR_M
    deep = WALL_M + 0.06
    parts = [box((deep, 0.09, high), 0.6).moved((0, s * wide / 2, 0)) for s in (-1, 1)]
    parts.append(box((deep, wide + 0.09, 0.09), 0.6, bottom=True).moved((0, 0, high - 0.02)))
    casing = merged(parts).tinted((0.80, 0.77, 0.70))
    sill = patch((-WALL_M / 2, -wide / 2, 0.001), (WALL_M, 0, 0), (0, wide, 0), STEP_M).tinted((0.4, 0.3, 0.2))
    for mesh, material in ((casing, "plain"), (sill, "wood")):
        for y in cross_y:
            layout.add(mesh.moved((lines[0][1], y, 0)), material, "door frame")
        for x in cross_x:
            layout.add(mesh.moved((0, 0, 0), np.pi / 2).moved((x, lines[1][1], 0)), material, "door frame")


def _furnish(rng: np.random.Generator, layout: Layout, room: Room, kind: str, route: Route) -> None:
    """Put the floor, furniture along the walls and pictures into a room; nothing comes near the route."""
    floor, makers = ROOMS[kind]
    (x0, y0), (x1, y1) = room.low, room.high
    ground = patch((x0, y0, 0), (x1 - x0, 0, 0), (0, y1 - y0, 0), STEP_M)
    tint = {"planks": np.array([0.75, 0.62, 0.5]), "tiles": np.array([0.72, 0.72, 0.7])}.get(
        floor, 0.2 + 0.25 * rng.uniform(0, 1, 3) * rng.uniform(0.2, 1.0)
    )
    layout.add(ground.tinted(tint * rng.uniform(0.75, 1.1)), floor, "floor")
    taken: list[tuple[Floats, Floats]] = []
    for make in makers:
        piece = make(rng)
        for _ in range(40):
            place, yaw, low, high = _try_spot(rng, room, piece)
            hits_window = piece.size[2] > 1.2 and _covers_window(room, low, high)
            if not hits_window and _is_free(low, high, taken, route):
                taken.append((low, high))
                for mesh, material in piece.parts:
                    layout.add(mesh.moved(place, yaw), material, piece.label)
                if piece.label == "lamp":
                    layout.lamps.append(Lamp((place + [0, 0, 1.3])[None], np.array([0.5, 0.36, 0.2]), None, 6.0))
                break
    _hang_pictures(rng, layout, room, taken)


def _try_spot(rng: np.random.Generator, room: Room, piece: furniture.Piece) -> tuple[Floats, float, Floats, Floats]:
    """Return a random place with its back to a random wall: position, yaw and the floor rectangle that it covers."""
    wall = int(rng.integers(4))
    start, along, inward, length = _wall_frame(room, wall)
    wide, deep, _ = piece.size
    at = rng.uniform(wide / 2 + 0.05, max(length - wide / 2 - 0.05, wide / 2 + 0.06))
    place = start + along * at + inward * (deep / 2 + 0.04)
    # The piece's front, +y, turns to the inward normal.
    yaw = float(np.arctan2(inward[1], inward[0]) - np.pi / 2)
    half = (np.abs(along) * wide + np.abs(inward) * deep)[:2] / 2
    return place, yaw, place[:2] - half, place[:2] + half


def _is_free(low: Floats, high: Floats, taken: Sequence[tuple[Floats, Floats]], route: Route) -> bool:
    path = route.points[:, :2]
    gap = np.linalg.norm(np.maximum(np.maximum(low - path, path - high), 0), axis=1)
    return bool(gap.min() > KEEP_M) and not any(np.all(low < b + 0.05) and np.all(high > a - 0.05) for a, b in taken)


def _covers_window(room: Room, low: Floats, high: Floats) -> bool:
    """Return whether the floor rectangle lies in front of a window."""
    for wall, openings in room.windows.items():
        start, along, inward, _ = _wall_frame(room, wall)
        for u0, u1, _, _ in openings:
            a, b = (start + along * u0)[:2], (start + along * u1 + inward * 0.5)[:2]
            if np.all(low < np.maximum(a, b)) and np.all(high > np.minimum(a, b)):
                return True
    return False


def _hang_pictures(
    rng: np.random.Generator, layout: Layout, room: Room, taken: Sequence[tuple[Floats, Floats]]
) -> None:
    for wall in range(4):
        if wall in room.windows:
            continue
        start, along, inward, length = _wall_frame(room, wall)
        material, side = ("painting", 0.9) if rng.random() < 0.5 else ("painting2", 0.7)
        door = abs(room.doors.get(wall, -99.0) - start[wall % 2])
        for at in (length * 0.18, length * 0.82):
            if abs(at - door) > DOOR_M[0] / 2 + side / 2 + 0.1:
                spot = start + along * (at + side / 2) + inward * 0.012 + [0, 0, 1.35]
                layout.add(patch(spot, -along * side, (0, 0, side)), material, "picture")
