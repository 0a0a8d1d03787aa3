"""A town on a sunny day."""

import numpy as np

from fed_core.scenes import textures
from fed_core.scenes.lighting import Ambient, Sky
from fed_core.scenes.scene import Air, Look, World, build_world
from fed_core.scenes.worlds import worlds
from fed_core.scenes.worlds._city import City


@worlds.register("urban_day")
def build(rng: np.random.Generator) -> World:
    """Return a town by day; streets, houses, sun and haze follow from ``rng``."""
    city = City(rng, night=False)
    high, turn = np.radians(rng.uniform(34, 58)), rng.uniform(0, 6.28)
    warm = rng.uniform(0, 1)
    sky = Sky(
        zenith=np.array([0.16, 0.34, 0.80]) * rng.uniform(0.85, 1.2),
        horizon=np.array([0.66, 0.76, 0.88]) + warm * np.array([0.10, 0.0, -0.12]),
        sun_dir=np.array([np.cos(high) * np.cos(turn), np.cos(high) * np.sin(turn), np.sin(high)]),
        sun_rgb=np.array([2.2, 2.05, 1.8]) + warm * np.array([0.15, -0.05, -0.35]),
        clouds=np.clip(textures.noise(rng, 4, 5) * rng.uniform(2.2, 3.0) - 1.2, 0, 0.95),
    )
    air = Air(rng.uniform(0.0022, 0.0045), flight_m=(9.0, 15.0), flight_pitch_deg=(16.0, 32.0))
    look = Look(sky, Ambient(np.array([0.50, 0.47, 0.43]), 0.7, 24, 1.5), air, exposure=1.0)
    return build_world(city.layout, look, city.routes)
