"""Watches a fleet that somebody else started, through the monitor node."""

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from fed_cli.fleetrun.environment import running_fleets, tether
from fed_cli.fleetrun.monitor import MonitorReader
from fed_cli.fleetrun.view import FleetView
from fed_cli.health.ros import require
from fed_core.errors import ConfigError, FedError

#: Time between two pictures [s].
REFRESH_S = 0.5
_NAMESPACE = re.compile(r"(/[A-Za-z_]\w*)+/?", re.ASCII)
#: Longest start of the monitor [s].
START_S = 60.0
#: How long one picture gathers what comes about once a second: heartbeats, diagnostics, newly found selections [s].
SETTLE_S = 3.0


@dataclass(frozen=True)
class Watch:
    """What is watched.

    Attributes:
        fleet_ns: namespace of the fleet's topics.
        domain_id: ROS domain; None = that of the environment.
        wait_s: time for the first answer.
    """

    fleet_ns: str = "/fleet"
    domain_id: int | None = None
    wait_s: float = 15.0


def watch(what: Watch, *, once: bool = False, as_json: bool = False) -> None:
    """Show a fleet until the user stops it, or ``once``.

    Args:
        what: the fleet.
        once: show it one time.
        as_json: pass the monitor's lines on instead of drawing.

    Raises:
        FedError: no fleet answers in time, or the monitor ends.
    """
    with stopped_by_signals(), open_monitor(what, _print_line if as_json else None) as monitor:
        console = Console()
        _until_fleet(what, monitor)
        if once or (not as_json and not console.is_terminal):
            _wait(monitor, SETTLE_S, lambda: False)
            if not as_json:
                with monitor.changed:
                    console.print(FleetView(console, monitor.state).draw(whole=True))
            return
        if as_json:
            while True:
                _wait(monitor, REFRESH_S, lambda: False)
        _follow(console, monitor)


def _follow(console: Console, monitor: MonitorReader) -> None:
    with FleetView(console, monitor.state, screen=True) as view:
        while True:
            with monitor.changed:
                view.refresh()
            _wait(monitor, REFRESH_S, lambda: False)


def _until_fleet(what: Watch, monitor: MonitorReader) -> None:
    # The time counts from the monitor's first look at the graph: a slow machine takes a while to start it.
    _wait(monitor, START_S, lambda: monitor.state.looked)
    if _wait(monitor, what.wait_s, lambda: bool(monitor.state.fleet)):
        return
    domain = domain_of(what)
    others = [name for name in monitor.state.fleets if name != what.fleet_ns.rstrip("/")]
    reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    demos = [f"{folder} (--domain-id {number})" for number, folder in running_fleets().items() if str(number) != domain]
    hint = (
        f"fleets there: {', '.join(others)} (--fleet-ns)"
        if others
        else f"demos on this machine: {', '.join(demos)}"
        if demos
        else f"is its aggregator running? check --domain-id, --fleet-ns and the discovery range (here {reach}; "
        "ROS_AUTOMATIC_DISCOVERY_RANGE, ROS_STATIC_PEERS)"
    )
    raise FedError(f"no fleet answers on {what.fleet_ns} in ROS domain {domain} within {what.wait_s:g} s; {hint}")


def _wait(monitor: MonitorReader, seconds: float, done: Callable[[], bool]) -> bool:
    """Return whether it is done; asked after each line, or when the time is over."""
    end_s = time.monotonic() + seconds
    with monitor.changed:
        while not done():
            if monitor.ended:
                raise FedError(f"the monitor ended: {monitor.last_words()}")
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return False
            monitor.changed.wait(min(left_s, REFRESH_S))
    return True


def _print_line(line: str) -> None:
    try:
        sys.stdout.write(line)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has enough, as `head`; the signal ends the watch, nothing more is written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def domain_of(what: Watch) -> str:
    """Return the ROS domain that is watched: the one that was named, else that of the only demo on this machine."""
    if what.domain_id is not None:
        return str(what.domain_id)
    named = os.environ.get("ROS_DOMAIN_ID", "")
    demos = running_fleets()
    return named or (str(next(iter(demos))) if len(demos) == 1 else "0")


def environment_of(what: Watch) -> dict[str, str]:
    """Return the variables of a process in the fleet's ROS domain."""
    return {**os.environ, "ROS_DOMAIN_ID": domain_of(what)}


@contextmanager
def open_monitor(
    what: Watch, on_line: Callable[[str], None] | None = None, *, pictures: bool = False
) -> Iterator[MonitorReader]:
    """Give the monitor of a fleet while it is watched.

    Args:
        what: the fleet.
        on_line: is given each line of the monitor.
        pictures: it also tells small pictures of what inference publishes.

    Raises:
        ConfigError: there is no ROS 2, or the namespace is none.
    """
    require("watching a fleet")
    if not _NAMESPACE.fullmatch(what.fleet_ns):
        raise ConfigError(
            f"--fleet-ns {what.fleet_ns!r} is no ROS namespace; it has to look like /fleet or /yard/fleet"
        )
    node = [sys.executable, "-m", "fed_nodes.monitor", "--ros-args", "-p", f"fleet_ns:={what.fleet_ns}"]
    if pictures:
        node += ["-p", "pictures:=true"]
    with tempfile.TemporaryDirectory(prefix="fedperc-monitor-") as folder:
        log = str(Path(folder) / "monitor.log")
        monitor = MonitorReader([*tether(), *node], environment_of(what), log, on_line)
        try:
            yield monitor
        finally:
            monitor.close()


@contextmanager
def stopped_by_signals(*, pipe: bool = True) -> Iterator[None]:
    """Let other ends (kill, a closed SSH connection or pipe) be as Ctrl-C, so that the terminal is left clean.

    Args:
        pipe: a closed pipe ends this process quietly; not for a server, to which a closed connection is the same.
    """

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    def end_quietly(number: int, frame: Any) -> None:
        raise SystemExit(0)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    if pipe:
        before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, end_quietly)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
