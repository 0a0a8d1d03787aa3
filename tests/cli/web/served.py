"""The dashboard's server in a thread of the test's own process, as browsers meet it."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fed_cli.web.feeds import Feed

uvicorn = pytest.importorskip("uvicorn", reason="the extra dashboard is not installed")

from fed_cli.web.server import Acting, Dashboard  # noqa: E402

#: Longest wait for anything that a server does [s].
WAIT_S = 20.0


class Served:
    """A server that runs.

    Attributes:
        dashboard: the application.
        port: where it listens.
    """

    def __init__(self, feed: Feed, acting: Acting | None = None, port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.dashboard = Dashboard(feed, acting, local=True, stopping=lambda: self._server.should_exit)
        config = uvicorn.Config(self.dashboard.app, log_level="error", ws="none", timeout_graceful_shutdown=3)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        self._socket.close()


@contextmanager
def served(feed: Feed, acting: Acting | None = None, port: int = 0) -> Iterator[Served]:
    made = Served(feed, acting, port)
    try:
        yield made
    finally:
        made.close()


class Viewer:
    """A browser that follows the events, as plain bytes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._socket.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        self._file = self._socket.makefile("rb")

    def head(self) -> str:
        """Return status line and headers."""
        lines = []
        while (line := self._file.readline()) not in (b"\r\n", b""):
            lines.append(line.decode().strip())
        return "\n".join(lines)

    def event(self) -> tuple[str, Any]:
        """Return name and data of the next event; ("", None) at the end."""
        name = ""
        while line := self._file.readline():
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                return name, json.loads(line[6:])
        return "", None

    def state(self) -> dict[str, Any]:
        """Return the next state."""
        while True:
            name, data = self.event()
            assert name, "the connection ended"
            if name == "state":
                return dict(data)

    def close(self) -> None:
        self._file.close()
        self._socket.close()
