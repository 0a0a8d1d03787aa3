"""Lines from a pipe, read in a thread that a node can end beside."""

import contextlib
import os
import queue
import threading
from collections.abc import Callable

from rclpy._rclpy_pybind11 import InvalidHandle

#: Longest line; of a longer one only the start is given on.
MAX_LINE = 65_536
#: Lines that wait to be taken; then the writer waits.
MAX_WAITING = 64


class LineReader:
    """Reads lines in a thread until the other side closes.

    The descriptor is read without Python's buffer: its lock would stop an interpreter that ends while a read waits.

    Args:
        descriptor: file descriptor to read.
        wake: called in the thread when there is something to take.
    """

    def __init__(self, descriptor: int, wake: Callable[[], None]) -> None:
        self._descriptor, self._wake = descriptor, wake
        self._lines: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self.ended = False
        threading.Thread(target=self._read, name="lines", daemon=True).start()

    def take(self) -> bytes | None:
        """Return the next line; None where none waits, :attr:`ended` tells whether one may come."""
        if self.ended:
            return None
        try:
            line = self._lines.get_nowait()
        except queue.Empty:
            return None
        self.ended = line is None
        return line

    def _read(self) -> None:
        rest = b""
        with contextlib.suppress(InvalidHandle):  # the node is gone
            while data := self._next():
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._put(line)
                rest = rest[: MAX_LINE + 1]
            if rest:
                self._put(rest)
            self._lines.put(None)
            self._wake()

    def _next(self) -> bytes:
        try:
            return os.read(self._descriptor, MAX_LINE)
        except OSError:  # it was closed on this side, or there is none
            return b""

    def _put(self, line: bytes) -> None:
        if line.strip():
            self._lines.put(line[: MAX_LINE + 1])
            self._wake()
