import numpy as np
import pytest

from fed_core.scenes.meshes import box, merged, patch
from fed_core.scenes.raycast import Raycaster
from fed_core.scenes.sequence import keeps_clear, starts_inside


def cube() -> Raycaster:
    mesh = box((2, 2, 2), bottom=True)  # -1..1 in x and y, 0..2 in z
    return Raycaster(mesh.vertices, mesh.faces)


def rows(*values: tuple[float, float, float]) -> np.ndarray:
    return np.array(values, np.float32)


def test_closest_hits_and_misses() -> None:
    hits = cube().closest(rows((-5, 0, 1), (-5, 0, 3)), rows((2, 0, 0), (2, 0, 0)))
    np.testing.assert_allclose(hits.t, [2, np.inf])
    assert hits.face[0] >= 0 and hits.face[1] == -1


def test_occlusion_ends_at_the_reach() -> None:
    start, way = np.repeat(rows((-5, 0, 1)), 2, 0), np.repeat(rows((1, 0, 0)), 2, 0)
    np.testing.assert_array_equal(cube().occluded(start, way, np.array([3.9, 4.1], np.float32)), [False, True])
    np.testing.assert_array_equal(cube().occluded(start, -way), [False, False])


@pytest.mark.parametrize(
    ("point", "distance"),
    [((0, 0, 2.25), 0.25), ((1.3, 0, 1), 0.3), ((1.3, 1.4, 1), 0.5), ((0, 0, 9), 0.6), ((0, 0, 1.9), 0.1)],
    ids=["above a face", "beside a face", "off an edge", "out of reach", "inside"],
)
def test_distance_to_the_nearest_triangle(point: tuple[float, ...], distance: float) -> None:
    assert cube().distances(np.array([point], float), 0.6)[0] == pytest.approx(distance, abs=1e-6)


def test_a_start_inside_a_solid_is_seen() -> None:
    assert starts_inside(cube(), np.array([0.1, 0.2, 1.0]))
    assert not starts_inside(cube(), np.array([4.0, 0.2, 1.0]))


def test_a_path_keeps_clear_only_in_the_open() -> None:
    beside = np.array([[x, 1.5, 1.0] for x in np.linspace(-3, 3, 30)])
    assert keeps_clear(cube(), beside, 0.4)
    assert not keeps_clear(cube(), beside, 0.6)
    through = np.array([[-2.0, 0, 1], [2.0, 0, 1]])  # both ends are free, the way between is not
    assert not keeps_clear(cube(), through, 0.4)


def test_a_path_inside_a_hollow_solid_is_refused() -> None:
    walls = merged([box((20, 20, 20), bottom=True), patch((0, 0, -1), (1, 0, 0), (0, 1, 0))])
    rays = Raycaster(walls.vertices, walls.faces)
    assert not keeps_clear(rays, np.array([[0.0, 0, 10], [0.1, 0, 10]]), 0.4)
