"""A robot that records from real topics: killed in between, and going on while it trains."""

from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from fed_msgs.msg import RobotStatus, UpdateReport

from fed_core.data.open import open_sequence
from fed_nodes import qos
from tests.ros.fleets import Fleet, record

STATUS = "/fleet/robot_status"


def recorded(count: int) -> object:
    return lambda m: m.phase == RobotStatus.STARTING and m.num_samples >= count


@pytest.mark.timeout(300)
def test_killed_while_it_records_it_goes_on_with_what_was_there(fleet: Fleet) -> None:
    watcher, bag = fleet.watcher, record(fleet.folder / "bag", frames=60)
    watcher.watch(RobotStatus, STATUS, qos.STATUS)
    robot = fleet.robot("spot", record_frames=60)
    fleet.replay("spot", bag, loop=True, rate_hz=20.0)
    before = watcher.wait(STATUS, recorded(10), 90.0).num_samples
    robot.kill()
    watcher.messages[STATUS].clear()
    robot = fleet.robot("spot", record_frames=60)
    robot.wait_line(r".*samples_0\.mcap\.part was cut off: its \d+ whole frames are kept", 90.0)
    assert watcher.wait(STATUS, recorded(1)).num_samples >= before
    robot.wait_line(r".*recorded 60 frames")
    sequence = open_sequence(fleet.folder / "robots" / "spot" / "snapshots" / "recorded")
    assert len(sequence) == 60
    whole = open_sequence(bag)
    assert [sequence[i].stamp_ns for i in range(60)] == [whole[i].stamp_ns for i in range(60)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_round_trains_on_what_is_there_by_then(fleet: Fleet) -> None:
    watcher, bag = fleet.watcher, record(fleet.folder / "bag", frames=300)
    watcher.watch(RobotStatus, STATUS, qos.STATUS)
    watcher.watch(UpdateReport, "/fleet/updates", qos.LATCHED)
    watcher.watch(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
    fleet.aggregator(min_robots=1, rounds=2, train={"lr": 1e-3, "augment": False})
    fleet.robot("spot", record_frames=10, record_after="continue")
    fleet.replay("spot", bag, rate_hz=10.0)
    first = watcher.wait("/fleet/updates", lambda m: m.round == 1, 120.0)
    second = watcher.wait("/fleet/updates", lambda m: m.round == 2, 120.0)
    assert 10 <= first.num_samples < second.num_samples
    status = watcher.wait(STATUS, lambda m: m.num_samples == second.num_samples)
    assert status.phase in (RobotStatus.REPORTED, RobotStatus.FINISHED)
    snapshots = fleet.folder / "robots" / "spot" / "snapshots"
    assert [path.name for path in snapshots.iterdir()] == ["tiny_2"]
    assert len(open_sequence(Path(snapshots / "tiny_2"))) >= second.num_samples
    message = watcher.wait("/diagnostics", lambda m: m.status[0].name.startswith("/spot/robot_client"))
    values = {pair.key: pair.value for pair in message.status[0].values}
    assert "/spot/camera/image_raw rate_hz" in values and "recorded_bytes" in values
