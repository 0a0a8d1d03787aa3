"""Asks the aggregator to let an onlooker read the fleet's models."""

from collections.abc import Callable
from typing import Any

from fed_msgs.srv import RegisterRobot
from rclpy.node import Node

import fed_core
from fed_core.roles.messages import Registration
from fed_core.types import PROTOCOL_VERSION
from fed_nodes.convert import fleet as convert


class ReadAccess:
    """Registers as an observer; :attr:`service` is the blob service that the aggregator gave, "" before that.

    Args:
        node: node that reads.
        fleet: namespace of the fleet's topics, without a slash at the end.
        reader_id: name under which models are read; unique in the fleet.
        on_ready: called once, when :attr:`service` is known.
    """

    def __init__(self, node: Node, fleet: str, reader_id: str, on_ready: Callable[[], None]) -> None:
        self._node, self._reader_id, self._on_ready = node, reader_id, on_ready
        self._client: Any = node.create_client(RegisterRobot, f"{fleet}/register")
        self.service = ""

    def ask(self) -> None:
        """Ask, unless the answer is there; call it again now and then, requests may get lost."""
        if self.service:
            return
        if not self._client.service_is_ready():
            self._node.get_logger().info(
                f"waiting for an aggregator on {self._client.srv_name}", throttle_duration_sec=10.0
            )
            return
        registration = Registration(
            robot_id=self._reader_id,
            instance="",
            observer=True,
            protocol=PROTOCOL_VERSION,
            software=fed_core.__version__,
            task="",
            architecture="",
            model_digest="",
            num_samples=0,
        )
        self._client.call_async(convert.registration_to_request(registration)).add_done_callback(self._on_answer)

    def close(self) -> None:
        """Stop asking."""
        self._node.destroy_client(self._client)

    def _on_answer(self, future: Any) -> None:
        response = future.result()
        if response is None or self.service:
            return
        if response.code != 0:
            self._node.get_logger().error(f"the aggregator refused: {response.text}", throttle_duration_sec=10.0)
            return
        self.service = response.read_service
        self._on_ready()
