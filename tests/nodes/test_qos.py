"""Which profiles fit each other, as REP 2003 wants it."""

import pytest
from rclpy.qos import (
    DurabilityPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
    qos_profile_sensor_data,
)

from fed_nodes import qos

#: What RViz, Foxglove and rosbag2 read with unless they are told otherwise.
RELIABLE = QoSProfile(depth=10)


def fits(publisher: QoSProfile, reader: QoSProfile) -> bool:
    # A warning only says that liveliness is left to the system on both sides.
    return bool(qos_check_compatible(publisher, reader)[0] != QoSCompatibility.ERROR)


@pytest.mark.parametrize("publisher", [qos.SENSORS, qos.DRIVERS, qos.SENSORS_RELIABLE, RELIABLE])
def test_sensors_of_every_driver_are_read(publisher: QoSProfile) -> None:
    assert fits(publisher, qos.SENSORS)


@pytest.mark.parametrize("reader", [qos.SENSORS, RELIABLE, qos_profile_sensor_data])
def test_every_reader_gets_replays_and_outputs(reader: QoSProfile) -> None:
    assert fits(qos.DRIVERS, reader) and fits(qos.OUTPUTS, reader) and fits(qos.SENSORS_RELIABLE, reader)


def test_sensors_are_read_as_the_sensor_data_profile_of_ros() -> None:
    ours, theirs = qos.SENSORS, qos_profile_sensor_data
    assert (ours.history, ours.depth, ours.reliability, ours.durability) == (
        theirs.history,
        theirs.depth,
        theirs.reliability,
        theirs.durability,
    )


def test_a_best_effort_publisher_would_not_reach_a_reliable_reader() -> None:
    assert not fits(qos.SENSORS, RELIABLE)  # why replays do not publish so


def test_what_is_latched_reaches_who_comes_late() -> None:
    for profile in (qos.LATCHED, qos.UPDATES):
        assert (profile.reliability, profile.durability) == (
            ReliabilityPolicy.RELIABLE,
            DurabilityPolicy.TRANSIENT_LOCAL,
        )
    assert fits(qos.LATCHED, qos.UPDATES)
