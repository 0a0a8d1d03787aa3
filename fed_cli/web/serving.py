"""Runs the dashboard's server until the user stops it."""

import errno
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fed_cli.fleetrun.watching import Watch, environment_of, open_monitor, stopped_by_signals
from fed_cli.web.acting import Control, Token
from fed_core.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn

    from fed_cli.web.feeds import Feed
    from fed_cli.web.server import Acting

_BACKLOG = 128


@dataclass(frozen=True)
class Place:
    """Where browsers find the page.

    Attributes:
        host: name or address to listen on.
        port: 0 = any that is free.
        browser: open one.
    """

    host: str = "127.0.0.1"
    port: int = 8300
    browser: bool = False


def serve(run: Path | None, what: Watch, place: Place, token: Token | None, say: Callable[[str], None]) -> None:
    """Serve a folder, or the live fleet where there is none, until a signal.

    Args:
        run: folder of a run or a demo.
        what: the live fleet.
        place: where.
        token: lets others act; of a live fleet only.
        say: is given lines for people.

    Raises:
        FedError: a package is missing, the folder holds no run, the port is taken, or the monitor ended.
    """
    _check_packages()
    from fed_cli.web.feeds import FolderFeed, LiveFeed
    from fed_cli.web.server import Acting

    if run is not None and token is not None:
        token = None
        say("a folder is only looked at: the token is not used")
    with stopped_by_signals(pipe=False), ExitStack() as stack:
        feed: Feed = (
            LiveFeed(stack.enter_context(open_monitor(what, pictures=True)), what) if run is None else (FolderFeed(run))
        )
        listening = stack.enter_context(_listening(place))
        acting = None
        if token is not None:
            control = Control([sys.executable, "-m", "fed_nodes.control"], environment_of(what))
            stack.callback(control.close)
            acting = Acting(token, control)
        _run(feed, acting, place, listening, say)


def _run(
    feed: "Feed", acting: "Acting | None", place: Place, listening: socket.socket, say: Callable[[str], None]
) -> None:
    import uvicorn

    from fed_cli.web.guard import is_loopback
    from fed_cli.web.server import Dashboard

    local = is_loopback(place.host)
    dashboard = Dashboard(feed, acting, local=local, stopping=lambda: server.should_exit)
    config = uvicorn.Config(
        dashboard.app,
        loop="asyncio",
        http="h11",
        log_level="error",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    dashboard.hub.on_failure = lambda: setattr(server, "should_exit", True)
    address = _address(place.host, listening.getsockname()[1])
    say(f"dashboard: {address}")
    if acting is not None and not local:
        say(f"warning: the token travels unencrypted to {place.host}; use an SSH tunnel or a proxy with TLS")
    if place.browser:
        # A browser in the terminal ends when its user has seen enough.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with _hang_up_ends(server):
        server.run(sockets=[listening])
    if dashboard.hub.failure is not None:
        raise dashboard.hub.failure
    raise KeyboardInterrupt  # nothing else ends the server


@contextmanager
def _hang_up_ends(server: "uvicorn.Server") -> Iterator[None]:
    """Let a closed terminal be as Ctrl-C, which the server itself takes care of."""

    def stop(number: int, frame: Any) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGHUP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def _listening(place: Place) -> Iterator[socket.socket]:
    try:
        family, kind, number, _, where = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as err:  # UnicodeError: a name that no resolver takes, as "a..b"
        why = getattr(err, "strerror", None) or err
        raise ConfigError(f"--host {place.host!r} is no address of this machine: {why}") from err
    with socket.socket(family, kind, number) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(where)
            listening.listen(_BACKLOG)
        except OSError as err:
            if err.errno == errno.EADDRINUSE:
                text = f"port {place.port} of {place.host} is in use; choose another, or any: --port 0"
                raise ConfigError(text) from err
            raise ConfigError(f"cannot listen on {place.host} port {place.port}: {err.strerror}") from err
        yield listening


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _check_packages() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as err:
        raise ConfigError(
            "the dashboard needs starlette and uvicorn; install them with: pip install 'fed_perception[dashboard]'"
        ) from err
