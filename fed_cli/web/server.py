"""The dashboard's web server: the page, its state, its pictures, and acting for those who have the token."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fed_cli.web.acting import CALLABLE, Answer, Token
from fed_cli.web.feeds import Feed
from fed_cli.web.guard import Guard
from fed_cli.web.hub import MOST_VIEWERS, Hub
from fed_cli.web.snapshot import MOST_ROBOTS
from fed_cli.web.stream import StateStream
from fed_core.errors import FedError

PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Largest body of a request to act [bytes], and most that wait for their turn.
MOST_BODY, MOST_WAITING = 4096, 4


class Caller(Protocol):
    """What calls services; see :class:`fed_cli.web.acting.Control`."""

    def call(self, service: str, kind: str, value: bool | None) -> Answer:
        """Call a service and return what it said."""


@dataclass(frozen=True)
class Acting:
    """The right to act.

    Attributes:
        token: what one must know.
        caller: does it.
    """

    token: Token
    caller: Caller


class Dashboard:
    """The application.

    Args:
        feed: where states come from.
        acting: who may act and how; None = nobody, and the page has no buttons.
        local: take only requests that name this machine.
        stopping: whether the server ends.

    Attributes:
        app: for an ASGI server.
        hub: what browsers follow.
    """

    def __init__(
        self, feed: Feed, acting: Acting | None, *, local: bool, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._feed, self._acting = feed, acting
        self._files = {path.name: path for path in PAGE.iterdir() if path.suffix in _TYPES}
        self._waiting = 0
        self.hub = Hub(feed, self._more, stopping)
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/api/events", self._events),
                Route("/api/pictures/{digest}", self._picture),
                Route("/api/act", self._act, methods=["POST"]),
                Route("/{name}", self._page),
            ],
            middleware=[Middleware(Guard, local=local)],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        running = asyncio.ensure_future(self.hub.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _more(self) -> dict[str, Any]:
        return {"services": self._services() if self._acting else None}

    def _services(self) -> list[dict[str, Any]]:
        told = sorted(self._feed.services().items())
        shown = [{"name": name, "switch": CALLABLE[kind]} for name, kind in told if kind in CALLABLE]
        return shown[:MOST_ROBOTS]

    async def _page(self, request: Request) -> Response:
        path = self._files.get(request.path_params.get("name", "index.html"))
        if path is None:
            return _refusal(404, "there is no such page")
        data = await asyncio.to_thread(path.read_bytes)
        return Response(data, media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})

    async def _events(self, request: Request) -> Any:
        if self.hub.viewers >= MOST_VIEWERS:
            return _refusal(503, f"{MOST_VIEWERS} browsers look already; close one")
        return StateStream(self.hub)

    async def _picture(self, request: Request) -> Response:
        shown = self._feed.picture(request.path_params["digest"])
        if shown is None:
            return _refusal(404, "this picture is no longer there")
        kept = {"cache-control": "private, max-age=3600, immutable"}
        return Response(shown.data, media_type=shown.mime, headers=kept)

    async def _act(self, request: Request) -> Response:
        if self._acting is None or not self._acting.token.opened_by(request.headers.get("authorization", "")):
            return _refusal(401, "the token is wrong or missing", {"www-authenticate": "Bearer"})
        body = await _body(request)
        if body is None:
            return _refusal(413, f"a request has at most {MOST_BODY} bytes")
        try:
            asked = json.loads(body)
            name, value = asked["service"], asked.get("value")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return _refusal(400, 'the request has to be JSON as {"service": "/robot/pause_training", "value": true}')
        kind = self._feed.services().get(name, "") if isinstance(name, str) else ""
        if kind not in CALLABLE:
            return _refusal(404, "there is no such service in the fleet")
        if not (isinstance(value, bool) if CALLABLE[kind] else value is None):
            return _refusal(400, f"{name} takes {'true or false' if CALLABLE[kind] else 'no value'}")
        return await self._call(self._acting.caller, name, kind, value)

    async def _call(self, caller: Caller, name: str, kind: str, value: bool | None) -> Response:
        if self._waiting >= MOST_WAITING:
            return _refusal(503, "other requests wait already; try again")
        self._waiting += 1
        try:
            answer = await asyncio.to_thread(caller.call, name, kind, value)
        except FedError as err:
            return _refusal(502, str(err))
        finally:
            self._waiting -= 1
        return JSONResponse({"ok": answer.ok, "text": answer.text})


async def _body(request: Request) -> bytes | None:
    """Return the body; None where it is too long, of which no more is read."""
    found = b""
    try:
        async for part in request.stream():
            found += part
            if len(found) > MOST_BODY:
                return None
    except ClientDisconnect:
        return b""
    return found


def _refusal(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"ok": False, "text": text}, status, headers)
