"""The checks of ``fedperc doctor``."""

from fed_cli.health import machine, ros
from fed_cli.health.report import COLOURS, FAIL, OK, WARN, Check

__all__ = ["COLOURS", "FAIL", "OK", "WARN", "Check", "run_checks"]


def run_checks() -> list[Check]:
    """Run every check; none of them raises."""
    return [
        machine.python(),
        ros.environment(),
        ros.client_library(),
        ros.middleware(),
        ros.messages(),
        ros.discovery(),
        machine.shared_memory(),
        machine.udp_buffers(),
        machine.memory(),
        machine.disk(),
        machine.gpu(),
        *ros.extras(),
    ]
