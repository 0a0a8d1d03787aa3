"""Turns a feed into one text for all browsers: made when something changed and somebody looks, never queued."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from fed_cli.web.feeds import Feed
from fed_core.errors import FedError

#: Least time between two states [s].
TICK_S = 0.5
#: Making a state takes at most this share of the time, so that a huge fleet leaves room for others.
_SHARE = 0.2
#: Most browsers at once.
MOST_VIEWERS = 64


class Hub:
    """The newest state as text, and who waits for the next.

    Args:
        feed: where states come from.
        more: parts of each state that the feed does not know.
        stopping: whether the server ends; then all who wait are let go.

    Attributes:
        number: of the newest state; 0 = there is none yet.
        failure: why nothing will ever come again.
        on_failure: is called then.
        viewers: browsers that look.
        ended: whether :meth:`run` is over.
    """

    def __init__(self, feed: Feed, more: Callable[[], dict[str, Any]], stopping: Callable[[], bool]) -> None:
        self._feed, self._more, self._stopping = feed, more, stopping
        self._changed = asyncio.Condition()
        self._text, self.number = "", 0
        self._version: object = None
        self._free_s = 0.0
        self.failure: FedError | None = None
        self.on_failure: Callable[[], object] = lambda: None
        self.viewers = 0
        self.ended = False

    async def run(self) -> None:
        """Make states until the server ends or the feed fails."""
        try:
            while not self._stopping():
                self._feed.check()
                if self.viewers and time.monotonic() >= self._free_s:
                    await self.refresh()
                await asyncio.sleep(TICK_S)
        except Exception as err:  # whatever it is, a page that stands still without a word is worse
            text = f"the state of the page cannot be made: {err!r}"
            self.failure = err if isinstance(err, FedError) else FedError(text)
            self.on_failure()
        finally:
            self.ended = True
            async with self._changed:
                self._changed.notify_all()

    async def refresh(self) -> None:
        """Make a new state if the feed changed."""
        start_s = time.monotonic()
        version = await asyncio.to_thread(self._feed.version)
        if version == self._version:
            return
        text = await asyncio.to_thread(self._make)
        end_s = time.monotonic()
        self._free_s = end_s + (end_s - start_s) / _SHARE
        self._version = version
        async with self._changed:
            self._text, self.number = text, self.number + 1
            self._changed.notify_all()

    def _make(self) -> str:
        tree = {**self._feed.tree(), **self._more(), "now_s": time.time()}
        return json.dumps(tree, allow_nan=False, separators=(",", ":"))

    def come(self) -> int:
        """Count one more viewer; returns the number of the state that it need not see, 0 = of none.

        Who comes first must not see what was made for others long ago.
        """
        self.viewers += 1
        if self.viewers > 1:
            return 0
        self._version = None
        return self.number

    def go(self) -> None:
        """Count one viewer less."""
        self.viewers -= 1

    async def after(self, number: int) -> tuple[int, str]:
        """Return the newest state and its number as soon as that is above ``number``; (number, "") at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.number > number or self.ended)
            return (number, "") if self.ended else (self.number, self._text)
