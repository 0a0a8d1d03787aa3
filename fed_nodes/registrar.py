"""How a robot asks the aggregator to be taken into its run."""

from collections.abc import Callable
from typing import Any

from fed_msgs.srv import RegisterRobot
from rclpy.node import Node

from fed_core.errors import Refusal
from fed_core.roles.events import Register
from fed_core.roles.messages import RegistrationReply
from fed_nodes.convert import fleet as convert


class Registrar:
    """Client of the service ``register``.

    Args:
        node: owner of the client.
        fleet: namespace of the fleet's topics.
        post: takes each reply.

    Attributes:
        read_service: blob service of the aggregator for this robot, "" = none yet.
    """

    def __init__(self, node: Node, fleet: str, post: Callable[[RegistrationReply], None]) -> None:
        self._logger, self._post = node.get_logger(), post
        self._client: Any = node.create_client(RegisterRobot, f"{fleet}/register")
        self.read_service = ""

    def ask(self, effect: Register) -> None:
        """Send a registration, if anybody takes it."""
        if not self._client.service_is_ready():
            self._logger.info(f"waiting for an aggregator on {self._client.srv_name}", throttle_duration_sec=10.0)
            return
        future = self._client.call_async(convert.registration_to_request(effect.registration))
        future.add_done_callback(self._on_reply)

    def _on_reply(self, future: Any) -> None:
        response = future.result()
        if response is None:
            return
        if response.code == 0:
            self.read_service = response.read_service
        self._post(RegistrationReply(Refusal(response.code), response.text, response.run_id, response.descriptor))
