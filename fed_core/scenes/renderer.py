"""From a world and a pose to linear light and exact depth."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fed_core.scenes.meshes import Floats
from fed_core.scenes.scene import World
from fed_core.scenes.shading import shade

F32 = npt.NDArray[np.float32]
#: Extra samples inside an edge pixel, as offsets from its centre in pixels.
EXTRA = ((-0.33, -0.2), (0.33, -0.2), (0.0, 0.36))
EDGE_CONTRAST = 0.05  # of full scale, after the eye's curve
EDGE_SHARE = 0.16  # at most this share of the pixels is sampled again


@dataclass(frozen=True)
class Pinhole:
    """A camera without distortion.

    Attributes:
        width: pixels.
        height: pixels.
        focal_px: focal length in pixels, the same in x and y; the axis goes through the image centre.
    """

    width: int
    height: int
    focal_px: float

    @property
    def matrix(self) -> Floats:
        """Intrinsics (3, 3); the centre of pixel (column, row) lies at (column, row)."""
        f, cx, cy = self.focal_px, (self.width - 1) / 2, (self.height - 1) / 2
        return np.array([[f, 0.0, cx], [0.0, f, cy], [0.0, 0.0, 1.0]])

    def directions(self) -> Floats:
        """Return ray directions (H * W, 3) in the optical frame, length 1 along z."""
        v, u = np.mgrid[0 : self.height, 0 : self.width].astype(float)
        x = (u - (self.width - 1) / 2) / self.focal_px
        y = (v - (self.height - 1) / 2) / self.focal_px
        rays: Floats = np.stack([x, y, np.ones_like(x)], -1).reshape(-1, 3)
        return rays


def render(world: World, camera: Pinhole, pose: Floats, range_m: float) -> tuple[F32, F32]:
    """Return linear light (H, W, 3) and z-depth (H, W) in metres, NaN beyond ``range_m`` or where nothing is hit.

    Args:
        world: what is seen.
        camera: intrinsics.
        pose: (4, 4) camera to world, optical convention (x right, y down, z forward).
        range_m: largest distance along the optical axis that is known.
    """
    turn, origin = pose[:3, :3], pose[:3, 3].astype(np.float32)
    pixel_rad = 1 / camera.focal_px
    shape = (camera.height, camera.width)
    directions = (camera.directions() @ turn.T).astype(np.float32)
    hits = world.rays.closest(np.broadcast_to(origin, directions.shape).copy(), directions)
    color = shade(world, origin, directions, hits, pixel_rad)
    depth = np.where(hits.t <= range_m, hits.t, np.float32(np.nan)).astype(np.float32).reshape(shape)
    edge = np.flatnonzero(_edges(color.reshape(*shape, 3) * np.float32(world.exposure)))
    if len(edge):
        steps = np.array([[x * pixel_rad, y * pixel_rad, 0.0] for x, y in EXTRA]) @ turn.T
        near = (directions[edge] + steps.astype(np.float32)[:, None]).reshape(-1, 3)
        more = world.rays.closest(np.broadcast_to(origin, near.shape).copy(), near)
        extra = shade(world, origin, near, more, pixel_rad).reshape(len(EXTRA), -1, 3)
        limit = np.float32(3.0 / world.exposure)  # one bright sample must not win over the rest of its pixel
        total = np.minimum(color[edge], limit) + np.minimum(extra, limit).sum(0)
        color[edge] = total / np.float32(len(EXTRA) + 1)
    return color.reshape(*shape, 3), depth


def _edges(color: F32) -> npt.NDArray[np.bool_]:
    """Return the pixels, (H, W), that differ most from a neighbour."""
    tone = np.sqrt(np.minimum(color @ np.array([0.3, 0.6, 0.1], np.float32), 1.0))
    across, down = np.abs(np.diff(tone, axis=1)), np.abs(np.diff(tone, axis=0))
    contrast = np.zeros_like(tone)
    contrast[:, 1:] = across
    contrast[:, :-1] = np.maximum(contrast[:, :-1], across)
    contrast[1:] = np.maximum(contrast[1:], down)
    contrast[:-1] = np.maximum(contrast[:-1], down)
    rank = int(contrast.size * (1 - EDGE_SHARE))
    floor = max(EDGE_CONTRAST, float(np.partition(contrast.ravel(), rank)[rank]))
    result: npt.NDArray[np.bool_] = contrast > floor
    return result
