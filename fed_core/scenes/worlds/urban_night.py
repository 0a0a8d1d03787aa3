"""The same towns after dark: street lamps, lit windows and headlights."""

import numpy as np

from fed_core.scenes.lighting import Ambient, Sky
from fed_core.scenes.scene import Air, Look, World, build_world
from fed_core.scenes.worlds import worlds
from fed_core.scenes.worlds._city import City


@worlds.register("urban_night")
def build(rng: np.random.Generator) -> World:
    """Return a town by night; streets, houses, lamps and sky follow from ``rng``."""
    city = City(rng, night=True)
    blue = rng.uniform(0.7, 1.3)
    sky = Sky(
        zenith=np.array([0.006, 0.010, 0.028]) * blue,
        horizon=np.array([0.050, 0.040, 0.055]) * blue,
        sun_dir=np.array([0.3, 0.5, 0.81]) / np.linalg.norm([0.3, 0.5, 0.81]),
        sun_rgb=np.zeros(3),
        stars=True,
    )
    air = Air(rng.uniform(0.002, 0.005), flight_m=(9.0, 15.0), flight_pitch_deg=(16.0, 32.0))
    ambient = Ambient(np.array([0.085, 0.068, 0.056]), 0.8, 24)
    look = Look(sky, ambient, air, exposure=1.6, headlight=np.array([42.0, 40.0, 36.0]))
    return build_world(city.layout, look, city.routes)
