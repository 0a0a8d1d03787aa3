"""One call of a service, from the wait for whoever serves it to the answer."""

import time
from collections.abc import Callable
from typing import Any

from rclpy._rclpy_pybind11 import RCLError
from rclpy.node import Node

from fed_core.errors import DataError
from fed_nodes.watching.requests import TYPES, Request, answer

#: Most characters of what a service answers.
_MAX_TEXT = 1_000


class Call:
    """Calls a service as soon as somebody serves it.

    Args:
        node: owner of the client.
        request: what is asked.
        wait_s: longest time for all of it [s].
        wake: called when there is an answer.

    Raises:
        DataError: the process has the service with another type.
    """

    def __init__(self, node: Node, request: Request, wait_s: float, wake: Callable[[], None]) -> None:
        self._node, self._request, self._wait_s, self._wake = node, request, wait_s, wake
        self._end_s = time.monotonic() + wait_s
        try:
            self._client: Any = node.create_client(TYPES[request.type], request.service)
        except RCLError as err:  # this process has it with another type
            raise DataError(f"{request.service} is no {request.type}: it is in use here with another type") from err
        self._future: Any = None

    def step(self) -> str | None:
        """Go on as far as it goes without a wait; returns the line of the answer, None while there is none."""
        request = self._request
        if self._future is None and self._client.service_is_ready():
            self._future = self._client.call_async(request.message())
            self._future.add_done_callback(lambda _: self._wake())
        if self._future is not None and self._future.done():
            said = self._future.result()
            return answer(request.id, said.message[:_MAX_TEXT], ok=bool(said.success))
        if time.monotonic() < self._end_s:
            return None
        if self._future is None:
            why = f"nobody serves {request.service} ({request.type}) within {self._wait_s:g} s; does its node run?"
        else:
            why = f"{request.service} gave no answer within {self._wait_s:g} s; it may act on the request later"
        return answer(request.id, why)

    def close(self) -> None:
        """Forget the client, so that it does not keep the name of the service in the graph."""
        self._node.destroy_client(self._client)
