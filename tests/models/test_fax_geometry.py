"""Where the network believes that pixels and cells lie, against the cameras of the data."""

import numpy as np
import pytest
import torch

from fed_core.data.opv2v import cameras
from fed_models.blocks.bev_geometry import image_cells, map_cells, rays
from fed_models.fax import Fax, FaxChoices, FaxWidths

#: Camera of OPV2V and the size of its pictures (width, height).
K = np.array([[335.6399, 0.0, 400.0], [0.0, 335.6399, 300.0], [0.0, 0.0, 1.0]])
SIZE = (800, 600)
WIDTHS = FaxWidths(
    blocks=(1, 1, 1, 1), encoder=8, dim=16, heads=2, decoder=(8, 8, 8), bottlenecks=0
)  # base sizes, few channels


def pose(x: float, y: float, z: float, yaw: float) -> np.ndarray:
    c, s = np.cos(np.radians(yaw)), np.sin(np.radians(yaw))
    return np.array([[c, -s, 0.0, x], [s, c, 0.0, y], [0.0, 0.0, 1.0, z], [0.0, 0.0, 0.0, 1.0]])


MOUNTS = {0: pose(2.5, 0, 1, 0), 1: pose(0, 0.3, 1.8, 100), 2: pose(0, -0.3, 1.8, -100), 3: pose(-2, 0, 1.5, 180)}


def network(geom: str) -> Fax:
    return Fax(WIDTHS, FaxChoices(geom=geom))


def ground_of(net: Fax, geom: str, camera: int, level: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (n, 2) of the network's images and where their rays meet the ground (n, 2), forward and right."""
    matrix = net.fit_intrinsics(K, (SIZE[1], SIZE[0]))
    inputs = [torch.tensor(array, dtype=torch.float32)[None, None] for array in (matrix, MOUNTS[camera])]
    grid = net.levels[level].image_grid
    points = rays(grid, *inputs, geom)[0, :3].flatten(1).T.numpy()
    start = MOUNTS[camera][:3, 3]
    way = points - start
    with np.errstate(divide="ignore"):
        length = -start[2] / way[:, 2]
    met = start[:2] + length[:, None] * way[:, :2]
    seen = (length > 0) & (np.abs(met) < 50.0).all(1)
    return grid[:2].flatten(1).T.numpy()[seen], met[seen]


@pytest.mark.parametrize("camera", [0, 1, 2, 3])
@pytest.mark.parametrize("level", [0, 1])
def test_the_ray_of_a_pixel_meets_what_the_pixel_shows(camera: int, level: int) -> None:
    net = network("corrected")
    scaled = cameras.scaled(K, SIZE, (512, 512))

    pixels, met = ground_of(net, "corrected", camera, level)
    shown, depth = cameras.project(np.column_stack([met, np.zeros(len(met))]), scaled, MOUNTS[camera])

    assert len(met) > 50 and (depth > 0).all()
    assert np.abs(shown - pixels).max() < 0.5


def test_a_ground_point_is_found_in_its_cell_of_the_map() -> None:
    """The cell whose place is nearest to where a ray meets the ground is the one in which the masks draw it."""
    _, met = ground_of(network("corrected"), "corrected", 0)
    places = map_cells(256, 100.0, "corrected").flatten(1).T.numpy()

    nearest = np.array([np.argmin(((places - point) ** 2).sum(1)) for point in met])
    drawn = cameras.to_cells(met, 256)

    assert np.abs(np.column_stack(divmod(nearest, 256)) - drawn).max() <= 1.0


@pytest.mark.parametrize("cells", [256, 128, 32, 8])
def test_cells_lie_where_the_masks_draw_them(cells: int) -> None:
    ours = map_cells(cells, 100.0, "corrected").permute(1, 2, 0).numpy()

    np.testing.assert_allclose(ours, cameras.cell_centres(256, 256 // cells), atol=1e-4)


def test_left_stays_left() -> None:
    """In front, columns right of the middle look right, y > 0; the right column of the map lies there, too."""
    pixels, met = ground_of(network("corrected"), "corrected", 0)

    assert ((pixels[:, 0] > 256) == (met[:, 1] > 0)).all()
    x, y = map_cells(256, 100.0, "corrected")
    assert x[0, 0] == 50.0 and x[128, 0] == 0.0 and x[255, 0] < -49.0
    assert y[0, 0] == -50.0 and y[0, 255] > 49.0


def test_the_reference_geometry_does_not_hold() -> None:
    """All rays of a camera go up, none meets the ground; the map is mirrored, and its border cells sit at 50 m."""
    net = network("reference")
    _, met = ground_of(net, "reference", 0)
    x, y = map_cells(128, 100.0, "reference")

    assert len(met) == 0
    assert (x[0, 0], x[-1, 0], y[0, 0], y[0, -1]) == (50.0, -50.0, 50.0, -50.0)
    np.testing.assert_allclose(
        map_cells(128, 100.0, "reference").permute(1, 2, 0).numpy(),
        cameras.cell_centres(256, 2, geometry="reference"),
        atol=1e-4,
    )
    assert image_cells(4, 512, "reference")[0, 0].tolist() == pytest.approx([0.0, 512 / 3, 1024 / 3, 512.0])
    np.testing.assert_array_equal(net.fit_intrinsics(K, (600, 800)), K)
