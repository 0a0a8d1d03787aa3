"""Furniture. Every piece stands at the origin with its back at -y and its front towards +y."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fed_core.scenes.meshes import Floats, Mesh, blob, box, cylinder, merged, patch, tapered_box

WOODS = ((0.45, 0.26, 0.13), (0.62, 0.42, 0.22), (0.26, 0.15, 0.09), (0.75, 0.60, 0.42), (0.82, 0.80, 0.76))
CLOTHS = (
    (0.50, 0.12, 0.10),
    (0.12, 0.24, 0.42),
    (0.20, 0.36, 0.26),
    (0.62, 0.46, 0.16),
    (0.42, 0.40, 0.40),
    (0.70, 0.62, 0.52),
    (0.36, 0.20, 0.38),
)
FINE = 0.5  # cells of large faces, so that baked light varies over them


@dataclass(frozen=True)
class Piece:
    """One piece: its floor space (x, y), its height and its meshes with materials."""

    label: str
    size: tuple[float, float, float]
    parts: list[tuple[Mesh, str]] = field(default_factory=list)


Maker = Callable[[np.random.Generator], Piece]


def _wood(rng: np.random.Generator) -> Floats:
    return np.array(WOODS[int(rng.integers(len(WOODS)))]) * rng.uniform(0.85, 1.15)


def _cloth(rng: np.random.Generator) -> Floats:
    return np.array(CLOTHS[int(rng.integers(len(CLOTHS)))]) * rng.uniform(0.85, 1.2)


def _block(size: tuple[float, float, float], at: tuple[float, float, float]) -> Mesh:
    return box(size, FINE, bottom=at[2] > 0).moved(at)


def _legs(sx: float, sy: float, height: float, thick: float = 0.06) -> list[Mesh]:
    return [box((thick, thick, height)).moved((a * sx / 2, b * sy / 2, 0)) for a in (-1, 1) for b in (-1, 1)]


def sofa(rng: np.random.Generator) -> Piece:
    """A sofa with cushions."""
    wide = rng.uniform(1.7, 2.2)
    tint = _cloth(rng)
    frame = [
        _block((wide, 0.85, 0.22), (0, 0, 0.1)),
        _block((wide, 0.22, 0.48), (0, -0.32, 0.32)),
        *[_block((0.18, 0.85, 0.30), (s * (wide / 2 - 0.09), 0, 0.32)) for s in (-1, 1)],
    ]
    count = 2 if wide < 1.95 else 3
    each = (wide - 0.4) / count
    seats = [
        tapered_box((each - 0.02, 0.62, 0.17), (each - 0.06, 0.56), step=FINE).moved(
            (-wide / 2 + 0.2 + each * (k + 0.5), 0.09, 0.32)
        )
        for k in range(count)
    ]
    pillow = blob((0.22, 0.09, 0.2), rng, 0.03, 2).moved((wide * 0.27 * rng.choice([-1, 1]), -0.12, 0.66))
    return Piece(
        "sofa",
        (wide, 0.9, 0.8),
        [
            (merged(frame).tinted(tint), "cloth"),
            (merged(seats).tinted(tint * 1.18), "cloth"),
            (pillow.tinted(_cloth(rng)), "cloth"),
        ],
    )


def bookshelf(rng: np.random.Generator) -> Piece:
    """A tall shelf full of books."""
    wide, tall = rng.uniform(0.9, 1.4), rng.uniform(1.8, 2.1)
    tint = _wood(rng)
    frame = [
        _block((wide, 0.02, tall), (0, -0.15, 0)),
        *[_block((0.04, 0.32, tall), (s * wide / 2, 0, 0)) for s in (-1, 1)],
        _block((wide, 0.32, 0.04), (0, 0, tall - 0.04)),
        _block((wide, 0.32, 0.06), (0, 0, 0.0)),
    ]
    front = patch((wide / 2, 0.10, 0.06), (-wide, 0, 0), (0, 0, tall - 0.1), FINE)
    return Piece("shelf", (wide + 0.05, 0.34, tall), [(merged(frame).tinted(tint), "wood"), (front, "spines")])


def _chair_parts(rng: np.random.Generator, tint: Floats) -> Mesh:
    seat = box((0.44, 0.44, 0.05), bottom=True).moved((0, 0, 0.42))
    back = box((0.42, 0.04, 0.42), bottom=True).moved((0, -0.2, 0.52))
    return merged(
        [
            seat,
            back,
            *_legs(0.38, 0.38, 0.42, 0.04),
            *[box((0.03, 0.03, 0.1)).moved((s * 0.18, -0.2, 0.45)) for s in (-1, 1)],
        ]
    ).tinted(tint)


def desk(rng: np.random.Generator) -> Piece:
    """A desk with a screen, a drawer block and a chair."""
    wide = rng.uniform(1.3, 1.7)
    tint = _wood(rng)
    top = _block((wide, 0.7, 0.04), (0, -0.35, 0.71))
    legs = merged([m.moved((0, -0.35, 0)) for m in _legs(wide - 0.1, 0.6, 0.71, 0.05)])
    drawers = _block((0.4, 0.6, 0.55), (wide / 2 - 0.28, -0.35, 0.0))
    monitor = merged(
        [
            box((0.58, 0.04, 0.36), bottom=True).moved((0, -0.5, 0.86)),
            box((0.06, 0.04, 0.2)).moved((0, -0.52, 0.75)),
            box((0.24, 0.16, 0.02)).moved((0, -0.5, 0.75)),
        ]
    )
    glass = patch((0.27, -0.477, 0.885), (-0.54, 0, 0), (0, 0, 0.31))
    keys = box((0.42, 0.14, 0.02)).moved((0, -0.22, 0.75))
    chair = _chair_parts(rng, _cloth(rng)).moved((rng.uniform(-0.2, 0.2), 0.35, 0), np.pi + rng.normal(0, 0.3))
    return Piece(
        "desk",
        (wide, 1.4, 1.22),
        [
            (merged([top, drawers]).tinted(tint), "wood"),
            (chair, "cloth"),
            (merged([legs, monitor, keys]).tinted((0.08, 0.08, 0.09)), "plain"),
            (glass, "screen"),
        ],
    )


def bed(rng: np.random.Generator) -> Piece:
    """A bed with pillows and a blanket."""
    wide = rng.uniform(1.2, 1.7)
    frame = [_block((wide, 2.0, 0.28), (0, 0, 0.05)), _block((wide + 0.06, 0.07, 0.95), (0, -0.99, 0))]
    mattress = tapered_box((wide - 0.05, 1.92, 0.22), (wide - 0.1, 1.86), step=FINE).moved((0, 0.02, 0.33))
    blanket = tapered_box((wide + 0.04, 1.3, 0.26), (wide - 0.04, 1.26), step=FINE).moved((0, 0.37, 0.33))
    pillows = merged([blob((0.3, 0.2, 0.1), rng, 0.03, 2).moved((s * wide * 0.24, -0.7, 0.6)) for s in (-1, 1)])
    return Piece(
        "bed",
        (wide + 0.1, 2.1, 0.95),
        [
            (merged(frame).tinted(_wood(rng)), "wood"),
            (blanket.tinted(_cloth(rng)), "cloth"),
            (merged([mattress, pillows]).tinted((0.85, 0.84, 0.82)), "cloth"),
        ],
    )


def wardrobe(rng: np.random.Generator) -> Piece:
    """A wardrobe with doors."""
    wide, tall = rng.uniform(1.2, 1.8), rng.uniform(1.9, 2.15)
    body = box((wide, 0.58, tall), FINE).moved((0, 0, 0))
    return Piece("wardrobe", (wide, 0.6, tall), [(body.tinted(_wood(rng) * 1.1), "panels")])


def kitchen(rng: np.random.Generator) -> Piece:
    """A counter with cupboards above, a tap, a hob and a fridge."""
    wide = rng.uniform(2.2, 2.8)
    tint = np.array(
        ((0.85, 0.85, 0.83), (0.30, 0.42, 0.40), (0.60, 0.30, 0.22), (0.36, 0.44, 0.56))[int(rng.integers(4))]
    )
    base = box((wide, 0.58, 0.86), FINE)
    top = _block((wide + 0.02, 0.62, 0.04), (0, 0.01, 0.86))
    upper = box((wide, 0.34, 0.65), FINE, bottom=True).moved((0, -0.13, 1.45))
    fridge = _block((0.62, 0.62, 1.75), (wide / 2 + 0.36, 0, 0))
    gap = box((0.6, 0.01, 0.015), bottom=True).moved((wide / 2 + 0.36, 0.312, 1.15))
    tap = merged([cylinder(0.018, 0.28, sides=6), box((0.03, 0.18, 0.03), bottom=True).moved((0, 0.08, 0.27))]).moved(
        (-wide * 0.2, -0.2, 0.9)
    )
    hob = box((0.55, 0.48, 0.012)).moved((wide * 0.22, 0.02, 0.9))
    pot = cylinder(0.11, 0.15, sides=10).moved((wide * 0.22 - 0.12, 0.06, 0.912))
    # The fridge stands at the right end; shift all so that the piece is centred.
    parts = [
        (merged([base, upper]).tinted(tint), "panels"),
        (top.tinted((0.30, 0.28, 0.27)), "stone"),
        (fridge.tinted((0.75, 0.76, 0.78)), "plain"),
        (merged([gap, hob]).tinted((0.04, 0.04, 0.04)), "plain"),
        (merged([tap, pot]).tinted((0.55, 0.56, 0.58)), "plain"),
    ]
    return Piece("kitchen", (wide + 0.7, 0.66, 2.1), [(m.moved((-0.33, 0, 0)), name) for m, name in parts])


def tv(rng: np.random.Generator) -> Piece:
    """A low board with a television."""
    board = _block((1.6, 0.4, 0.42), (0, 0, 0.06))
    shell = merged(
        [box((1.2, 0.05, 0.70), bottom=True).moved((0, -0.08, 0.56)), box((0.4, 0.2, 0.08)).moved((0, -0.08, 0.48))]
    )
    glass = patch((0.57, -0.052, 0.59), (-1.14, 0, 0), (0, 0, 0.64))
    image = "screen" if rng.random() < 0.5 else "plain"
    glass = glass if image == "screen" else glass.tinted((0.02, 0.02, 0.025))
    return Piece(
        "tv",
        (1.6, 0.45, 1.3),
        [(board.tinted(_wood(rng)), "panels"), (shell.tinted((0.04, 0.04, 0.04)), "plain"), (glass, image)],
    )


def table(rng: np.random.Generator) -> Piece:
    """A dining table with four chairs and a bowl."""
    wide = rng.uniform(1.2, 1.6)
    tint = _wood(rng)
    top = merged([_block((wide, 0.8, 0.045), (0, 0, 0.70)), *_legs(wide - 0.15, 0.65, 0.70)]).tinted(tint)
    seat_tint = _wood(rng)
    chairs = [
        _chair_parts(rng, seat_tint).moved((x, s * 0.55, 0), 0.0 if s < 0 else np.pi)
        for x in (-0.3, 0.3)
        for s in (-1, 1)
    ]
    bowl = cylinder(0.08, 0.08, 0.16, sides=12).moved((0.1, 0, 0.745)).tinted(_cloth(rng))
    fruit = merged(
        [
            blob((0.05, 0.05, 0.05), rng, 0.05, 1).moved((0.1 + a, b, 0.84))
            for a, b in ((0.04, 0.03), (-0.05, 0.02), (0, -0.05))
        ]
    )
    return Piece(
        "table",
        (wide, 1.75, 0.95),
        [(top, "wood"), (merged(chairs), "wood"), (bowl, "plain"), (fruit.tinted((0.8, 0.35, 0.05)), "plain")],
    )


def coffee_table(rng: np.random.Generator) -> Piece:
    """A low table."""
    top = merged([_block((1.0, 0.55, 0.04), (0, 0, 0.36)), *_legs(0.85, 0.42, 0.36, 0.05)]).tinted(_wood(rng))
    books = merged(
        [box((0.26, 0.19, 0.035)).moved((0.15, 0, 0.40), 0.3), box((0.22, 0.16, 0.03)).moved((0.16, 0.01, 0.435), 0.1)]
    )
    return Piece("table", (1.05, 0.6, 0.45), [(top, "wood"), (books.tinted(_cloth(rng)), "plain")])


def plant(rng: np.random.Generator) -> Piece:
    """A potted plant with long leaves."""
    from fed_core.scenes.worlds._plants import tuft

    pot = cylinder(0.15, 0.32, 0.20, sides=12).tinted(_cloth(rng))
    leaves = merged(
        [tuft(rng, rng.uniform(0.6, 0.85), 14, 0.35).moved((0, 0, 0.28)), tuft(rng, 0.42, 10, 0.7).moved((0, 0, 0.28))]
    )
    return Piece("plant", (0.85, 0.85, 1.15), [(pot, "plain"), (leaves.tinted((0.06, 0.18, 0.04)), "foliage")])


def floor_lamp(rng: np.random.Generator) -> Piece:
    """A standing lamp with a glowing shade."""
    pole = merged([cylinder(0.14, 0.03, sides=12), cylinder(0.015, 1.4, sides=6)]).tinted((0.1, 0.1, 0.1))
    shade = cylinder(0.21, 0.28, 0.14, sides=14).moved((0, 0, 1.36)).tinted((1.0, 0.78, 0.5))
    return Piece("lamp", (0.45, 0.45, 1.65), [(pole, "plain"), (shade, "shade")])


def boxes(rng: np.random.Generator) -> Piece:
    """A heap of cardboard boxes."""
    parts, z = [], 0.0
    for k in range(3):
        side = rng.uniform(0.35, 0.6, 3) * (1 - 0.12 * k)
        parts.append(box(side, bottom=z > 0).moved((rng.uniform(-0.06, 0.06), 0, z), rng.normal(0, 0.15)))
        z += float(side[2])
    return Piece("boxes", (0.8, 0.75, z), [(merged(parts).tinted((0.55, 0.38, 0.22)), "stone")])


def armchair(rng: np.random.Generator) -> Piece:
    """An armchair."""
    tint = _cloth(rng)
    parts = [
        _block((0.85, 0.8, 0.32), (0, 0, 0.1)),
        _block((0.85, 0.2, 0.5), (0, -0.3, 0.42)),
        *[_block((0.17, 0.8, 0.22), (s * 0.34, 0, 0.42)) for s in (-1, 1)],
    ]
    return Piece("armchair", (0.9, 0.85, 0.92), [(merged(parts).tinted(tint), "cloth")])
