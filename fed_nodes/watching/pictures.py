"""Follows what inference nodes publish and tells small pictures of it, few enough to cost next to nothing."""

import base64
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.serialization import deserialize_message

from fed_core.errors import DataError, FedError
from fed_nodes import qos
from fed_nodes.diagnostics import News
from fed_nodes.watching.drawing import DRAWINGS, Drawing, encode

#: Time between two pictures of a source [s].
PERIOD_S = 2.0
#: Most inference nodes that are followed, and most bytes of a message that is read.
MAX_SOURCES, MAX_BYTES = 16, 64 * 2**20
#: A message that cannot be drawn is told of again after this long [s].
_QUIET_S = 60.0


class Turns(CallbackGroup):
    """Lets a subscription's newest message through once in a while; the others are overwritten before they are read.

    Whoever uses it needs a timer on the same executor: that one's next step finds that it is time again.

    Args:
        period_s: time from the end of one message to the next [s].
        clock: seconds that only grow.
    """

    def __init__(self, period_s: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._period_s, self._clock = period_s, clock
        self._due_s = float("-inf")

    def can_execute(self, entity: Any) -> bool:
        """Return whether it is time; until then the executor does not even look for messages."""
        return self._clock() >= self._due_s

    def beginning_execution(self, entity: Any) -> bool:
        """Take a message."""
        self._due_s = float("inf")
        return True

    def ending_execution(self, entity: Any) -> None:
        """Wait from now on: what takes long comes less often."""
        self._due_s = self._clock() + self._period_s


class Pictures:
    """Tells a picture of each inference node's newest output, at most one in :data:`PERIOD_S`.

    Args:
        node: owner of the subscriptions.
        tell: takes ``{"kind": "picture", ...}``.
        clock: seconds that only grow.
    """

    def __init__(
        self, node: Node, tell: Callable[[dict[str, Any]], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._node, self._tell, self._clock = node, tell, clock
        self._followed: dict[str, tuple[Drawing, Any]] = {}
        self._news = News(_QUIET_S)

    @property
    def sources(self) -> tuple[str, ...]:
        """Namespaces of the inference nodes that are followed now."""
        return tuple(self._followed)

    def look(self, sources: Iterable[str], topics: Mapping[str, Sequence[str]]) -> None:
        """Follow what is published now, and nothing that is gone.

        Args:
            sources: namespaces of inference nodes, "/" for the root; the first ones are followed.
            topics: types of each topic in the graph.
        """
        wanted: dict[str, Drawing] = {}
        for source in sources:
            drawing = self._published(source, topics) if len(wanted) < MAX_SOURCES else None
            if drawing is not None:
                wanted[source] = drawing
        for source, (drawing, subscription) in [*self._followed.items()]:
            if wanted.get(source) is not drawing:
                self._node.destroy_subscription(subscription)
                del self._followed[source]
        for source, drawing in wanted.items():
            if source not in self._followed:
                self._followed[source] = (drawing, self._follow(source, drawing))

    def _published(self, source: str, topics: Mapping[str, Sequence[str]]) -> Drawing | None:
        for drawing in DRAWINGS:
            topic = _topic(source, drawing)
            if drawing.form in topics.get(topic, ()) and self._node.count_publishers(topic):
                return drawing
        return None

    def _follow(self, source: str, drawing: Drawing) -> Any:
        return self._node.create_subscription(
            drawing.message,
            _topic(source, drawing),
            partial(self._on_message, source, drawing),
            qos.NEWEST,
            callback_group=Turns(PERIOD_S, self._clock),
            raw=True,
        )

    def _on_message(self, source: str, drawing: Drawing, data: bytes) -> None:
        try:
            picture = _picture(drawing, data)
        except FedError as err:
            text = f"no picture of {_topic(source, drawing)}: {err}"
            if self._news.has(text, self._clock()):
                self._node.get_logger().warning(text)
            return
        self._tell({"kind": "picture", "source": source, "what": drawing.what, **picture})


def _topic(source: str, drawing: Drawing) -> str:
    return f"{source.rstrip('/')}/{drawing.end}"


def _picture(drawing: Drawing, data: bytes) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise DataError(f"a message of {len(data) / 1e6:.0f} MB; at most {MAX_BYTES / 1e6:.0f} MB are read")
    msg: Any = deserialize_message(data, drawing.message)
    picture = drawing.draw(msg)
    height, width = picture.shape[:2]
    return {
        "image": base64.b64encode(encode(picture, drawing.suffix)).decode("ascii"),
        "mime": drawing.mime,
        "width": width,
        "height": height,
        "stamp_s": max(0, drawing.time_ns(msg)) / 1e9,
    }
