"""The pull of one blob, chunk by chunk, as a pure state machine: no clock, no disk, no network.

The reader asks, the sender only answers, so a slow disk or a slow radio slows the sender down by itself. One request
goes out first (the probe): the first answers after discovery may get lost, and a dead sender then costs one request
per timeout instead of a window. After an answer the window opens. A timeout asks again, with half the window and twice
the patience. Chunks may come late, twice or in any order.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from fed_core.config import check, option
from fed_core.errors import Refusal, WireError
from fed_core.types import BlobRef


class ReadCode(IntEnum):
    """Outcome of one request; the numbers of ``fed_msgs/ReadBlob``."""

    OK = 0
    NOT_FOUND = 1
    BAD_REQUEST = 2
    BUSY = 3
    READ_FAILED = 4


@dataclass(frozen=True)
class PullConfig:
    """How blobs are read. ``window`` x ``chunk_bytes`` should stay under half the shared-memory segment."""

    chunk_bytes: int = option(512 << 10, help="bytes per request", unit="bytes", low=1 << 10, high=4 << 20)
    window: int = option(8, help="requests under way at once", unit="count", low=1, high=64)
    timeout_s: float = option(1.0, help="patience with the first answer", unit="s", low=0.01, high=60.0)
    max_timeout_s: float = option(8.0, help="patience after many timeouts", unit="s", low=0.01, high=600.0)
    give_up_s: float = option(0.0, help="fail after so long without any chunk; 0 = never", unit="s", low=0.0)
    max_damaged: int = option(16, help="damaged chunks in a row before giving up", unit="count", low=1)
    max_size_bytes: int = option(8 << 30, help="largest blob that is accepted", unit="bytes", low=1)

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)


@dataclass(frozen=True)
class Request:
    """One question to send; ``token`` comes back with its answer."""

    token: int
    index: int
    offset: int
    length: int


@dataclass(frozen=True)
class Answer:
    """What an answer says about itself; the bytes stay outside."""

    code: int
    offset: int
    size_bytes: int
    length: int


@dataclass(frozen=True)
class Step:
    """What to do now: requests to send, and tokens nobody waits for any more."""

    send: tuple[Request, ...] = ()
    forget: tuple[int, ...] = ()


@dataclass
class _Waiting:
    request: Request
    sent_s: float


class Pull:
    """State of one pull.

    The driver calls :meth:`poll` after every event and not later than :attr:`wake_s`, sends what it returns, passes
    answers to :meth:`on_answer` and, where that returns True, stores the bytes and tells :meth:`on_stored` (or
    :meth:`on_damaged`). A chunk counts against the window until it is stored.

    Args:
        ref: the blob.
        missing: indices of the chunks that are not here yet.
        config: sizes and times.
        now_s: monotonic time.

    Attributes:
        failed: why the pull ended without success, or None.
        resent: requests that were asked again.
    """

    def __init__(self, ref: BlobRef, missing: Iterable[int], config: PullConfig, now_s: float) -> None:
        self.ref = ref
        self.failed: WireError | None = None
        self.resent = 0
        self._config = config
        self._todo = deque(missing)
        self._waiting: dict[int, _Waiting] = {}
        self._storing: set[int] = set()
        self._unstored = set(self._todo)
        self._token = 0
        self._window = 1.0
        self._probing = True
        self._timeout_s = config.timeout_s
        self._round_trip_s = 0.0
        self._damaged = 0
        self._asleep_until_s = now_s
        self._progress_s = now_s

    @property
    def done(self) -> bool:
        """Whether every chunk is stored."""
        return not self._unstored

    @property
    def stored_bytes(self) -> int:
        """Bytes that are on disk."""
        return self.ref.size_bytes - sum(self._span(index)[1] for index in self._unstored)

    @property
    def window(self) -> int:
        """Requests (and chunks on their way to the disk) allowed at once."""
        return int(self._window)

    @property
    def wake_s(self) -> float | None:
        """When :meth:`poll` has something to do without any event; None = never."""
        if self.done or self.failed:
            return None
        times = [waiting.sent_s + self._timeout_s for waiting in self._waiting.values()]
        if self._todo and not self._waiting and not self._storing:
            times.append(self._asleep_until_s)
        if self._config.give_up_s:
            times.append(self._progress_s + self._config.give_up_s)
        return min(times, default=None)

    def poll(self, now_s: float, *, ready: bool = True, behind: bool = False) -> Step:
        """Return what to send and to forget at ``now_s``.

        Args:
            now_s: monotonic time.
            ready: the service is there; nothing is sent without it.
            behind: answers wait to be handled, so none counts as late yet.
        """
        if self.done or self.failed:
            return self._drop_all()
        forget = () if behind else self._expire(now_s)
        if self._config.give_up_s and now_s >= self._progress_s + self._config.give_up_s:
            self._fail(f"no chunk came for {self._config.give_up_s:g} s; is the sender alive?")
            return Step(forget=forget + self._drop_all().forget)
        send: list[Request] = []
        while ready and self._todo and now_s >= self._asleep_until_s:
            if len(self._waiting) + len(self._storing) >= self.window:
                break
            index = self._todo.popleft()
            if index in self._unstored and index not in self._storing:
                self._token += 1
                request = Request(self._token, index, *self._span(index))
                self._waiting[self._token] = _Waiting(request, now_s)
                send.append(request)
        return Step(tuple(send), forget)

    def on_answer(self, request: Request, answer: Answer, now_s: float) -> bool:
        """Take the answer to ``request``; True asks the driver to store its bytes and report back."""
        waiting = self._waiting.pop(request.token, None)
        if self.failed or request.index not in self._unstored or request.index in self._storing:
            return False
        if waiting is None and answer.code != ReadCode.OK:
            return False
        if answer.code in (ReadCode.BUSY, ReadCode.READ_FAILED):
            self._ask_again(request.index)
            self._slow_down(silent=True)
            self._asleep_until_s = now_s + self._timeout_s
            return False
        if answer.code != ReadCode.OK:
            why = "is not with the sender any more" if answer.code == ReadCode.NOT_FOUND else "was refused"
            self._fail(f"{why} (code {answer.code})")
            return False
        if answer.size_bytes != self.ref.size_bytes:
            self._fail(f"has {answer.size_bytes} bytes at the sender, announced were {self.ref.size_bytes}", lost=False)
            return False
        if answer.offset != request.offset or answer.length != request.length:
            self._damage(request.index)
            return False
        self._storing.add(request.index)
        if waiting is not None:
            self._speed_up(now_s - waiting.sent_s)
        return True

    def on_stored(self, index: int, now_s: float) -> None:
        """Chunk ``index`` is on disk."""
        self._storing.discard(index)
        self._unstored.discard(index)
        self._damaged = 0
        self._progress_s = now_s

    def on_damaged(self, index: int) -> None:
        """The bytes of chunk ``index`` did not give their CRC; ask again."""
        self._storing.discard(index)
        self._damage(index)

    def _span(self, index: int) -> tuple[int, int]:
        offset = index * self._config.chunk_bytes
        return offset, min(self._config.chunk_bytes, self.ref.size_bytes - offset)

    def _expire(self, now_s: float) -> tuple[int, ...]:
        late = [token for token, w in self._waiting.items() if now_s >= w.sent_s + self._timeout_s]
        if late:
            oldest_s = min(self._waiting[token].sent_s for token in late)
            self._slow_down(silent=self._progress_s <= oldest_s)
        for token in reversed(late):
            self._ask_again(self._waiting.pop(token).request.index)
        return tuple(late)

    def _ask_again(self, index: int) -> None:
        self.resent += 1
        self._todo.appendleft(index)

    def _slow_down(self, silent: bool) -> None:
        self._timeout_s = min(2 * self._timeout_s, max(self._config.max_timeout_s, self._config.timeout_s))
        self._window = 1.0 if silent else max(1.0, self._window // 2)
        self._probing = self._probing or silent

    def _speed_up(self, round_trip_s: float) -> None:
        top = float(self._config.window)
        self._round_trip_s += (round_trip_s - self._round_trip_s) / (1 if self._probing else 8)
        # A slow link with a full window answers late without any loss: patience follows what was measured.
        calm_s = max(self._config.timeout_s, 3 * self._round_trip_s)
        self._timeout_s = min(calm_s, max(self._config.max_timeout_s, self._config.timeout_s))
        self._window = top if self._probing else min(top, self._window + 1 / self._window)
        self._probing = False

    def _damage(self, index: int) -> None:
        self._damaged += 1
        if self._damaged >= self._config.max_damaged:
            self._fail(f"came damaged {self._damaged} times in a row")
            return
        self._ask_again(index)

    def _fail(self, what: str, *, lost: bool = True) -> None:
        self.failed = WireError(f"blob {self.ref.digest[:12]} {what}", Refusal.BROKEN_BLOB, lost=lost)

    def _drop_all(self) -> Step:
        forget = tuple(self._waiting)
        self._waiting.clear()
        return Step(forget=forget)
