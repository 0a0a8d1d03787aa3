"""When training gives way: each cause with its hysteresis, by hand."""

import math
import re
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_nodes.training.machine import OthersLoad, cpu_temperature_c
from fed_nodes.training.yielding import LoadMeter, Readings, Yielding, YieldingConfig


def decisions(config: YieldingConfig, *readings: Readings) -> list[str]:
    yielding = Yielding(config)
    return [yielding.decide(now) for now in readings]


def test_by_default_it_pauses_only_when_asked() -> None:
    worst = Readings(battery=0.0, cpu_c=120.0, load=1.0)
    assert decisions(YieldingConfig(), worst, Readings(asked=True), worst) == ["", "asked to", ""]


def test_battery_pauses_below_low_until_high() -> None:
    config = YieldingConfig(battery_low=0.2, battery_high=0.4)
    charges = [math.nan, 0.5, 0.2, 0.19, 0.2, 0.39, math.nan, 0.4, 0.3]

    told = decisions(config, *(Readings(battery=charge) for charge in charges))

    assert [bool(reason) for reason in told] == [False, False, False, True, True, True, True, False, False]
    assert told[3] == "battery at 19%, until 40%"
    assert told[6] == "battery at an unknown share, until 40%"


def test_heat_pauses_above_hot_until_five_degrees_below() -> None:
    told = decisions(YieldingConfig(cpu_hot_c=80.0), *(Readings(cpu_c=c) for c in (80.0, 80.5, 76.0, 75.0, 79.0)))
    assert told == ["", "CPU at 80 °C, until 75 °C", "CPU at 76 °C, until 75 °C", "", ""]


def test_load_pauses_above_high_until_a_fifth_less() -> None:
    told = decisions(YieldingConfig(load_high=0.5), *(Readings(load=share) for share in (0.5, 0.6, 0.41, 0.4, 0.5)))
    assert told == ["", "others use 60% of the CPUs, until 40%", "others use 41% of the CPUs, until 40%", "", ""]


def test_causes_are_told_together_and_end_apart() -> None:
    config = YieldingConfig(battery_low=0.2, battery_high=0.3, cpu_hot_c=80.0)
    told = decisions(
        config,
        Readings(asked=True, battery=0.1, cpu_c=90.0),
        Readings(battery=0.3, cpu_c=90.0),
        Readings(battery=0.3, cpu_c=60.0),
    )
    assert told == ["asked to; battery at 10%, until 30%; CPU at 90 °C, until 75 °C", "CPU at 90 °C, until 75 °C", ""]


def test_a_limit_that_is_taken_away_ends_its_pause() -> None:
    yielding = Yielding(YieldingConfig(cpu_hot_c=80.0))
    assert yielding.decide(Readings(cpu_c=90.0))
    yielding.change(YieldingConfig())
    assert yielding.decide(Readings(cpu_c=90.0)) == ""


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (
            {"battery_low": 0.6},
            "battery_low is 0.6, above battery_high, 0.5; training pauses below the one and goes on",
        ),
        ({"battery_low": 20.0}, "YieldingConfig.battery_low is 20.0; it must lie between 0.0 and 1.0"),
        ({"cpu_hot_c": -1.0}, "YieldingConfig.cpu_hot_c is -1.0; it must lie between 0.0 and 150.0"),
        ({"load_high": 1.5}, "YieldingConfig.load_high is 1.5; it must lie between 0.0 and 1.0"),
    ],
)
def test_wrong_limits_are_named(tree: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        from_tree(YieldingConfig, tree)


def test_load_of_others_by_hand() -> None:
    """Two CPUs; per second 1.5 s of work, of which the training process does 0.5 s: others use half of both."""
    meter = LoadMeter()
    assert math.isnan(meter.add(100.0, 50.0, 10.0, 7.0))
    assert meter.add(101.0, 51.5, 10.5, 7.5) == pytest.approx(0.5)


def test_load_is_a_mean_over_the_last_ten_seconds() -> None:
    meter = LoadMeter(window_s=10.0)
    shares = [meter.add(float(s), float(min(s, 20)), float(max(s - 20, 0)), 0.0) for s in range(41)]

    assert shares[20] == 1.0 and shares[25] == pytest.approx(0.5) and shares[30] == 0.0 == shares[40]


def test_a_new_training_process_counts_from_zero() -> None:
    """A process that ended takes its counter along; what it had done before stays counted as training's."""
    meter = LoadMeter()
    meter.add(0.0, 0.0, 0.0, 5.0)
    meter.add(1.0, 1.0, 0.0, 6.0)
    assert meter.add(2.0, 2.0, 0.0, 1.0) == pytest.approx(0.0)


def test_the_machine_tells_a_share() -> None:
    load = OthersLoad(lambda: None)
    load.read()
    found = load.read()
    assert math.isnan(found) or 0.0 <= found <= 1.0
    assert math.isnan(OthersLoad(lambda: 2**22 + 1).read())  # a process that has just ended


def test_what_the_training_process_uses_is_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CPUs for 10 s: training keeps one busy, another process half of the second one."""
    used, own = SimpleNamespace(user=0.0, system=0.0, idle=0.0), SimpleNamespace(user=0.0, system=0.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: used)
    monkeypatch.setattr(psutil, "Process", {7: SimpleNamespace(cpu_times=lambda: own)}.__getitem__)
    load = OthersLoad(lambda: 7)
    assert math.isnan(load.read())
    used.user, used.system, used.idle, own.user, own.system = 13.0, 2.0, 5.0, 9.0, 1.0
    assert load.read() == pytest.approx(0.25)


def sensors(**found: list[float | None]) -> dict[str, list[Any]]:
    return {name: [SimpleNamespace(current=value) for value in values] for name, values in found.items()}


@pytest.mark.parametrize(
    ("found", "degrees"),
    [
        (sensors(nvme=[90.0], coretemp=[50.0, 61.0, None]), 61.0),
        (sensors(k10temp=[48.5], amdgpu=[80.0]), 48.5),
        (sensors(cpu_thermal=[55.0]), 55.0),
        (sensors(acpitz=[27.8], nvme=[41.0]), 41.0),  # nothing has the CPU's name: the hottest
        ({}, math.nan),
    ],
)
def test_the_hottest_sensor_of_the_cpu_counts(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, list[Any]], degrees: float
) -> None:
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: found, raising=False)
    assert cpu_temperature_c() == pytest.approx(degrees, nan_ok=True)


def test_a_system_without_sensors_tells_no_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_temperatures", raising=False)
    assert math.isnan(cpu_temperature_c())
