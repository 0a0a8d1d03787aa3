"""What a robot does, as few lines of its log."""

from rclpy.node import Node

from fed_core.roles.messages import RobotPhase, RobotStatus


class ProgressLog:
    """Logs what changed from one status of a robot to the next.

    Args:
        node: whose log it is.
    """

    def __init__(self, node: Node) -> None:
        self._logger = node.get_logger()
        self._run = self._line = ""

    def add(self, status: RobotStatus, run_id: str) -> None:
        """Take a status; ``run_id`` is the run that the robot is registered with, "" = none yet."""
        if run_id and run_id != self._run:
            self._logger.info(f"joined run {run_id}")
            self._run = run_id
        done = {RobotPhase.TRAINING: "training begins", RobotPhase.REPORTED: "update reported"}.get(status.phase)
        line = f"round {status.round}: {done}" if done else ""
        if line and line != self._line:
            self._logger.info(line)
        self._line = line or self._line
