"""Lines from a pipe, read in a thread that a node can end beside."""

import os
import select
import threading
from collections import deque
from collections.abc import Callable

#: Longest line; of a longer one only the start is given on.
MAX_LINE = 65_536
#: Lines that wait to be taken; then the writer waits.
MAX_WAITING = 64
#: How long the end waits for the thread.
_STOP_S = 2.0


class LineReader:
    """Reads lines in a thread until the other side closes, or this one.

    The descriptor is read without Python's buffer: its lock would stop an interpreter that ends while a read waits.

    Args:
        descriptor: file descriptor to read.
        wake: called in the thread when there is something to take.
    """

    def __init__(self, descriptor: int, wake: Callable[[], None]) -> None:
        self._descriptor, self._wake = descriptor, wake
        self._lines: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._over = self._closed = False
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._read, name="lines", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether all lines are taken and no more will come."""
        with self._changed:
            return self._over and not self._lines

    def take(self) -> bytes | None:
        """Return the next line; None where none waits."""
        with self._changed:
            self._changed.notify_all()
            return self._lines.popleft() if self._lines else None

    def close(self) -> None:
        """End the thread: what it holds of a node must be gone before the process ends."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        os.write(self._stop_write, b"x")
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():  # else an interrupt broke off whoever held the lock; the process ends anyhow
            os.close(self._stop_read)
            os.close(self._stop_write)

    def _read(self) -> None:
        rest = b""
        while data := self._next():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._put(line)
            rest = rest[: MAX_LINE + 1]
        self._put(rest)
        with self._changed:
            self._over = True
            if not self._closed:
                self._wake()

    def _next(self) -> bytes:
        """Return what can be read; nothing at the end of the input, or of the reader."""
        poll = select.poll()
        for descriptor in (self._descriptor, self._stop_read):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        try:
            return b"" if self._stop_read in ready else os.read(self._descriptor, MAX_LINE)
        except OSError:  # there is no such input
            return b""

    def _put(self, line: bytes) -> None:
        if not line.strip():
            return
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._lines) < MAX_WAITING)
            if not self._closed:
                self._lines.append(line[: MAX_LINE + 1])
                self._wake()
