"""Two streams of messages, live: which message of one belongs to which of the other."""

from collections.abc import Iterable
from typing import Any

from fed_core.data.pairing import pair_by_stamp

#: The two streams, as arguments of :meth:`StampPairs.add`.
FIRST, SECOND = 0, 1


class StampPairs:
    """Pairs each message with the nearest in time of the other stream; each is used at most once.

    Times of one stream grow. A pair is given as soon as nothing nearer can come any more: at once where both times are
    equal, else with the next message of the stream whose time was the earlier one. Where a time steps back (a replay
    begins again, a clock is set back) what waits from later times is dropped.

    Args:
        slop_ns: largest time between the two of a pair, inclusive.

    Attributes:
        unpaired: messages of the first and of the second stream that found no partner.
    """

    def __init__(self, slop_ns: int) -> None:
        self._slop_ns = slop_ns
        self._waiting: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        self._last: list[int | None] = [None, None]
        self.unpaired = [0, 0]

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._waiting[FIRST]) + len(self._waiting[SECOND])

    def add(self, stream: int, time_ns: int, item: Any, most: int = 30) -> None:
        """Take a message of a stream; of more than ``most`` that wait the oldest are dropped."""
        last = self._last[stream]
        if last is not None and time_ns < last:
            self._step_back(time_ns)
        waiting = self._waiting[stream]
        self._forget(stream, [time_ns] if time_ns in waiting else [])
        waiting[time_ns] = item
        self._last[stream] = time_ns
        self._forget(stream, list(waiting)[: max(0, len(waiting) - most)])

    def take(self) -> list[tuple[Any, Any]]:
        """Return the pairs that are certain now, in the order of their times, and drop what is past."""
        found, (firsts, seconds) = [], self._waiting
        for one in sorted(firsts):
            other = _nearest(one, seconds)
            if other is None or not self._near(one, (other,)) or _nearest(other, firsts) != one:
                continue
            if not self._certain(one, other):
                break
            found += self._past(one, other)
            found.append((firsts.pop(one), seconds.pop(other)))
        for stream in (FIRST, SECOND):
            newest, others = self._last[1 - stream], self._waiting[1 - stream]
            if newest is not None:
                past = [time_ns for time_ns in self._waiting[stream] if time_ns < newest - self._slop_ns]
                self._forget(stream, [time_ns for time_ns in past if not self._near(time_ns, others)])
        return found

    def _past(self, one: int, other: int) -> list[tuple[Any, Any]]:
        """Return the pairs of what is older than a pair: no more of it comes; drop the rest."""
        firsts = sorted(time_ns for time_ns in self._waiting[FIRST] if time_ns < one)
        seconds = sorted(time_ns for time_ns in self._waiting[SECOND] if time_ns < other)
        pairs = pair_by_stamp(firsts, seconds, self._slop_ns) if firsts and seconds else []
        found = [(self._waiting[FIRST].pop(firsts[i]), self._waiting[SECOND].pop(seconds[j])) for i, j in pairs]
        self._forget(FIRST, [time_ns for time_ns in firsts if time_ns in self._waiting[FIRST]])
        self._forget(SECOND, [time_ns for time_ns in seconds if time_ns in self._waiting[SECOND]])
        return found

    def _certain(self, one: int, other: int) -> bool:
        """Return whether no later message can be nearer: the next one of the earlier stream is here."""
        stream = FIRST if one < other else SECOND
        last = self._last[stream]
        return one == other or (last is not None and last > min(one, other))

    def _near(self, time_ns: int, others: Iterable[int]) -> bool:
        return any(abs(other - time_ns) <= self._slop_ns for other in others)

    def _step_back(self, time_ns: int) -> None:
        for stream in (FIRST, SECOND):
            # The other stream may have stepped back already: what is near the new time stays.
            later = [time for time in self._waiting[stream] if time > time_ns + self._slop_ns]
            self._forget(stream, later)
            last = self._last[stream]
            if last is not None and last > time_ns + self._slop_ns:
                self._last[stream] = None

    def _forget(self, stream: int, times_ns: list[int]) -> None:
        for time_ns in times_ns:
            del self._waiting[stream][time_ns]
        self.unpaired[stream] += len(times_ns)


def _nearest(time_ns: int, waiting: dict[int, Any]) -> int | None:
    return min(waiting, key=lambda other: (abs(other - time_ns), other), default=None)
