import numpy as np
import pytest

from fed_core.scenes.meshes import Mesh, blob, box, cylinder, merged, patch, sphere, tapered_box, terrain


def volume(mesh: Mesh) -> float:
    """Signed volume of a closed mesh: positive when its faces turn outward."""
    tri = mesh.vertices[mesh.faces]
    return float(np.einsum("ij,ij->i", tri[:, 0], np.cross(tri[:, 1], tri[:, 2])).sum() / 6)


@pytest.mark.parametrize("step", [1e9, 0.5])
def test_a_box_is_closed_and_turned_outward(step: float) -> None:
    assert volume(box((2, 3, 4), step, bottom=True)) == pytest.approx(24)


def test_a_frustum_has_its_textbook_volume() -> None:
    # h/3 (A + a + sqrt(A a)) with A = 4, a = 1, h = 3
    assert volume(tapered_box((2, 2, 3), (1, 1), bottom=True)) == pytest.approx(7)


def test_a_sphere_and_a_blob_are_closed_and_turned_outward() -> None:
    assert volume(sphere(4)) == pytest.approx(4 / 3 * np.pi, rel=0.01)
    assert volume(blob((1, 2, 3), np.random.default_rng(0), 0.1)) > 0


def test_a_cylinder_stands_on_the_ground_and_is_closed_above() -> None:
    tube = cylinder(1.0, 2.0, sides=64)
    # The open bottom lies at z = 0 and adds nothing to the sum.
    assert volume(tube) == pytest.approx(2 * np.pi, rel=0.01)
    assert tube.vertices[:, 2].min() == 0 and tube.vertices[:, 2].max() == 2


def test_a_patch_faces_along_the_cross_product_and_is_cut_into_cells() -> None:
    mesh = patch((0, 0, 0), (2, 0, 0), (0, 1, 0), step=0.5)
    np.testing.assert_allclose(mesh.normals, np.tile([0, 0, 1], (15, 1)))
    assert len(mesh.faces) == 2 * 4 * 2
    np.testing.assert_allclose(mesh.uvs.max(0), [2, 1])


def test_moving_turns_before_it_shifts_and_leaves_the_original() -> None:
    mesh = box((2, 1, 1))
    before = mesh.vertices.copy()
    moved = mesh.moved((10, 0, 0), np.pi / 2)
    np.testing.assert_allclose(moved.vertices[:, :2].min(0), [9.5, -1], atol=1e-12)
    np.testing.assert_array_equal(mesh.vertices, before)


def test_merging_keeps_every_triangle_in_place() -> None:
    a, b = box((1, 1, 1), bottom=True), box((1, 1, 1), bottom=True).moved((5, 0, 0))
    both = merged([a, b])
    assert volume(both) == pytest.approx(2)
    np.testing.assert_array_equal(both.vertices[both.faces[len(a.faces) :]], b.vertices[b.faces])


def test_terrain_follows_its_height() -> None:
    ground = terrain(lambda x, y: 0.5 * x + 0 * y, 2.0, 1.0)
    np.testing.assert_allclose(ground.vertices[:, 2], 0.5 * ground.vertices[:, 0])
    np.testing.assert_allclose(ground.normals[:, 0] / ground.normals[:, 2], -0.5)
