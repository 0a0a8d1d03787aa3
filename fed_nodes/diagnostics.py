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
