"""What is going on in a fleet, live in the terminal; on a pipe or in a log, one line per change."""

import json
import subprocess
import threading
import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_MB = 1e6


class FleetState:
    """The newest word of everybody, fed with the lines of the monitor or the statuses of a simulation."""

    def __init__(self) -> None:
        self.fleet: dict[str, Any] = {}
        self.robots: dict[str, dict[str, Any]] = {}
        self.plan: dict[str, Any] = {}
        self.plans: dict[str, dict[str, Any]] = {}
        self.masks: dict[str, dict[str, Any]] = {}
        self.selections: list[dict[str, Any]] = []

    def add(self, line: dict[str, Any]) -> None:
        """Take one line of the monitor."""
        kind = line.get("kind")
        if kind == "fleet":
            self.fleet = line
        elif kind == "robot":
            self.robots[line["id"]] = line
        elif kind == "plan":
            self.plan = line
            self.plans[line["run"]] = line
        elif kind == "mask":
            self.masks[line["id"]] = line
        elif kind == "selection":
            self.selections.append(line)

    def position(self) -> str:
        """Return a text that changes whenever anything in the fleet moves on."""
        robots = [(r["id"], r["phase"], r["round"], r["progress"], r["samples"]) for r in self.robots.values()]
        return repr((self.fleet.get("run"), self.fleet.get("phase"), self.fleet.get("round"), robots))

    def finished(self, run: str) -> bool:
        """Return whether the models of a run are final."""
        return bool(self.plans.get(run, {}).get("finished")) and self.fleet.get("run") == run


class MonitorReader:
    """Runs the monitor node and keeps a :class:`FleetState` up to date, in a thread.

    Args:
        command: the monitor's command line.
        environment: its variables.
        log: file for what it writes beside its lines.
    """

    def __init__(self, command: list[str], environment: dict[str, str], log: str) -> None:
        self.state = FleetState()
        self._log = open(log, "ab")  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(  # noqa: S603 - our own node
            command, env=environment, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True, name="monitor").start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            try:
                message = json.loads(line)
            except ValueError:
                continue
            with self.changed:
                self.state.add(message)
                self.changed.notify_all()

    def close(self) -> None:
        """End the monitor."""
        self._process.terminate()
        try:
            self._process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()


class FleetView:
    """Draws a fleet's state.

    Args:
        console: where to draw.
        state: what to draw.
    """

    def __init__(self, console: Console, state: FleetState) -> None:
        self._console, self._state = console, state
        self.stage = ""
        self._start_s = time.monotonic()
        self._last = ""
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None

    def refresh(self) -> None:
        """Draw the newest state."""
        if self._live is not None:
            self._live.update(self._draw())
            return
        line = self._line()
        if line != self._last:
            self._last = line
            self._console.print(f"[{time.monotonic() - self._start_s:5.0f} s] {line}", highlight=False, soft_wrap=True)

    def _line(self) -> str:
        fleet = self._state.fleet
        starting = [r for r in self._state.robots.values() if r["phase"] == "starting" and r["progress"]]
        if starting:
            return f"{self.stage}: {starting[-1]['id']} records its samples"
        if not fleet:
            return self.stage
        done = sum(robot["reported"] for robot in fleet["robots"])
        return (
            f"{self.stage}: {fleet['strategy']} {fleet['phase']}, round {fleet['round']}/{fleet['rounds']}, "
            f"{done}/{len(fleet['robots'])} robots reported"
        )

    def _draw(self) -> Group:
        fleet = self._state.fleet
        head = Text(f"{time.monotonic() - self._start_s:5.0f} s  {self.stage}", style="bold")
        if fleet:
            moved = (fleet["sent_bytes"] + fleet["received_bytes"]) / _MB
            head.append(
                f"   {fleet['strategy']}  {fleet['phase']}  round {fleet['round']}/{fleet['rounds']}"
                f"   {moved:.1f} MB moved",
                style="cyan",
            )
        table = Table(box=None, pad_edge=False)
        for column in ("robot", "doing", "", "loss", "samples/s", "sent MB", "shares", "clusters"):
            table.add_column(column, justify="left" if column in ("robot", "doing", "clusters") else "right")
        members = {robot["id"]: robot for robot in fleet.get("robots", [])}
        for robot_id, robot in sorted(self._state.robots.items()):
            loss, speed = robot["loss"], robot["samples_per_s"]
            clusters = members.get(robot_id, {}).get("clusters", [])
            table.add_row(
                robot_id,
                robot["phase"],
                ProgressBar(total=1.0, completed=robot["progress"] or 0.0, width=16),
                "" if loss is None else f"{loss:.2f}",
                f"{speed:.0f}" if speed else "",
                f"{robot['sent_bytes'] / _MB:.1f}",
                self._shares(robot_id),
                " ".join(map(str, clusters)),
            )
        waiting = Text(f"waiting for {fleet['waiting_for']}" if fleet.get("waiting_for") else "", style="dim")
        return Group(head, table, waiting)

    def _shares(self, robot_id: str) -> str:
        """Return how many layers a robot's last update of this run shared; "" where all are."""
        mask = self._state.masks.get(robot_id)
        if mask is None or mask["run"] != self._state.fleet.get("run"):
            return ""
        return f"{mask['shared']}/{mask['units']}"

    def __enter__(self) -> "FleetView":
        """Begin to draw."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()
