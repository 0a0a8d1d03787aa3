"""Textures, lights and the sensor."""

import numpy as np
import pytest

from fed_core.scenes import textures
from fed_core.scenes.lighting import Ambient, Lamp, Sky, ambient_light, fibonacci, lamp_light
from fed_core.scenes.materials import Atlas, Material
from fed_core.scenes.meshes import box, patch
from fed_core.scenes.raycast import Raycaster
from fed_core.scenes.sensor import Sensor

UP = np.array([[0.0, 0.0, 1.0]])


def floor() -> Raycaster:
    mesh = patch((-9, -9, 0), (18, 0, 0), (0, 18, 0))
    return Raycaster(mesh.vertices, mesh.faces)


def test_noise_is_tileable_and_fills_the_range() -> None:
    value = textures.noise(np.random.default_rng(0), 4)
    assert value.min() == 0 and value.max() == 1
    inside = np.abs(np.diff(value, axis=0)).max()
    assert np.abs(value[0] - value[-1]).max() <= 1.5 * inside


@pytest.mark.parametrize("make", [textures.leaves, textures.rock, textures.spines, textures.view, textures.litter])
def test_pictures_follow_the_seed_and_stay_in_range(make) -> None:  # type: ignore[no-untyped-def]
    one, same, other = (make(np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert one.shape == (textures.SIZE, textures.SIZE, 4) and not np.array_equal(one, other)
    assert one[..., :3].min() >= 0 and one[..., :3].max() <= 1.001


def test_a_far_surface_shows_its_mean_colour() -> None:
    checks = np.zeros((textures.SIZE, textures.SIZE, 4))
    checks[::2, :, :3] = 1.0
    atlas = Atlas({"a": Material(np.zeros_like(checks), 1.0), "b": Material(checks, 2.0)})
    uv, far = np.array([[0.3], [0.7]], np.float32), np.array([2.0], np.float32)
    np.testing.assert_allclose(atlas.sample(np.array([1], np.int32), uv, far)[:3, 0], 0.5, atol=1e-6)
    np.testing.assert_allclose(atlas.sample(np.array([0], np.int32), uv, far)[:3, 0], 0.0)


def test_open_ground_under_an_even_sky_takes_the_skys_light() -> None:
    sky = Sky(np.full(3, 0.8), np.full(3, 0.8), UP[0], np.zeros(3))
    light = ambient_light(floor(), np.zeros((1, 3)), UP, sky, Ambient(np.full(3, 0.1)))
    np.testing.assert_allclose(light, 0.8, rtol=1e-6)


def test_ground_in_a_closed_box_takes_only_the_bounced_light() -> None:
    mesh = box((200, 200, 100), bottom=True).moved((0, 0, -50))
    sky = Sky(np.ones(3), np.ones(3), UP[0], np.zeros(3))
    light = ambient_light(
        Raycaster(mesh.vertices, mesh.faces), np.zeros((1, 3)), UP, sky, Ambient(np.full(3, 0.1), falloff_m=1e-3)
    )
    np.testing.assert_allclose(light, 0.1, rtol=1e-3)


def test_a_lamp_follows_the_inverse_square_and_the_cosine() -> None:
    lamp = Lamp(np.array([[0.0, 0, 2]]), np.array([4.0, 8, 0]), None, reach_m=1e4)
    points = np.array([[0.0, 0, 0], [2.0, 0, 0]])
    light = lamp_light(floor(), points, np.repeat(UP, 2, 0), [lamp])
    np.testing.assert_allclose(light[0], [1, 2, 0], rtol=0.05)
    # At 45 degrees: twice the squared distance, and a cosine of 1 / sqrt 2.
    assert light[1, 0] / light[0, 0] == pytest.approx(1 / 2**1.5, rel=0.05)


def test_a_lamp_throws_shadows() -> None:
    wall = patch((1, -5, 0), (0, 10, 0), (0, 0, 5))
    rays = Raycaster(wall.vertices, wall.faces)
    lamp = Lamp(np.array([[0.0, 0, 2]]), np.ones(3))
    light = lamp_light(rays, np.array([[0.5, 0, 0], [1.5, 0, 0]]), np.repeat(UP, 2, 0), [lamp])
    assert light[0, 0] > 0 and light[1, 0] == 0


def test_directions_cover_the_sphere() -> None:
    d = fibonacci(200)
    np.testing.assert_allclose(np.linalg.norm(d, axis=1), 1)
    np.testing.assert_allclose(d.mean(0), 0, atol=0.02)


def test_the_sensor_is_brighter_for_more_light_and_its_noise_follows_the_seed() -> None:
    sensor = Sensor(np.ones(3), 0.2, 0.002, 0.01, 1.0)
    dim, bright = (np.full((24, 32, 3), v, np.float32) for v in (0.05, 0.5))
    one, same, other = (sensor.develop(dim, 1.0, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert one.dtype == np.uint8 and not np.array_equal(one, other)
    assert sensor.develop(bright, 1.0, np.random.default_rng(1)).mean() > one.mean() + 30
    corner, middle = one[:4, :4].mean(), one[10:14, 14:18].mean()
    assert corner < middle  # vignette
