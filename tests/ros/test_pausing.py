"""A robot whose training is paused keeps its heartbeat, misses a round by its deadline, and joins the next one."""

from collections.abc import Callable

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from fed_msgs.msg import FleetStatus, RobotStatus
from sensor_msgs.msg import BatteryState
from std_srvs.srv import SetBool

from fed_nodes import qos
from tests.ros.fleets import Fleet, record

PAUSED = "training paused: asked to"


@pytest.mark.timeout(240)
def test_a_paused_robot_stays_in_the_fleet_and_goes_on_when_asked(fleet: Fleet) -> None:
    watcher, statuses = fleet.watcher, "/fleet/robot_status"
    watcher.watch(RobotStatus, statuses, qos.STATUS)
    watcher.watch(FleetStatus, "/fleet/status", qos.LATCHED)
    watcher.watch(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
    bag = {"data": str(record(fleet.folder / "bag"))}
    spot = fleet.robot("spot", source=bag)
    rex = fleet.robot("rex", source=bag)
    for name in ("spot", "rex"):
        watcher.wait(statuses, lambda m, name=name: (m.robot_id, m.phase) == (name, RobotStatus.REGISTERING), 90.0)
    client = watcher.node.create_client(SetBool, "/spot/pause_training")
    watcher.until(client.service_is_ready)

    answer = watcher.call(client, SetBool.Request(data=True))
    fleet.aggregator(rounds=2, round_deadline_s=20.0)

    assert answer.success and answer.message == PAUSED
    # Round 1 closes with rex alone; spot, in training all the time, is stopped for round 2 while it is paused.
    status = watcher.wait("/fleet/status", lambda m: m.round == 2, 90.0)
    assert {r.robot_id: (r.updates, r.alive) for r in status.robots} == {"rex": (1, True), "spot": (0, True)}
    rex.interrupt()  # without it, round 2 waits for spot
    held = [m for m in watcher.messages[statuses] if m.robot_id == "spot" and m.phase == RobotStatus.TRAINING]
    assert len(held) >= 5 and {m.progress for m in held} == {0.0} and {m.text for m in held} == {PAUSED}
    told = [s for m in watcher.messages["/diagnostics"] for s in m.status if s.name.startswith("/spot/")]
    assert any(v.key == "training_paused" and v.value == "asked to" for s in told for v in s.values)

    watcher.wait(statuses, lambda m: (m.robot_id, m.phase, m.round) == ("spot", RobotStatus.TRAINING, 2), 60.0)
    answer = watcher.call(client, SetBool.Request(data=False))
    assert answer.message == "training is not paused"
    watcher.wait(statuses, lambda m: (m.robot_id, m.phase, m.round) == ("spot", RobotStatus.REPORTED, 2), 90.0)
    lines = [line.partition("]: ")[2] for line in spot.output]
    assert [line for line in lines if line.startswith("training ")] == ["training pauses: asked to", "training goes on"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_empty_battery_pauses_until_it_is_charged(fleet: Fleet) -> None:
    watcher, statuses = fleet.watcher, "/fleet/robot_status"
    watcher.watch(RobotStatus, statuses, qos.STATUS)
    fleet.robot("spot", source={"data": str(record(fleet.folder / "bag"))}, battery_low=0.2, battery_high=0.4)
    watcher.wait(statuses, lambda m: m.phase == RobotStatus.REGISTERING, 90.0)
    battery = watcher.node.create_publisher(BatteryState, "/spot/battery", qos.SENSORS)
    watcher.until(battery.get_subscription_count)

    def until(percentage: float, wanted: Callable[[RobotStatus], bool], timeout_s: float) -> None:
        """Tell the battery again and again, as a driver does: one message may come before the two are matched."""

        def told() -> list[RobotStatus]:
            battery.publish(BatteryState(percentage=percentage))
            return [m for m in list(watcher.messages[statuses]) if wanted(m)]

        watcher.until(told, timeout_s)

    until(0.1, lambda m: m.text == "training paused: battery at 10%, until 40%", 40.0)
    fleet.aggregator(min_robots=1, rounds=1)
    watcher.wait(statuses, lambda m: m.phase == RobotStatus.TRAINING and m.text.startswith("training paused"), 60.0)
    until(0.5, lambda m: m.phase == RobotStatus.REPORTED, 90.0)
