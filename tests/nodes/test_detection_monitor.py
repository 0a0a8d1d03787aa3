"""What the monitor tells of the masks of detectors."""

import numpy as np
from fed_msgs.msg import RobotStatus

from fed_core.roles.messages import UpdateReport
from fed_core.types import BlobRef
from fed_nodes.convert import fleet as convert
from fed_nodes.monitor import _mask, _robot


def test_the_monitor_counts_the_layers_that_a_robot_shares() -> None:
    mask = np.array([True] * 7 + [False] * 4)
    report = UpdateReport(
        "car", "i", "run", 3, "c", 5, 1.0, 1.0, {"weights": BlobRef("0" * 64, 1)}, mask=mask, model_digest="d" * 64
    )
    msg = convert.report_to_msg(report).mask
    assert msg.model_digest == "d" * 64
    assert _mask(msg) == {"kind": "mask", "id": "car", "run": "run", "round": 3, "units": 11, "shared": 7}


def test_a_phase_that_nobody_knows_does_not_end_the_monitor() -> None:
    assert [_robot(RobotStatus(robot_id="x", phase=phase))["phase"] for phase in (RobotStatus.TRAINING, 200)] == [
        "training",
        "unknown",
    ]
