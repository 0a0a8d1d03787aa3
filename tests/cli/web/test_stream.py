"""Server-sent events over real connections: newest states only, slow and gone browsers, the end."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from fed_cli.web.pictures import Shown
from fed_core.errors import FedError
from tests.cli.web.served import WAIT_S, Served, Viewer, served

from fed_cli.web import hub, server, stream  # isort: skip - after the look whether the extra is installed


class Counter:
    """A feed whose state is a number that the test sets, and padding."""

    def __init__(self) -> None:
        self.number, self.padding, self.made = 1, "", 0
        self.failure: Exception | None = None

    def version(self) -> object:
        return self.number

    def tree(self) -> dict[str, Any]:
        self.made += 1
        return {"number": self.number, "padding": self.padding}

    def picture(self, digest: str) -> Shown | None:
        return None

    def services(self) -> Mapping[str, str]:
        return {}

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def feed() -> Counter:
    return Counter()


@pytest.fixture
def made(feed: Counter, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(hub, "TICK_S", 0.02)
    monkeypatch.setattr(stream, "BEAT_S", 0.2)
    with served(feed) as one:
        yield one


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_states_come_as_they_change_and_beats_while_they_do_not(made: Served, feed: Counter) -> None:
    viewer = Viewer(made.port)
    head = viewer.head()
    assert head.startswith("HTTP/1.1 200") and "text/event-stream" in head and "no-store" in head
    assert viewer.state()["number"] == 1
    assert viewer.event() == ("beat", {})
    feed.number = 2
    told = viewer.state()
    assert told["number"] == 2 and told["services"] is None
    viewer.close()


def test_many_browsers_share_one_text(made: Served, feed: Counter) -> None:
    viewers = [Viewer(made.port) for _ in range(12)]
    assert [viewer.state()["number"] for viewer in viewers] == [1] * 12
    before = feed.made
    feed.number = 2
    assert [viewer.state()["number"] for viewer in viewers] == [2] * 12
    assert feed.made == before + 1
    for viewer in viewers:
        viewer.close()
    until(lambda: made.dashboard.hub.viewers == 0)


def test_nothing_is_made_for_nobody_and_who_comes_gets_what_is_now(made: Served, feed: Counter) -> None:
    viewer = Viewer(made.port)
    assert viewer.state()["number"] == 1
    viewer.close()
    until(lambda: made.dashboard.hub.viewers == 0)
    before = feed.made
    feed.number = 7
    viewer = Viewer(made.port)
    assert viewer.state()["number"] == 7
    assert feed.made == before + 1
    viewer.close()


def test_a_slow_browser_gets_the_newest_and_not_what_it_missed(made: Served, feed: Counter) -> None:
    feed.padding = "x" * 4_000_000  # more than the buffers of a connection
    slow, quick = Viewer(made.port), Viewer(made.port)
    slow.head()
    for number in range(2, 12):
        feed.number = number
        while quick.state()["number"] != number:
            pass
    told: list[int] = []
    while not told or told[-1] < 11:
        told.append(slow.state()["number"])
    assert len(told) <= 3, told
    for viewer in (slow, quick):
        viewer.close()


def test_a_browser_that_takes_nothing_is_let_go(made: Served, feed: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "STALL_S", 0.3)
    feed.padding = "x" * 4_000_000
    stalled = Viewer(made.port)
    until(lambda: made.dashboard.hub.viewers == 1)
    until(lambda: feed.made > 0)
    for number in range(2, 5):
        feed.number = number
    until(lambda: made.dashboard.hub.viewers == 0)
    stalled.close()


def test_one_browser_too_many_is_told(made: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_VIEWERS", 1)
    first = Viewer(made.port)
    first.state()
    second = Viewer(made.port)
    assert second.head().startswith("HTTP/1.1 503")
    for viewer in (first, second):
        viewer.close()


def test_a_huge_fleet_leaves_time_for_others(made: Served, feed: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long to make is made seldom: here 0.1 s, so not again within half a second."""
    plain = feed.tree

    def slow_tree() -> dict[str, Any]:
        time.sleep(0.1)
        return plain()

    monkeypatch.setattr(feed, "tree", slow_tree)
    viewer = Viewer(made.port)
    viewer.state()
    start_s = time.monotonic()
    feed.number = 2
    viewer.state()
    assert time.monotonic() - start_s > 0.4
    viewer.close()


def test_no_more_than_two_states_a_second(feed: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "version", object)  # always new
    with served(feed) as one:
        viewer = Viewer(one.port)
        viewer.state()
        start_s = time.monotonic()
        for _ in range(3):
            viewer.state()
        assert time.monotonic() - start_s > 1.2
        viewer.close()


def test_the_end_of_the_server_ends_the_events(feed: Counter) -> None:
    with served(feed) as one:
        viewer = Viewer(one.port)
        viewer.state()
    assert viewer.event() == ("", None)
    viewer.close()


def test_a_feed_that_fails_is_told_to_the_server(made: Served, feed: Counter) -> None:
    ended: list[bool] = []
    made.dashboard.hub.on_failure = lambda: ended.append(True)
    feed.failure = FedError("the monitor ended: no message package")
    until(lambda: bool(ended))
    assert made.dashboard.hub.failure is feed.failure


def test_a_state_that_cannot_be_told_ends_the_server_with_a_line(made: Served, feed: Counter) -> None:
    ended: list[bool] = []
    made.dashboard.hub.on_failure = lambda: ended.append(True)
    feed.failure = ValueError("Out of range float values are not JSON compliant")
    until(lambda: bool(ended))
    told = "the state of the page cannot be made: ValueError('Out of range float values are not JSON compliant')"
    assert str(made.dashboard.hub.failure) == told


def test_a_browser_that_goes_as_a_state_comes_is_let_go(feed: Counter) -> None:
    """Up to Python 3.11, wait_for forgets that it was cancelled where what it waits for has just come."""

    async def follow(passes: int) -> int:
        one = hub.Hub(feed, dict, lambda: False)
        gone = asyncio.Event()
        told: list[Any] = []

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            told.append(message)

        async def after(number: int) -> tuple[int, str]:
            await asyncio.shield(come)
            return number + 1, "{}"

        one.after = after  # type: ignore[method-assign]
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served_one = asyncio.ensure_future(stream.StateStream(one)({}, receive, send))
        while one.viewers == 0 or len(told) < 2:
            await asyncio.sleep(0)
        gone.set()
        for _ in range(passes):
            await asyncio.sleep(0)
        come.set_result(None)
        await asyncio.wait_for(served_one, WAIT_S)
        return one.viewers

    for passes in range(6):
        assert asyncio.run(follow(passes)) == 0
