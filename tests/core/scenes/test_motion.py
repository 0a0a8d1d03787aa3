import numpy as np
import pytest

from fed_core.errors import ConfigError
from fed_core.scenes.platforms import PLATFORMS, Motion, platform
from fed_core.scenes.routes import Route, rectangle
from fed_core.scenes.scene import Air

AIR = Air(0.0, flight_m=(10.0, 12.0), flight_pitch_deg=(30.0, 40.0))


def test_a_route_closes_and_rounds_its_corners() -> None:
    route = Route(rectangle(20, 10, z=1.0), 4.0)
    np.testing.assert_allclose(route.point(0), route.point(route.length_m), atol=1e-6)
    assert 120 - 12 < route.length_m < 120
    steps = np.linalg.norm(np.diff(route.points, axis=0, append=route.points[:1]), axis=1)
    assert steps.max() < 0.3
    np.testing.assert_allclose(route.points[:, 2], 1.0)


def test_a_route_knows_its_heading_and_the_distance_to_it() -> None:
    route = Route(rectangle(20, 10), 2.0)
    # The east side runs north at x = 20.
    along = next(s for s in np.arange(0, route.length_m, 0.1) if np.allclose(route.point(s)[:2], [20, 0], atol=0.1))
    assert route.heading(along) == pytest.approx(np.pi / 2, abs=1e-6)
    np.testing.assert_allclose(route.distance_to(np.array([[23.0, 0.0], [15.0, 0.0]])), [3, 5], atol=0.05)


@pytest.mark.parametrize(("name", "low", "high"), [("uav", 9, 13), ("ugv", 1.5, 1.7), ("legged", 0.4, 0.6)])
def test_every_platform_keeps_its_height(name: str, low: float, high: float) -> None:
    for seed in range(5):
        motion = Motion(platform(name), Route(rectangle(30, 30), 4.0), AIR, np.random.default_rng(seed))
        z = [motion.pose(t)[2, 3] for t in np.arange(0, 20, 0.1)]
        assert low < min(z) and max(z) < high


def test_gaits_differ() -> None:
    def shake(name: str) -> float:
        motion = Motion(platform(name), Route(rectangle(30, 30), 4.0), AIR, np.random.default_rng(0))
        return float(np.std(np.diff([motion.pose(t)[2, 2] for t in np.arange(0, 5, 0.1)])))

    assert shake("legged") > 2 * shake("ugv")


def test_an_unknown_platform_is_named_with_the_known_ones() -> None:
    assert PLATFORMS == ("uav", "ugv", "legged")
    with pytest.raises(ConfigError, match=r"^no platform is called 'boat'; known: uav, ugv, legged$"):
        platform("boat")
