"""Drives a role from a ROS node: events from any thread in, effects out, one at a time on the executor's thread."""

import queue
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.node import Node

from fed_core.errors import FedError, Refusal, WireError
from fed_core.roles import events as ev
from fed_core.types import BlobRef
from fed_nodes.blobs import BlobChannel
from fed_nodes.diagnostics import News


class Role(Protocol):
    """Any role of ``fed_core.roles``."""

    def handle(self, event: ev.Event, now_s: float) -> list[ev.Effect]:
        """Return the effects of an event."""


class Mailbox:
    """Hands things from any thread to the executor's thread.

    Args:
        node: node whose executor calls ``use``.
        use: receives them, in order.
    """

    def __init__(self, node: Node, use: Callable[[Any], None]) -> None:
        self._node, self._use = node, use
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._open = True
        self._guard = node.create_guard_condition(self._drain)

    def post(self, thing: Any) -> None:
        """Hand something over; after :meth:`close`, or once ROS was shut down, it is thrown away."""
        self._waiting.put(thing)
        if self._open and self._node.context.ok():
            try:
                self._guard.trigger()
            except (InvalidHandle, RCLError):
                self._open = False  # shut down between the two lines

    def close(self) -> None:
        """Take nothing any more."""
        if self._open:
            self._open = False
            self._node.destroy_guard_condition(self._guard)

    def _drain(self) -> None:
        while self._open:
            try:
                thing = self._waiting.get_nowait()
            except queue.Empty:
                return
            self._use(thing)


class RoleHost:
    """Feeds a role and carries out its effects.

    Args:
        node: node whose executor runs the effects.
        role: the state machine.
        carriers: what to do for each type of effect; a carrier may return an event, which is fed at once.
    """

    def __init__(self, node: Node, role: Role, carriers: Mapping[type, Callable[[Any], Any]]) -> None:
        self._node, self._role = node, role
        self._carriers = {ev.Log: self._log, **carriers}
        self._inbox = Mailbox(node, self.feed)
        self._news = News()

    def post(self, event: ev.Event) -> None:
        """Hand an event over from any thread."""
        self._inbox.post(event)

    def close(self) -> None:
        """Take no more events from other threads."""
        self._inbox.close()

    def feed(self, event: ev.Event) -> None:
        """Handle an event now, on the executor's thread, with all that follows from it."""
        waiting = [event]
        while waiting:
            for effect in self._role.handle(waiting.pop(0), time.monotonic()):
                answer = self._carriers[type(effect)](effect)
                if answer is not None:
                    waiting.append(answer)

    def _log(self, effect: Any) -> None:
        if not self._news.has(effect.text, time.monotonic()):
            return
        logger = self._node.get_logger()
        # rclpy keeps the severity of each place in the code that logs, and raises where it changes: one line for each.
        if effect.level == "error":
            logger.error(effect.text)
        elif effect.level == "warning":
            logger.warning(effect.text)
        else:
            logger.info(effect.text)


def guarded(node: Node, convert: Callable[[Any], Any], use: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a subscription callback that converts a message and drops one that cannot be converted.

    One broken sender must not stop the fleet: the error is logged (at most once a second) and the message dropped.
    """

    def callback(msg: Any) -> None:
        try:
            converted = convert(msg)
        except (FedError, ValueError) as err:
            node.get_logger().warning(f"dropped a message: {err}", throttle_duration_sec=1.0)
            return
        use(converted)

    return callback


def fetch_for(channel: BlobChannel, host: RoleHost, blob: BlobRef, service: str) -> None:
    """Read a blob and tell the role whether it came."""

    def failed(ref: BlobRef, err: FedError) -> None:
        code, lost = (err.code, err.lost) if isinstance(err, WireError) else (Refusal.BROKEN_BLOB, True)
        host.post(ev.BlobFailed(ref.digest, code, str(err), lost))

    channel.fetch(blob, service, on_done=lambda ref: host.post(ev.BlobReady(ref.digest)), on_error=failed)
