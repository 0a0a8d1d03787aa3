"""What nodes say of themselves, and how often."""

from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node

from fed_nodes import qos
from fed_nodes.diagnostics import Diagnostics, LastWarning, News


def test_a_text_is_told_again_only_after_a_while() -> None:
    news = News(quiet_s=10.0)
    told = [time_s for time_s in (0.0, 1.0, 9.9, 10.0, 19.9, 20.0) if news.has("refused", time_s)]
    assert told == [0.0, 10.0, 20.0]
    assert news.has("another", 20.0)


def test_texts_that_never_repeat_do_not_fill_the_memory() -> None:
    news = News(quiet_s=10.0, most=3)
    assert all(news.has(f"text {number}", 0.0) for number in range(10))
    assert len(news._told) == 3
    assert not news.has("text 9", 1.0) and news.has("text 0", 1.0)


def test_a_status_has_name_hardware_level_and_values(
    make_node: Callable[..., Node], spin: Callable[[Node], None]
) -> None:
    node, got = make_node(), list[DiagnosticArray]()
    node.create_subscription(DiagnosticArray, "/diagnostics", got.append, qos.DIAGNOSTICS)
    diagnostics = Diagnostics(node, "spot1", lambda: ("warn", "camera is silent", {"camera rate_hz": "0.0"}))
    for _ in range(50):
        if node.count_publishers("/diagnostics") and node.count_subscribers("/diagnostics"):
            break
        spin(node)
    diagnostics._publish()
    for _ in range(50):
        if got:
            break
        spin(node)
    (status,) = got[0].status
    assert (status.name, status.hardware_id) == ("/tested: state", "spot1")
    assert (status.level, status.message) == (DiagnosticStatus.WARN, "camera is silent")
    assert [(value.key, value.value) for value in status.values] == [("camera rate_hz", "0.0")]
    assert got[0].header.stamp.sec > 0


def test_the_last_warning_stands_in_the_values(make_node: Callable[..., Node]) -> None:
    warning = LastWarning(make_node())
    assert warning.values() == {}
    warning.tell("batch halved to 2")
    assert warning.values() == {"last_warning": "batch halved to 2"}
