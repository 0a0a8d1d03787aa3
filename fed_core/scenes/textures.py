"""Procedural surface pictures: (S, S, 4) float64, sRGB colour in 0..1 and a mask (glow or glass), all tileable."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
SIZE = 256


def noise(rng: np.random.Generator, cells: int, octaves: int = 4, stretch: int = 1) -> Floats:
    """Return tileable cloud noise in 0..1, (S, S); ``stretch`` makes it longer along the rows."""
    total = np.zeros((SIZE, SIZE))
    weight = 1.0
    for _ in range(octaves):
        if cells > SIZE:
            break
        total += weight * _value_noise(rng, cells, max(1, cells // stretch))
        cells, weight = cells * 2, weight * 0.55
    low, high = total.min(), total.max()
    result: Floats = (total - low) / (high - low)
    return result


def _value_noise(rng: np.random.Generator, columns: int, rows: int) -> Floats:
    grid = rng.random((rows, columns))
    y, x = np.arange(SIZE) * rows / SIZE, np.arange(SIZE) * columns / SIZE
    iy, ix = y.astype(int), x.astype(int)
    fy, fx = ((f * f * (3 - 2 * f)) for f in (y - iy, x - ix))
    top = grid[iy][:, ix] * (1 - fx) + grid[iy][:, (ix + 1) % columns] * fx
    below = grid[(iy + 1) % rows]
    low = below[:, ix] * (1 - fx) + below[:, (ix + 1) % columns] * fx
    result: Floats = top * (1 - fy[:, None]) + low * fy[:, None]
    return result


def picture(value: Floats, dark: tuple[float, ...], light: tuple[float, ...]) -> Floats:
    """Return a picture whose colour runs from ``dark`` to ``light`` with ``value`` (S, S)."""
    rgb = np.asarray(dark) + value[..., None] * (np.asarray(light) - np.asarray(dark))
    return np.concatenate([np.clip(rgb, 0, 1), np.zeros((SIZE, SIZE, 1))], 2)


def _cells(columns: int, rows: int, shift: float = 0.0) -> tuple[Floats, ...]:
    """Return column and row number and position inside the cell (0..1) of every texel."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    row = np.floor(y * rows)
    across = (x * columns + shift * (row % 2)) % columns
    return np.floor(across), row, across % 1, y * rows % 1


def plain(rng: np.random.Generator) -> Floats:
    """Painted metal or plastic: nearly even."""
    return picture(noise(rng, 8), (0.90, 0.90, 0.90), (1.0, 1.0, 1.0))


def speckle(rng: np.random.Generator, dark: tuple[float, ...], light: tuple[float, ...], cells: int = 16) -> Floats:
    """Grainy ground such as asphalt, concrete, gravel, soil or plaster."""
    grain = rng.random((SIZE, SIZE))
    return picture(0.55 * noise(rng, cells) + 0.25 * noise(rng, 4) + 0.2 * grain, dark, light)


def bricks(rng: np.random.Generator, rows: int = 16, columns: int = 8) -> Floats:
    """Running bond with mortar; near-white bricks are tinted by the mesh."""
    column, row, u, v = _cells(columns, rows, 0.5)
    tone = rng.uniform(0.0, 1.0, (rows, columns))[row.astype(int), column.astype(int)]
    base = picture(0.6 * tone + 0.4 * noise(rng, 16), (0.62, 0.55, 0.52), (1.0, 0.93, 0.88))
    joint = (u < 0.05) | (v < 0.12)
    base[joint, :3] = 0.75 + 0.1 * rng.random((SIZE, SIZE))[joint, None]
    return base


def tiles(rng: np.random.Generator, count: int, joint: float = 0.04, spread: float = 0.5) -> Floats:
    """Square tiles or slabs with dark joints."""
    column, row, u, v = _cells(count, count)
    tone = rng.random((count, count))[row.astype(int), column.astype(int)]
    base = picture(spread * tone + (1 - spread) * noise(rng, 8), (0.72, 0.71, 0.69), (1.0, 0.99, 0.97))
    base[(u < joint) | (v < joint), :3] *= 0.55
    return base


def planks(rng: np.random.Generator, rows: int = 8) -> Floats:
    """Wooden boards along the rows of the picture."""
    column, row, u, v = _cells(2, rows, 0.37)
    tone = rng.random((rows, 2))[row.astype(int), column.astype(int)]
    grain = noise(rng, 128, 2, stretch=16).T
    base = picture(0.55 * tone + 0.45 * grain, (0.62, 0.50, 0.40), (1.0, 0.88, 0.74))
    base[(u < 0.008) | (v < 0.05), :3] *= 0.5
    return base


def wood(rng: np.random.Generator) -> Floats:
    """One board with long grain."""
    return picture(0.7 * noise(rng, 64, 3, stretch=16).T + 0.3 * noise(rng, 4), (0.66, 0.56, 0.48), (1.0, 0.92, 0.82))


def bark(rng: np.random.Generator) -> Floats:
    """Upright ridges."""
    ridges = np.abs(noise(rng, 32, 3, stretch=8) - 0.5) * 2
    return picture(np.clip(0.75 * ridges + 0.4 * noise(rng, 8), 0, 1), (0.30, 0.25, 0.21), (1.0, 0.95, 0.88))


def leaves(rng: np.random.Generator, count: int = 900) -> Floats:
    """Many small overlapping leaves, dark between them."""
    tone = 0.10 + 0.18 * noise(rng, 32, 2)
    hue = np.zeros((SIZE, SIZE))
    for k in range(count):
        cx, cy, angle = rng.integers(SIZE), rng.integers(SIZE), rng.uniform(0, np.pi)
        size = rng.uniform(4.0, 8.0)
        rows, cols = np.arange(cy - 9, cy + 10) % SIZE, np.arange(cx - 9, cx + 10) % SIZE
        dy, dx = np.mgrid[-9:10, -9:10]
        u, v = dx * np.cos(angle) + dy * np.sin(angle), dy * np.cos(angle) - dx * np.sin(angle)
        inside = (u / size) ** 2 + (v / (0.5 * size)) ** 2 < 1
        level = 0.3 + 0.7 * k / count * rng.uniform(0.7, 1.0)
        where = np.ix_(rows, cols)
        tone[where] = np.where(inside, level * (0.85 + 0.15 * np.sign(v)), tone[where])
        hue[where] = np.where(inside, rng.uniform(-1, 1), hue[where])
    base = picture(tone, (0.04, 0.07, 0.04), (0.95, 1.0, 0.72))
    base[..., 0] *= 1 + 0.15 * hue
    return np.clip(base, 0, 1)


def blades(rng: np.random.Generator) -> Floats:
    """Short grass seen from above."""
    fine = noise(rng, 128, 2)
    return picture(
        0.45 * fine + 0.3 * noise(rng, 8) + 0.25 * rng.random((SIZE, SIZE)), (0.15, 0.24, 0.08), (0.40, 0.52, 0.20)
    )


def litter(rng: np.random.Generator) -> Floats:
    """Forest floor: soil with fallen leaves and moss."""
    base = speckle(rng, (0.16, 0.12, 0.08), (0.42, 0.33, 0.22), 32)
    leaf = leaves(rng, 500)
    cover = (noise(rng, 16, 3) > 0.45)[..., None] & (leaf[..., 1:2] > 0.3)
    base[..., :3] = np.where(cover, leaf[..., :3] * np.array([0.62, 0.47, 0.36]), base[..., :3])
    moss = np.clip(noise(rng, 4) * 3 - 1.7, 0, 0.7)[..., None]
    base[..., :3] = base[..., :3] * (1 - moss) + moss * np.array([0.22, 0.30, 0.10])
    return base


def rock(rng: np.random.Generator) -> Floats:
    """Stone with cracks and lichen."""
    crack = np.clip(np.abs(noise(rng, 6, 5) - 0.5) * 9, 0.35, 1)
    base = picture(
        (0.6 * noise(rng, 16, 5) + 0.4 * rng.random((SIZE, SIZE))) * crack, (0.35, 0.35, 0.34), (0.95, 0.93, 0.9)
    )
    lichen = (noise(rng, 8, 4) > 0.68)[..., None]
    base[..., :3] = np.where(lichen, base[..., :3] * np.array([0.85, 0.9, 0.55]), base[..., :3])
    return base


def facade(rng: np.random.Generator, wall: Floats, style: int, lit: float) -> Floats:
    """8 x 8 window bays on a ``wall`` picture; the mask marks the share ``lit`` of the windows, for 0 all glass.

    Styles: 0 upright windows with sills, 1 wide office bands, 2 glass curtain with thin mullions.
    """
    base = wall.copy()
    column, row, u, v = _cells(8, 8)
    left, low, high = ((0.27, 0.28, 0.85), (0.06, 0.35, 0.85), (0.04, 0.05, 0.95))[style]
    inside = (u > left) & (u < 1 - left) & (v > low) & (v < high)
    frame = (u > left - 0.05) & (u < 1.05 - left) & (v > low - 0.05) & (v < high + 0.05) & ~inside
    base[frame, :3] = np.array([0.88, 0.87, 0.84]) if style == 0 else np.array([0.32, 0.34, 0.36])
    bar = inside & ((np.abs(u - 0.5) < 0.025) | ((np.abs(v - 0.65) < 0.025) & (style == 0)))
    shade = rng.random((8, 8))[row.astype(int), column.astype(int)]
    glass = np.stack([0.18 + 0.16 * shade, 0.26 + 0.19 * shade, 0.34 + 0.22 * shade], -1) * (0.6 + 0.8 * v)[..., None]
    base[inside, :3] = glass[inside]
    blind = inside & (shade > 0.7) & (v > high - (high - low) * (shade - 0.6) * 1.8)
    base[blind, :3] = np.array([0.78, 0.74, 0.66])
    base[bar, :3] = np.array([0.8, 0.8, 0.78]) if style == 0 else np.array([0.2, 0.2, 0.22])
    if style == 0:
        base[(v < low - 0.05) & (v > low - 0.12) & (u > left - 0.1) & (u < 1.1 - left), :3] *= 0.6
        base[v > 0.97, :3] *= 0.75
    on = (rng.random((8, 8)) < lit)[row.astype(int), column.astype(int)]
    warm = rng.uniform(0.4, 1.0, (8, 8))[row.astype(int), column.astype(int)]
    glow = inside & on & ~bar
    base[glow, :3] = np.array([1.0, 0.80, 0.48]) * (0.75 + 0.25 * noise(rng, 32))[glow, None]
    base[..., 3] = glow * warm * (0.55 + 0.45 * v) if lit else inside & ~blind & ~bar
    return base


def shop(rng: np.random.Generator, lit: float) -> Floats:
    """Ground-floor shop fronts, 4 across, with sign bands; the mask marks what glows, for ``lit`` 0 all glass."""
    column, _, u, v = _cells(4, 4)
    which = column.astype(int)
    base = picture(noise(rng, 16), (0.46, 0.44, 0.42), (0.58, 0.56, 0.53))
    base[..., :3] *= (0.6 + 0.5 * rng.random((4, 3)))[column.astype(int)]
    glass = (u > 0.06) & (u < 0.94) & (v > 0.12) & (v < 0.70)
    goods = noise(rng, 32, 3)
    base[glass, :3] = (np.array([0.28, 0.33, 0.37]) + 0.40 * goods[..., None] * rng.random((4, 3))[which])[glass]
    door = (u > 0.68) & (u < 0.9) & (v < 0.66)
    base[door, :3] = (0.25 + 0.4 * rng.random((4, 3)))[which][door]
    sign = (v > 0.76) & (v < 0.95)
    base[sign, :3] = (0.15 + 0.8 * rng.random((4, 3)))[which][sign]
    letters = (
        sign & (v > 0.81) & (v < 0.90) & (np.sin(u * 80) + np.sin(u * 47 + column) > 0.2) & (np.abs(u - 0.5) < 0.32)
    )
    base[letters, :3] = 0.95
    on = (rng.random(4) < lit)[which]
    shine = on * (glass & ~door) * 0.55 * (0.4 + 0.6 * goods) + 0.3 * sign + 0.5 * letters
    base[..., 3] = shine if lit else glass & ~door
    return base


def spines(rng: np.random.Generator) -> Floats:
    """A full book shelf, 5 boards high."""
    base = picture(noise(rng, 64, 2, stretch=8).T, (0.30, 0.21, 0.14), (0.42, 0.31, 0.21))
    for shelf in range(5):
        y0, x = shelf * SIZE // 5 + 6, 4
        while x < SIZE - 10:
            width, height = int(rng.integers(4, 11)), int(rng.integers(26, 41))
            hue = rng.uniform(0.1, 0.9, 3) * rng.uniform(0.5, 1.0)
            base[y0 : y0 + height, x : x + width - 1, :3] = hue
            base[y0 + height // 2 : y0 + height // 2 + 4, x : x + width - 1, :3] = hue * 0.4 + 0.5
            x += width
    return base


def painting(rng: np.random.Generator) -> Floats:
    """A framed landscape of coloured bands."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    base = picture(noise(rng, 16), (0.3, 0.3, 0.3), (0.3, 0.3, 0.3))
    ramp = rng.uniform(0.15, 0.95, (5, 3)) * 0.5 + rng.uniform(0.1, 0.45, (5, 1))
    hills = y * 5 + 1.6 * (noise(rng, 4, 5) - 0.5)
    base[..., :3] = ramp[np.clip(hills, 0, 4).astype(int)] * (0.8 + 0.4 * noise(rng, 32))[..., None]
    edge = (np.minimum(x, 1 - x) < 0.06) | (np.minimum(y, 1 - y) < 0.06)
    base[edge, :3] = np.array([0.30, 0.22, 0.14])
    return np.clip(base, 0, 1)


def screen(rng: np.random.Generator) -> Floats:
    """A computer screen with windows and lines of text; it glows."""
    base = picture(noise(rng, 4), (0.10, 0.16, 0.30), (0.22, 0.38, 0.55))
    y, x = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    for _ in range(3):
        x0, y0, w, h = rng.uniform(0.05, 0.5), rng.uniform(0.05, 0.4), rng.uniform(0.3, 0.45), rng.uniform(0.3, 0.5)
        pane = (x > x0) & (x < x0 + w) & (y > y0) & (y < y0 + h)
        base[pane, :3] = rng.choice([0.14, 0.92])
        text = pane & (np.sin(y * 130) > 0.2) & (x < x0 + w * (0.4 + 0.5 * np.abs(np.sin(np.floor(y * 20)))))
        base[text, :3] = rng.uniform(0.3, 0.9, 3)
    base[..., 3] = 0.9
    return base


def weave(rng: np.random.Generator) -> Floats:
    """Woven cloth, carpet or rug."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] * (2 * np.pi / SIZE)
    thread = 0.5 + 0.25 * np.sin(32 * x) + 0.25 * np.sin(32 * y)
    return picture(0.5 * thread + 0.5 * noise(rng, 16), (0.68, 0.67, 0.66), (1.0, 1.0, 1.0))


def panels(rng: np.random.Generator) -> Floats:
    """Cupboard fronts with handles, 4 across."""
    _, _, u, v = _cells(4, 2)
    base = picture(noise(rng, 32, 2, stretch=8).T, (0.86, 0.85, 0.83), (1.0, 1.0, 1.0))
    base[(u < 0.02) | (u > 0.98) | (v < 0.02) | (v > 0.98), :3] *= 0.4
    base[(np.abs(u - 0.88) < 0.025) & (np.abs(v - 0.5) < 0.13), :3] = 0.3
    return base


def view(rng: np.random.Generator) -> Floats:
    """What a room's window shows: bright sky over far trees, glowing."""
    y = np.mgrid[0:SIZE, 0:SIZE][0] / SIZE
    sky = picture(np.clip(y * 1.2 - 0.2 + 0.15 * noise(rng, 4), 0, 1), (0.92, 0.94, 0.96), (0.62, 0.78, 0.97))
    tree = y < 0.28 + 0.16 * noise(rng, 8, 5)[SIZE // 2][None, :]
    sky[tree, :3] = np.array([0.33, 0.42, 0.25]) * (0.7 + 0.6 * noise(rng, 16)[tree, None])
    sky[..., 3] = 1.0
    return sky
