"""Calls services for programs that speak no ROS: requests as JSON lines on standard input, answers on standard output.

``{"id": 1, "service": "/brick/pause_training", "type": "std_srvs/srv/SetBool", "value": true}`` is answered by
``{"id": 1, "ok": true, "text": "..."}``. It ends when its input does and all is answered.
"""

import sys
from dataclasses import dataclass

from rclpy.node import Node

from fed_core.config import check, option
from fed_core.errors import DataError
from fed_nodes import params, run
from fed_nodes.diagnostics import Diagnostics
from fed_nodes.timers import steady_timer
from fed_nodes.watching.calls import Call
from fed_nodes.watching.lines import LineReader
from fed_nodes.watching.requests import answer, id_of, read_request

#: Calls that wait for their answers, fewer than a service keeps requests (10); then the next requests wait.
MAX_CALLS = 8
#: Time between two looks whether a service is there now [s].
_LOOK_S = 0.05


@dataclass(frozen=True)
class ControlConfig:
    """How services are called (``config/control.yaml``)."""

    wait_s: float = option(5.0, help="longest wait for a service and its answer", unit="s", low=0.1, high=600.0)

    def __post_init__(self) -> None:
        check(self)


class ControlNode(Node):
    """One answer per request, in the order in which they come. Parameters: ControlConfig.

    Args:
        descriptor: file descriptor of the requests.
    """

    def __init__(self, descriptor: int = 0) -> None:
        super().__init__("control")
        self._wait_s = params.load(self, ControlConfig).wait_s
        self._calls: list[Call] = []
        self._guard = self.create_guard_condition(self._work)
        self._looks = steady_timer(self, _LOOK_S, self._work)
        self._reader = LineReader(descriptor, self._guard.trigger)
        # Its timer also lets the executor see a signal that came just before a wait without end.
        self._diagnostics = Diagnostics(self, "control", lambda: ("ok", "ready", {"calls": str(len(self._calls))}))

    def destroy_node(self) -> None:
        """Stop the thread, then the node."""
        self._reader.close()
        super().destroy_node()

    def _work(self) -> None:
        """Take requests and tell answers."""
        while len(self._calls) < MAX_CALLS and (line := self._reader.take()) is not None:
            self._begin(line)
        for call in [*self._calls]:
            told = call.step()
            if told is not None:
                self._calls.remove(call)
                call.close()
                self._tell(told)
                self._guard.trigger()  # there is room for the next request
        if self._reader.ended and not self._calls:
            raise run.Finished
        if not self._calls:
            self._looks.cancel()
        elif self._looks.is_canceled():
            self._looks.reset()

    def _begin(self, line: bytes) -> None:
        try:
            self._calls.append(Call(self, read_request(line), self._wait_s, self._guard.trigger))
        except DataError as err:
            self._tell(answer(id_of(line), str(err)))

    def _tell(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def main() -> int:
    """Run the node."""
    return run.main(ControlNode)


if __name__ == "__main__":
    sys.exit(main())
