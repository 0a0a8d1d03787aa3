"""When training gives way to what the robot is there for: asked to, an empty battery, a hot or a busy CPU."""

import math
from dataclasses import dataclass

from fed_core.config import check, option
from fed_core.errors import ConfigError

#: A CPU that was too hot is cool again this far below [°C].
COOLER_C = 5.0
#: A CPU that was too busy is free again at this share of the limit.
FREER = 0.8


@dataclass(frozen=True)
class YieldingConfig:
    """When a robot does not train (``config/robot_client.yaml``, docs/training_on_robots.md)."""

    battery_low: float = option(
        0.0, help="charge below which training pauses; 0 = ignored", unit="1", low=0.0, high=1.0, live=True
    )
    battery_high: float = option(
        0.5, help="charge from which it goes on again", unit="1", low=0.0, high=1.0, live=True
    )  # fmt: skip
    cpu_hot_c: float = option(
        0.0, help="temperature of the CPU above which training pauses; 0 = ignored", unit="°C", low=0.0, high=150.0,
        live=True,
    )  # fmt: skip
    load_high: float = option(
        0.0, help="share of all CPUs in use by others, above which training pauses; 0 = ignored", unit="1", low=0.0,
        high=1.0, live=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check(self)
        if self.battery_low > self.battery_high:
            text = f"battery_low is {self.battery_low:g}, above battery_high, {self.battery_high:g}"
            raise ConfigError(f"{text}; training pauses below the one and goes on from the other: raise battery_high")


@dataclass(frozen=True)
class Readings:
    """What is known of the robot now; NaN where nothing is.

    Attributes:
        asked: somebody asked training to pause.
        battery: charge of the battery [0..1].
        cpu_c: temperature of the CPU [°C].
        load: share of all CPUs that others than the training process use [0..1].
    """

    asked: bool = False
    battery: float = math.nan
    cpu_c: float = math.nan
    load: float = math.nan


class Yielding:
    """Decides, with hysteresis: what made training pause must be well over before it goes on.

    Args:
        config: the limits.
    """

    def __init__(self, config: YieldingConfig) -> None:
        self._config = config
        self._empty = self._hot = self._busy = False

    def change(self, config: YieldingConfig) -> None:
        """Take other limits from now on."""
        self._config = config

    def decide(self, now: Readings) -> str:
        """Return why training pauses, for people; empty where it does not.

        A reading that is not known changes nothing: what paused training is over when a reading says so, or when its
        limit is set to 0.
        """
        limits = self._config
        self._empty = limits.battery_low > 0 and _below(
            now.battery, self._empty, limits.battery_low, limits.battery_high
        )
        self._hot = limits.cpu_hot_c > 0 and _above(
            now.cpu_c, self._hot, limits.cpu_hot_c, limits.cpu_hot_c - COOLER_C
        )  # fmt: skip
        self._busy = limits.load_high > 0 and _above(now.load, self._busy, limits.load_high, FREER * limits.load_high)
        return "; ".join(filter(None, (self._asked(now), self._battery(now), self._heat(now), self._load(now))))

    def _asked(self, now: Readings) -> str:
        return "asked to" if now.asked else ""

    def _battery(self, now: Readings) -> str:
        until = f"until {self._config.battery_high:.0%}"
        return f"battery at {_percent(now.battery)}, {until}" if self._empty else ""

    def _heat(self, now: Readings) -> str:
        degrees = "an unknown temperature" if math.isnan(now.cpu_c) else f"{now.cpu_c:.0f} °C"
        return f"CPU at {degrees}, until {self._config.cpu_hot_c - COOLER_C:.0f} °C" if self._hot else ""

    def _load(self, now: Readings) -> str:
        until = f"until {FREER * self._config.load_high:.0%}"
        return f"others use {_percent(now.load)} of the CPUs, {until}" if self._busy else ""


def _below(value: float, was: bool, low: float, high: float) -> bool:
    """Return whether a value is too low: once below ``low``, until it reaches ``high``."""
    if math.isnan(value):
        return was
    return value < high if was else value < low


def _above(value: float, was: bool, high: float, low: float) -> bool:
    """Return whether a value is too high: once above ``high``, until it falls to ``low``."""
    if math.isnan(value):
        return was
    return value > low if was else value > high


def _percent(share: float) -> str:
    return "an unknown share" if math.isnan(share) else f"{share:.0%}"


class LoadMeter:
    """The share of all CPUs that others than one process use, as a mean over the last seconds.

    Args:
        window_s: how far back the mean goes [s].
    """

    def __init__(self, window_s: float = 10.0) -> None:
        self._window_s = window_s
        self._seen: list[tuple[float, float, float, float]] = []

    def add(self, now_s: float, busy_s: float, idle_s: float, own_s: float) -> float:
        """Take one reading of growing counters; returns the share [0..1], NaN until there are two readings.

        Args:
            now_s: monotonic time [s].
            busy_s: time that all CPUs worked so far [s].
            idle_s: time that they did not [s].
            own_s: time that the process itself worked; it may begin anew from 0, with a new process [s].
        """
        if self._seen and own_s < self._seen[-1][3]:
            own_s_before = self._seen[-1][3]
            self._seen = [(t, busy, idle, own - own_s_before) for t, busy, idle, own in self._seen]
        self._seen.append((now_s, busy_s, idle_s, own_s))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= self._window_s:
            del self._seen[0]
        _, busy, idle, own = (new - old for new, old in zip(self._seen[-1], self._seen[0], strict=True))
        if busy + idle <= 0:
            return math.nan
        return min(max((busy - own) / (busy + idle), 0.0), 1.0)
