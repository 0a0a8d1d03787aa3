"""What stands before every answer: which Host headers are taken, and the headers that keep the page to itself."""

import ipaddress
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK_NAMES = {"localhost"}
#: Nothing but files of this server runs or is shown; nobody frames the page, and no address leaks to others.
_HEADERS = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host: "localhost" or a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK_NAMES


def host_of(header: str) -> str:
    """Return the host of a Host header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


class Guard:
    """ASGI middleware.

    Args:
        app: what answers.
        local: take only requests that name this machine as their host. A page elsewhere whose name was made to point
            here (DNS rebinding) is refused by that.
    """

    def __init__(self, app: ASGIApp, *, local: bool) -> None:
        self._app, self._local = app, local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message)
            await send(message)

        host = host_of(Headers(scope=scope).get("host", ""))
        app: ASGIApp = self._app
        if self._local and not is_loopback(host):
            app = PlainTextResponse("this dashboard answers on localhost only\n", 421)
        await app(scope, receive, sending)


def _add_headers(message: MutableMapping[str, Any]) -> None:
    told = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in _HEADERS]
    message["headers"] = [*told, *_HEADERS.items()]
