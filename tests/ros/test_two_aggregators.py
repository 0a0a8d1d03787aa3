"""A second aggregator on a fleet's topics is told and does no lasting harm; one that is gone is told on the robot."""

import pytest

from tests.ros.fleets import Fleet, record


@pytest.mark.slow
def test_a_robot_that_a_stray_aggregator_refused_joins_the_right_one(fleet: Fleet) -> None:
    stray = fleet.aggregator(run="stray", task="bev", network="fax_tiny", network_options={})
    robot = fleet.robot("spot", source={"data": str(record(fleet.folder / "bag"))})
    robot.wait_line(r".*refused \(WRONG_TASK\): task 'depth', this run trains 'bev'", 60.0)
    right = fleet.aggregator(min_robots=1, rounds=50)
    right.wait_line(r".*another aggregator on /fleet: run stray; stop one of them", 60.0)
    stray.kill()
    right.wait_line(r".*robot spot joined with 10 samples", 60.0)
    right.wait_line(r".*round 1 begins", 60.0)
    right.kill()
    robot.wait_line(r".*no aggregator on /fleet for 10 s", 60.0)
    fleet.aggregator(min_robots=1, rounds=50)
    robot.wait_line(r".*an aggregator is on /fleet again", 60.0)  # wait_line fails the test where none comes
    refused = [line for line in robot.output if "refused (WRONG_TASK)" in line]
    assert len(refused) == 1, "told once, not at every try"
