"""Server-sent events: the newest state to one browser, as fast as that takes it and no faster."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.types import Message, Receive, Scope, Send

from fed_cli.web.hub import Hub

#: Longest without a word [s]; a browser that hears nothing for much longer knows that the connection is lost.
BEAT_S = 2.0
#: A browser that takes nothing for so long is let go [s].
STALL_S = 60.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy in between must not collect them
]


class StateStream:
    """ASGI answer that follows a hub until the browser goes, stalls, or the server ends.

    Nothing waits in it: while a browser takes one state, others pass, and it gets the newest next.

    Args:
        hub: what it follows.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        gone = asyncio.ensure_future(_gone(receive))
        said = asyncio.ensure_future(self._say(send, gone))
        try:
            await asyncio.wait({gone, said}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, said):
                task.cancel()
            await asyncio.gather(gone, said, return_exceptions=True)

    async def _say(self, send: Send, gone: "asyncio.Future[None]") -> None:
        with suppress(asyncio.TimeoutError):
            await _within(send, {"type": "http.response.start", "status": 200, "headers": _HEADERS})
            async with aclosing(self._texts()) as texts:
                async for text in texts:
                    if gone.done():  # a state that comes together with the end lets wait_for forget the end
                        return
                    await _within(send, {"type": "http.response.body", "body": text.encode(), "more_body": True})
            await _within(send, {"type": "http.response.body", "body": b""})

    async def _texts(self) -> AsyncGenerator[str, None]:
        number = self._hub.come()
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    number, text = await asyncio.wait_for(self._hub.after(number), BEAT_S)
                except asyncio.TimeoutError:
                    yield "event: beat\ndata: {}\n\n"
                    continue
                if not text:
                    return
                yield f"event: state\ndata: {text}\n\n"
        finally:
            self._hub.go()


async def _within(send: Send, message: Message) -> None:
    await asyncio.wait_for(send(message), STALL_S)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
