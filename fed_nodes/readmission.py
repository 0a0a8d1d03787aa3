"""A service for each robot that is set aside, by which an operator takes it back."""

from collections.abc import Callable

from rclpy.node import Node
from rclpy.service import Service
from std_srvs.srv import Trigger

from fed_core.roles.messages import FleetStatus


class Readmission:
    """Serves ``<fleet_ns>/readmit/<robot>`` for as long as the robot is set aside.

    Args:
        node: owner of the services.
        fleet_ns: namespace of the fleet's topics, without a slash at its end.
        readmit: takes a robot back.
    """

    def __init__(self, node: Node, fleet_ns: str, readmit: Callable[[str], None]) -> None:
        self._node, self._fleet_ns, self._readmit = node, fleet_ns, readmit
        self._services: dict[str, Service] = {}
        self._over: list[Service] = []

    def follow(self, status: FleetStatus) -> None:
        """Serve those who are set aside now."""
        while self._over:  # not while one of them still answers
            self._node.destroy_service(self._over.pop())
        held = {robot.robot_id for robot in status.robots if robot.quarantine}
        for robot_id in held - set(self._services):
            self._services[robot_id] = self._node.create_service(
                Trigger, f"{self._fleet_ns}/readmit/{robot_id}", self._answer(robot_id)
            )
        self._over += [self._services.pop(robot_id) for robot_id in set(self._services) - held]

    def _answer(self, robot_id: str) -> Callable[[Trigger.Request, Trigger.Response], Trigger.Response]:
        def answer(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            self._readmit(robot_id)
            response.success = True
            response.message = f"{robot_id} is taken back; it trains again from the next round on"
            return response

        return answer
