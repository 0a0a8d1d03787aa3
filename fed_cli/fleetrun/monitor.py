"""Runs the monitor node as a process and follows its lines."""

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fed_cli.fleetrun.state import FleetState


class MonitorReader:
    """Runs the monitor node and keeps a :class:`FleetState` up to date, in a thread.

    Args:
        command: the monitor's command line.
        environment: its variables.
        log: file for what it writes beside its lines.
        on_line: is given each line as it was written, in the thread.

    Attributes:
        state: what it said.
        changed: is notified after each line, and when the monitor has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: str,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.state = FleetState()
        self.changed = threading.Condition()
        self._path, self._on_line = Path(log), on_line
        self._log = open(log, "ab")  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(  # noqa: S603 - our own node
            command, env=environment, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True, name="monitor")
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether the monitor runs no more."""
        return self._process.poll() is not None

    def last_words(self) -> str:
        """Return the last line of its log that is no more than the rest of another."""
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line.strip() for line in lines if line.strip() and not line[0].isspace()]
        return told[-1].removeprefix("error: ") if told else "it wrote nothing"

    def _read(self) -> None:
        for line in self._process.stdout or ():
            try:
                message = json.loads(line)
            except ValueError:
                continue
            with self.changed:
                self.state.add(message)
                self.changed.notify_all()
            if self._on_line is not None:
                self._on_line(line)
        with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        """End the monitor."""
        self._process.terminate()
        try:
            self._process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(timeout=5)
        self._log.close()
