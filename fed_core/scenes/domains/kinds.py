"""The five domains (fedcka spec 7.1): two cities' streets and traffic, and four kinds of light and weather."""

from collections.abc import Mapping
from dataclasses import dataclass

from fed_core.errors import ConfigError
from fed_core.scenes.driving.carriers import ClientKind
from fed_core.scenes.driving.palettes import Palette
from fed_core.scenes.driving.streets import Plan

#: Classes that one domain has not; the paper's val splits of C, D and E lack 1, 3 and 6 of the ten (spec 7.1).
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class City:
    """Streets and traffic.

    Attributes:
        location: of its logs.
        plans: kinds of street.
        traffic: vehicles on the lanes and at the kerb.
        motorcycles: share of the vehicles on the lanes that is a motorcycle instead.
        walkers: mean pedestrians on one side of the street.
        cyclists: mean riding bicycles on one side.
        parked_cycles: mean parked motorcycles and bicycles on one side.
        cycle_mix: share of motorcycles among those.
    """

    location: str
    plans: tuple[Plan, ...]
    traffic: ClientKind
    motorcycles: float
    walkers: float
    cyclists: float
    parked_cycles: float
    cycle_mix: float


@dataclass(frozen=True)
class Weather:
    """Light, rain, and what they do to cameras and LiDAR.

    Attributes:
        palette: colours and light of the sky.
        night: lamps and headlights are on.
        wet: share of the mirror image that the ground shows, 0 = dry.
        rain: streaks in a picture of 160 x 64 pixels.
        noise: factor on the noise of the camera.
        exposure: factor from light to the camera's full scale.
        dropout: share of LiDAR returns lost at the sensor.
        reach_m: distance at which 63 % of what is left are lost, too.
        echo: factor on the intensities.
        clutter: share of LiDAR rays that a drop near the sensor sends back.
    """

    palette: Palette
    night: bool
    wet: float
    rain: int
    noise: float
    exposure: float
    dropout: float
    reach_m: float
    echo: float
    clutter: float


@dataclass(frozen=True)
class DomainKind:
    """One domain.

    Attributes:
        code: its name in the paper's code.
        city: streets and traffic.
        weather: light and rain.
        description: of its scenes; city and these words tell the domain.
        absent: classes of the ten that it has not.
    """

    code: str
    city: City
    weather: Weather
    description: str
    absent: frozenset[str]


def _traffic(gap_m: float, parked: float, mix: Mapping[str, float]) -> ClientKind:
    # Mounts, layouts and palette of the clients with masks are not used here.
    return ClientKind("car", "saloon", (), "", gap_m, parked, mix, 0)


BOSTON = City(
    "boston-generated",
    (
        Plan(2, 0.0, (4.0, 9.0), "along", "blocks", 0, 26.0),
        Plan(2, 0.0, (3.0, 7.0), "along", "blocks", 2, 26.0),
        Plan(3, 2.0, (5.0, 10.0), "along", "blocks", 0, 30.0),
    ),
    _traffic(17.0, 0.40, {"compact": 0.36, "saloon": 0.44, "van": 0.10, "truck": 0.07, "bus": 0.03}),
    motorcycles=0.015, walkers=4.5, cyclists=0.8, parked_cycles=1.2, cycle_mix=0.25,
)  # fmt: skip
SINGAPORE = City(
    "singapore-generated",
    (
        Plan(1, 0.0, (3.0, 8.0), "along", "blocks", 0, 7.0),
        Plan(1, 0.0, (3.0, 7.0), "along", "villas", 1, 6.0),
        Plan(1, 0.0, (3.0, 7.0), "along", "villas", 0, 6.0),
    ),
    _traffic(15.0, 0.22, {"compact": 0.42, "saloon": 0.26, "van": 0.12, "truck": 0.14, "bus": 0.06}),
    motorcycles=0.27, walkers=5.0, cyclists=0.7, parked_cycles=2.2, cycle_mix=0.60,
)  # fmt: skip

_BRICK, _PALE = (0.42, 0.20, 0.15), (0.82, 0.80, 0.74)
CLEAR = Palette(
    (0.16, 0.34, 0.80), (0.66, 0.76, 0.88), (2.2, 2.05, 1.8), (32, 62), 0.003,
    (1.0, 0.95, 0.85), (1.0, 1.0, 1.0), (_BRICK, (0.62, 0.45, 0.36), (0.55, 0.55, 0.54)),
)  # fmt: skip
TROPICAL = Palette(
    (0.24, 0.42, 0.76), (0.80, 0.84, 0.84), (2.4, 2.2, 1.8), (48, 80), 0.005,
    (0.75, 1.15, 0.60), (1.12, 1.08, 1.04), (_PALE, (0.70, 0.78, 0.80), (0.86, 0.70, 0.50)),
)  # fmt: skip
OVERCAST = Palette(
    (0.44, 0.47, 0.52), (0.56, 0.59, 0.63), (0.0, 0.0, 0.0), (40, 60), 0.012,
    (0.70, 0.75, 0.70), (0.58, 0.60, 0.66), (_BRICK, (0.45, 0.36, 0.31), (0.44, 0.45, 0.46)),
)  # fmt: skip
NIGHT = Palette(
    (0.006, 0.008, 0.018), (0.030, 0.026, 0.026), (0.0, 0.0, 0.0), (30, 50), 0.003,
    (0.75, 1.1, 0.60), (1.0, 1.0, 1.0), (_PALE, (0.70, 0.78, 0.80), (0.86, 0.70, 0.50)),
)  # fmt: skip
RAINY_NIGHT = Palette(
    (0.010, 0.010, 0.014), (0.036, 0.032, 0.032), (0.0, 0.0, 0.0), (30, 50), 0.012,
    (0.75, 1.0, 0.60), (0.60, 0.60, 0.64), (_PALE, (0.70, 0.78, 0.80), (0.86, 0.70, 0.50)),
)  # fmt: skip

#                    night  wet  rain noise exposure dropout reach echo clutter
DAY_CLEAR = Weather(CLEAR, False, 0.0, 0, 1.0, 1.0, 0.03, 400.0, 1.0, 0.0)
DAY_TROPICAL = Weather(TROPICAL, False, 0.0, 0, 1.0, 0.95, 0.03, 400.0, 1.0, 0.0)
DAY_RAIN = Weather(OVERCAST, False, 0.65, 46, 2.0, 0.85, 0.15, 90.0, 0.55, 0.010)
NIGHT_CLEAR = Weather(NIGHT, True, 0.0, 0, 5.0, 1.3, 0.03, 400.0, 1.0, 0.0)
NIGHT_RAIN = Weather(RAINY_NIGHT, True, 0.80, 46, 6.0, 1.2, 0.18, 80.0, 0.5, 0.012)

_NOT_D = frozenset({"trailer", "construction_vehicle", "barrier"})
#: Domains by the paper's letter.
KINDS: Mapping[str, DomainKind] = {
    "A": DomainKind("boston_day_clear", BOSTON, DAY_CLEAR, "Day, clear", _NONE),
    "B": DomainKind("boston_day_rain", BOSTON, DAY_RAIN, "Day, rain, wet ground", _NONE),
    "C": DomainKind("singapore_day_clear", SINGAPORE, DAY_TROPICAL, "Day, clear", frozenset({"trailer"})),
    "D": DomainKind("singapore_night_clear", SINGAPORE, NIGHT_CLEAR, "Night, clear", _NOT_D),
    "E": DomainKind(
        "singapore_night_rain", SINGAPORE, NIGHT_RAIN, "Night, rain, wet ground",
        _NOT_D | {"bus", "bicycle", "traffic_cone"},
    ),
}  # fmt: skip


def domain_kind(letter: str) -> DomainKind:
    """Return the domain of a letter; an unknown one raises :class:`ConfigError`."""
    if letter not in KINDS:
        raise ConfigError(f"no generated domain is called {letter!r}; known: {', '.join(KINDS)}")
    return KINDS[letter]
