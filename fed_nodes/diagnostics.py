"""``/diagnostics`` of a node, once a second."""

from collections.abc import Callable, Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from fed_nodes import qos
from fed_nodes.timers import steady_timer

_LEVELS = {
    "ok": DiagnosticStatus.OK,
    "warn": DiagnosticStatus.WARN,
    "error": DiagnosticStatus.ERROR,
}


class Diagnostics:
    """Publishes one status per second.

    Args:
        node: node it speaks for.
        hardware_id: robot or run.
        health: returns level ("ok", "warn", "error"), a line for people, and further values.
    """

    def __init__(self, node: Node, hardware_id: str, health: Callable[[], tuple[str, str, Mapping[str, str]]]) -> None:
        self._node, self._hardware_id, self._health = node, hardware_id, health
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", qos.DIAGNOSTICS)
        steady_timer(node, 1.0, self._publish)

    def _publish(self) -> None:
        level, text, values = self._health()
        status = DiagnosticStatus(
            level=_LEVELS[level],
            name=f"{self._node.get_fully_qualified_name()}: state",
            message=text,
            hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        msg = DiagnosticArray(status=[status])
        msg.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(msg)


class News:
    """Keeps a log readable: the same text is told again only after a while.

    Args:
        quiet_s: time before a text is told again.
        most: texts that are remembered; a sender that invents new ones must not fill the memory.
    """

    def __init__(self, quiet_s: float = 5.0, most: int = 64) -> None:
        self._quiet_s, self._most = quiet_s, most
        self._told: dict[str, float] = {}

    def has(self, text: str, now_s: float) -> bool:
        """Return whether a text is to be told at monotonic time ``now_s``, and remember it."""
        last_s = self._told.pop(text, float("-inf"))
        due = now_s - last_s >= self._quiet_s
        self._told[text] = now_s if due else last_s
        while len(self._told) > self._most:
            del self._told[next(iter(self._told))]
        return due


class LastWarning:
    """Logs what people should read, and keeps the last of it for diagnostics.

    Args:
        node: whose log it is.
    """

    def __init__(self, node: Node) -> None:
        self._logger, self._text = node.get_logger(), ""

    def tell(self, text: str) -> None:
        """Log a text; from any thread."""
        self._text = text
        self._logger.warning(text)

    def values(self) -> dict[str, str]:
        """Return the last one, for the values of a status."""
        return {"last_warning": self._text} if self._text else {}
