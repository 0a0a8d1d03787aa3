"""A node's training pauses by service, battery, heat and load; each change is told once."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from rclpy.node import Node
from sensor_msgs.msg import BatteryState
from std_srvs.srv import SetBool

from fed_nodes import qos
from fed_nodes.training import pausing as pausing_module
from fed_nodes.training.pausing import Pausing
from fed_nodes.training.yielding import YieldingConfig

Spin = Callable[[Node], None]


@pytest.fixture
def paused(make_node: Callable[..., Node]) -> Callable[..., tuple[Pausing, Node, list[bool]]]:
    def make(**config: float) -> tuple[Pausing, Node, list[bool]]:
        node, told = make_node(), list[bool]()
        return Pausing(node, YieldingConfig(**config), lambda: None, told.append), node, told

    return make


def ask(node: Node, spin: Spin, data: bool) -> SetBool.Response:
    client = node.create_client(SetBool, "pause_training")
    assert client.wait_for_service(10.0)
    future = client.call_async(SetBool.Request(data=data))
    for _ in range(200):
        if future.done():
            break
        spin(node)
    return future.result()


def test_the_service_pauses_and_resumes(paused: Any, spin: Spin) -> None:
    pausing, node, told = paused()

    first, again, last = (ask(node, spin, data) for data in (True, True, False))

    assert [answer.message for answer in (first, again)] == ["training paused: asked to"] * 2
    assert last.message == "training is not paused" and all(answer.success for answer in (first, again, last))
    assert told == [True, False] and pausing.reason == ""


def test_the_status_tells_it(paused: Any, spin: Spin) -> None:
    pausing, node, _ = paused()
    assert pausing.text("refused") == "refused" and pausing.values() == {"training_paused": "no"}

    ask(node, spin, True)

    assert pausing.text("") == "training paused: asked to"
    assert pausing.text("refused") == "training paused: asked to (refused)"
    assert pausing.values() == {"training_paused": "asked to"}


def test_the_battery_pauses_and_resuming_does_not_override_it(paused: Any, spin: Spin) -> None:
    pausing, node, told = paused(battery_low=0.2, battery_high=0.4)
    publisher = node.create_publisher(BatteryState, "battery", qos.SENSORS)

    def publish_until(charge: float, reason: str) -> None:
        for _ in range(200):
            publisher.publish(BatteryState(percentage=charge))
            spin(node)
            if pausing.reason == reason:
                break
        assert pausing.reason == reason

    publish_until(0.125, "battery at 12%, until 40%")
    assert ask(node, spin, False).message == "training paused: battery at 12%, until 40%"
    assert pausing.values()["battery"] == "0.12" and told == [True]
    publish_until(0.3, "battery at 30%, until 40%")
    publish_until(0.4, "")
    assert told == [True, False]


@pytest.mark.parametrize(
    ("msg", "charge"),
    [
        (BatteryState(percentage=0.25), 0.25),
        (BatteryState(percentage=math.nan, charge=1.0, capacity=4.0), 0.25),
        (BatteryState(percentage=math.nan, charge=2.0, capacity=math.nan, design_capacity=4.0), 0.5),
        (BatteryState(percentage=math.nan, charge=math.nan, capacity=4.0), math.nan),
        (BatteryState(percentage=math.nan, charge=1.0), math.nan),
    ],
)
def test_charge_of_a_battery(msg: BatteryState, charge: float) -> None:
    assert pausing_module._charge(msg) == pytest.approx(charge, nan_ok=True)


def test_a_battery_that_counts_to_hundred_is_ignored_and_told(paused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pausing, node, told = paused(battery_low=0.2)
    lines: list[str] = []
    logger = node.get_logger()
    monkeypatch.setattr(logger, "warning", lambda text, **_: lines.append(text))
    monkeypatch.setattr(node, "get_logger", lambda: logger)

    pausing._on_battery(BatteryState(percentage=0.1))
    pausing._on_battery(BatteryState(percentage=87.0))

    assert lines == [
        "battery: charge is 87, and sensor_msgs/BatteryState counts from 0 to 1; ignored, correct its driver"
    ]
    assert told == [True] and pausing.reason.startswith("battery at 10%")


def test_heat_pauses_and_a_machine_without_sensors_says_so_once(paused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pausing, node, told = paused(cpu_hot_c=80.0)
    lines: list[str] = []
    logger = node.get_logger()
    monkeypatch.setattr(logger, "warning", lines.append)
    monkeypatch.setattr(node, "get_logger", lambda: logger)
    for degrees in (math.nan, math.nan, 85.0, 78.0, 74.0):
        monkeypatch.setattr(pausing_module, "cpu_temperature_c", lambda found=degrees: found)
        pausing.look()

    assert lines == ["cpu_hot_c is set, but this machine tells no temperature; it is ignored"]
    assert told == [True, False] and pausing.values()["cpu_c"] == "74.00"


def test_load_of_others_pauses_and_a_change_of_the_limit_counts_at_once(
    paused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pausing, _, told = paused(load_high=0.5)
    monkeypatch.setattr(pausing._load, "read", lambda: 0.75)
    pausing.look()
    assert pausing.reason == "others use 75% of the CPUs, until 40%" and told == [True]

    pausing.change(YieldingConfig(load_high=0.9))
    assert pausing.reason.endswith("until 72%")  # it must fall below the new one, too
    pausing.change(YieldingConfig())
    assert pausing.reason == "" and told == [True, False]
