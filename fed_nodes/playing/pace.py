"""When the next piece of a replay is due: at a fixed rate, or as it was recorded. Knows no ROS and reads no clock."""

#: A longer pause [s] is one between recordings; nobody waits for it.
LONGEST_PAUSE_S = 60.0
#: Who is later than this [s] does not catch up, but goes on from now.
_LATEST_S = 1.0
#: Between the end of a recording and its beginning [s]; one of a single message would loop without end else.
_AGAIN_S = 0.1


class Pace:
    """Says how long to wait; frames are due one after the other, each counted from when the one before was due.

    Args:
        rate_hz: frames per second; counts where ``speed`` is 0.
        speed: times the recorded speed; 0 = a fixed rate.
        longest_pause_s: longer recorded pauses are left out.
    """

    def __init__(self, rate_hz: float, speed: float, longest_pause_s: float = LONGEST_PAUSE_S) -> None:
        self._rate_hz, self._speed, self._longest_pause_s = rate_hz, speed, longest_pause_s
        self._last: tuple[float, int] | None = None  # when it was due, its recorded time
        self._first_s = 0.0  # no frame before it

    def change(self, rate_hz: float, speed: float) -> None:
        """Go on at another speed; what is due next counts from the last frame, as before."""
        self._rate_hz, self._speed = rate_hz, speed

    def restart(self) -> None:
        """Forget the last frame: the next one is due at once (after a stop, and at the beginning)."""
        self._last, self._first_s = None, 0.0

    def loop(self, now_s: float) -> None:
        """Take note that the recording begins anew."""
        if self._speed:
            self._last, self._first_s = None, now_s + _AGAIN_S

    def wait_s(self, recorded_ns: int, now_s: float) -> float:
        """Return the seconds until a frame of the time ``recorded_ns`` is due; 0 = now."""
        return max(0.0, self._due_s(recorded_ns, now_s) - now_s)

    def played(self, recorded_ns: int, now_s: float) -> None:
        """Take note that a frame was played."""
        self._last = (self._due_s(recorded_ns, now_s), recorded_ns)

    def _due_s(self, recorded_ns: int, now_s: float) -> float:
        if self._last is None:
            return max(now_s, self._first_s)
        last_s, last_ns = self._last
        if not self._speed:
            due_s = last_s + 1.0 / self._rate_hz
        else:
            pause_s = (recorded_ns - last_ns) / 1e9
            # Backwards: a recording begins anew.
            due_s = last_s + (pause_s / self._speed if 0.0 <= pause_s <= self._longest_pause_s else 0.0)
        return due_s if now_s - due_s <= _LATEST_S else now_s
