"""What is going on in a fleet, live in the terminal; on a pipe or in a log, one line per change."""

import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live

from fed_cli.fleetrun.drawing import Canvas, draw_fleet
from fed_cli.fleetrun.marks import marks_for
from fed_cli.fleetrun.state import FleetState


class FleetView:
    """Draws a fleet's state.

    Args:
        console: where to draw.
        state: what to draw.
        screen: draw on a screen of its own, which vanishes at the end; only on terminals.
    """

    def __init__(self, console: Console, state: FleetState, *, screen: bool = False) -> None:
        self._console, self._state = console, state
        self.stage = ""
        self._start_s = time.monotonic()
        self._last = ""
        live = Live(console=console, auto_refresh=False, transient=not screen, screen=screen)
        self._live = live if console.is_terminal else None

    def refresh(self) -> None:
        """Draw the newest state."""
        if self._live is not None:
            self._live.update(self.draw(), refresh=True)
            return
        line = self._line()
        if line != self._last:
            self._last = line
            self._console.print(f"[{self._seconds():5.0f} s] {line}", markup=False, highlight=False, soft_wrap=True)

    def draw(self, *, whole: bool = False) -> Group:
        """Return the picture for the console's present size, ``whole`` however many lines that takes."""
        width, height = self._console.size
        canvas = Canvas(width, 0 if whole else height - 1, marks_for(self._console.encoding))
        return draw_fleet(self._state, canvas, f"{self._seconds():.0f} s  {self.stage}" if self.stage else "")

    def _seconds(self) -> float:
        return time.monotonic() - self._start_s

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

    def __enter__(self) -> "FleetView":
        """Begin to draw."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()
