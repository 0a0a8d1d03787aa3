"""The pull of a blob over a network that loses, repeats and reorders, with both ends being killed."""

import heapq
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.errors import ConfigError
from fed_core.types import BlobRef
from fed_core.wire.chunks import Answer, Pull, PullConfig, ReadCode, Request

CONFIG = PullConfig(chunk_bytes=1024, window=4)
REF = BlobRef("a" * 64, 10 * 1024 + 1)  # 11 chunks, the last of one byte


def pull(missing: int = 11, config: PullConfig = CONFIG) -> Pull:
    return Pull(REF, range(missing), config, 0.0)


def ok(request: Request) -> Answer:
    return Answer(ReadCode.OK, request.offset, REF.size_bytes, request.length)


def take(state: Pull, request: Request, now_s: float) -> None:
    assert state.on_answer(request, ok(request), now_s)
    state.on_stored(request.index, now_s)


# ---- by hand -----------------------------------------------------------------------------------------------------


def test_one_probe_then_the_window() -> None:
    state = pull()
    (probe,) = state.poll(0.0).send
    assert (probe.offset, probe.length) == (0, 1024)
    assert state.poll(0.5).send == ()

    take(state, probe, 0.6)

    assert [request.index for request in state.poll(0.6).send] == [1, 2, 3, 4]


def test_the_last_chunk_is_short_and_the_pull_ends() -> None:
    state = Pull(REF, [10], CONFIG, 0.0)
    (request,) = state.poll(0.0).send
    assert (request.offset, request.length) == (10_240, 1) and not state.done and state.stored_bytes == 10_240

    take(state, request, 0.0)

    assert state.done and state.stored_bytes == REF.size_bytes and state.wake_s is None


def test_nothing_missing_is_done_at_once() -> None:
    assert Pull(REF, [], CONFIG, 0.0).done


def test_patience_doubles_up_to_its_bound() -> None:
    state, sent_s = pull(), []
    for _ in range(6):
        sent_s.append(state.wake_s)
        assert len(state.poll(sent_s[-1]).send) == 1

    assert sent_s == [0.0, 1.0, 3.0, 7.0, 15.0, 23.0]


def test_a_dead_sender_brings_the_probe_back() -> None:
    state = pull()
    take(state, state.poll(0.0).send[0], 0.0)
    lost = state.poll(0.0).send
    assert len(lost) == 4

    step = state.poll(1.0)

    assert step.forget == tuple(request.token for request in lost)
    assert [request.index for request in step.send] == [1]


def test_a_single_loss_halves_the_window_and_asks_again_first() -> None:
    state = pull()
    take(state, state.poll(0.0).send[0], 0.0)
    lost, second, third, fourth = state.poll(0.0).send
    for request in (second, third, fourth):
        take(state, request, 0.5)

    step = state.poll(1.0)

    assert step.forget == (lost.token,) and state.window == 2
    assert [request.index for request in step.send] == [1, 5]


def test_a_slow_link_gets_patience_without_loss() -> None:
    state = pull()
    take(state, state.poll(0.0).send[0], 0.9)

    state.poll(0.9)

    assert state.wake_s == pytest.approx(0.9 + 2.7)


def test_a_full_disk_queue_holds_the_sender_back() -> None:
    state = pull()
    take(state, state.poll(0.0).send[0], 0.0)
    for request in state.poll(0.0).send:
        assert state.on_answer(request, ok(request), 0.1)  # arrived, not stored yet

    assert state.poll(0.1).send == ()
    state.on_stored(1, 0.2)
    assert [request.index for request in state.poll(0.2).send] == [5]


def test_repeated_and_late_answers_are_harmless() -> None:
    state = pull()
    (first,) = state.poll(0.0).send
    (again,) = state.poll(1.0).send
    take(state, first, 1.1)  # late, but still wanted

    assert not state.on_answer(first, ok(first), 1.2)
    assert not state.on_answer(again, ok(again), 1.2)
    assert 0 not in [request.index for request in state.poll(1.2).send]


def test_nothing_is_sent_while_the_service_is_away_or_late_while_we_are_behind() -> None:
    state = pull()
    assert state.poll(0.0, ready=False).send == ()
    (request,) = state.poll(1.0).send

    assert state.poll(9.0, behind=True).forget == ()
    take(state, request, 9.0)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(ReadCode.NOT_FOUND, 0, 0, 0), "blob aaaaaaaaaaaa is not with the sender any more (code 1)"),
        (Answer(ReadCode.BAD_REQUEST, 0, 0, 0), "blob aaaaaaaaaaaa was refused (code 2)"),
        (Answer(99, 0, 0, 0), "blob aaaaaaaaaaaa was refused (code 99)"),
        (Answer(ReadCode.OK, 0, 5, 1024), "blob aaaaaaaaaaaa has 5 bytes at the sender, announced were 10241"),
    ],
)
def test_answers_that_end_the_pull(answer: Answer, text: str) -> None:
    state = pull()
    (request,) = state.poll(0.0).send

    assert not state.on_answer(request, answer, 0.1)
    assert str(state.failed) == text
    assert state.failed is not None and state.failed.lost is ("announced" not in text)  # that one tells a lie
    assert state.poll(0.2).send == () and state.wake_s is None


@pytest.mark.parametrize("code", [ReadCode.BUSY, ReadCode.READ_FAILED])
def test_a_busy_sender_is_asked_again_later(code: ReadCode) -> None:
    state = pull()
    (request,) = state.poll(0.0).send
    state.on_answer(request, Answer(code, 0, 0, 0), 0.1)

    assert state.poll(0.2).send == () and state.wake_s == pytest.approx(2.1)
    assert [r.index for r in state.poll(2.1).send] == [0]


def test_damaged_chunks_are_asked_again_and_counted() -> None:
    state = pull(config=PullConfig(chunk_bytes=1024, max_damaged=3))
    for wrong in (0, 1):
        (request,) = state.poll(0.0).send[:1]
        if wrong:
            assert not state.on_answer(request, Answer(ReadCode.OK, 512, REF.size_bytes, 1024), 0.0)
        else:
            state.on_answer(request, ok(request), 0.0)
            state.on_damaged(request.index)
    assert state.failed is None
    request = state.poll(0.0).send[0]
    state.on_answer(request, ok(request), 0.0)
    state.on_damaged(request.index)

    assert str(state.failed) == "blob aaaaaaaaaaaa came damaged 3 times in a row" and state.failed.lost


def test_giving_up_is_a_choice() -> None:
    patient, other = pull(), pull(config=PullConfig(chunk_bytes=1024, give_up_s=30.0))
    for state in (patient, other):
        for now_s in (0.0, 10.0, 29.9, 30.0):
            state.poll(now_s)

    assert patient.failed is None
    assert str(other.failed) == "blob aaaaaaaaaaaa no chunk came for 30 s; is the sender alive?"


def test_the_config_has_bounds() -> None:
    with pytest.raises(ConfigError, match="PullConfig.window is 65; it must lie between 1 and 64"):
        PullConfig(window=65)


# ---- a fake network ----------------------------------------------------------------------------------------------


@dataclass
class World:
    """Virtual time, a sender, a reader with a disk, and a network between them that does what the seed says."""

    seed: int
    loss: float
    copies: float
    damage: float
    kills: tuple[tuple[float, str], ...]
    disk: set[int] = field(default_factory=set)
    now_s: float = 0.0
    asked: int = 0

    def run(self, until_s: float = 600.0) -> Pull:
        """Run to the end of the pull or of time."""
        self.random = random.Random(self.seed)  # noqa: S311
        self.events: list[tuple[float, int, object, Request | None]] = []
        self.count = 0
        self.life = 0  # answers to an earlier life of the reader reach nobody
        self.sender_up = True
        for at_s, who in self.kills:
            self.at(at_s, who, None)
        self.start()
        for _ in range(100_000):
            if self.state.done or self.state.failed:
                break
            times = [self.events[0][0]] if self.events else []
            if self.state.wake_s is not None:
                times.append(self.state.wake_s)
            self.now_s = max(self.now_s, min(times))
            if self.now_s > until_s:
                break
            while self.events and self.events[0][0] <= self.now_s:
                _, _, what, request = heapq.heappop(self.events)
                self.happen(what, request)
            self.send(self.state.poll(self.now_s).send)
        return self.state

    def start(self) -> None:
        missing = [index for index in range(11) if index not in self.disk]
        self.state = Pull(REF, missing, CONFIG, self.now_s)

    def at(self, when_s: float, what: object, request: Request | None) -> None:
        self.count += 1
        heapq.heappush(self.events, (when_s, self.count, what, request))

    def send(self, requests: tuple[Request, ...]) -> None:
        for request in requests:
            self.asked += 1
            copies = 1 + (self.random.random() < self.copies)
            for _ in range(copies):
                if self.random.random() >= self.loss:
                    self.at(self.now_s + self.random.uniform(0.0, 0.3), ("ask", self.life), request)

    def happen(self, what: object, request: Request | None) -> None:
        if what == "sender":
            self.sender_up = not self.sender_up
        elif what == "reader":
            self.life += 1
            self.start()
        elif request is not None and isinstance(what, tuple):
            self.on_packet(what[0], what[1], request)

    def on_packet(self, kind: str, life: int, request: Request) -> None:
        if kind == "ask":
            if self.sender_up and self.random.random() >= self.loss:
                for _ in range(1 + (self.random.random() < self.copies)):
                    self.at(self.now_s + self.random.uniform(0.0, 0.5), ("answer", life), request)
        elif life == self.life and self.state.on_answer(request, ok(request), self.now_s):
            if self.random.random() < self.damage:
                self.state.on_damaged(request.index)
            else:
                self.disk.add(request.index)
                self.state.on_stored(request.index, self.now_s)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.floats(0.0, 0.4),
    copies=st.floats(0.0, 0.9),
    damage=st.floats(0.0, 0.2),
    sender=st.lists(st.floats(0.0, 20.0), max_size=2).map(sorted),
    reader=st.lists(st.floats(0.0, 20.0), max_size=3),
)
def test_every_chunk_arrives(
    seed: int, loss: float, copies: float, damage: float, sender: list[float], reader: list[float]
) -> None:
    kills = [(at_s, "sender") for at_s in sender] + [(at_s, "reader") for at_s in reader]
    if len(sender) == 1:
        kills.append((sender[0] + 5.0, "sender"))  # down, then up again
    world = World(seed, loss, copies, damage, tuple(kills))

    state = world.run()

    assert state.done and state.failed is None and world.disk == set(range(11))


def test_a_clean_network_asks_for_every_chunk_once() -> None:
    world = World(seed=1, loss=0.0, copies=0.0, damage=0.0, kills=())

    assert world.run().resent == 0 and world.asked == 11


def test_a_restarted_reader_asks_only_for_the_rest() -> None:
    world = World(seed=1, loss=0.0, copies=0.5, damage=0.0, kills=((1.2, "reader"),))

    world.run()

    assert 11 <= world.asked <= 11 + CONFIG.window
