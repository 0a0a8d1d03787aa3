"""The two threads of serving: newest frame first, and a new network takes over between two frames.

Networks are functions here; what loads them is the test's, so nothing but the hand-over is looked at.
"""

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from fed_core.errors import ConfigError
from fed_nodes.live import serving
from fed_nodes.live.serving import ServingThread

WAIT_S = 20.0


class World:
    """A serving thread with networks that the test holds and lets go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ServingThread, "_prepare", lambda self: None)  # no PyTorch
        monkeypatch.setattr(ServingThread, "_build", lambda self, model: (model.warm(), model)[1])
        self.changed = threading.Condition()
        self.results: list[tuple[int, str]] = []
        self.events: list[str] = []
        self.errors: list[str] = []
        self.serving = ServingThread(1, self.on_result, self.on_error)

    def on_result(self, result: Any) -> None:
        def add() -> None:
            self.results.append(result)
            self.events.append(f"{result[0]} by {result[1]}")

        self.note(add)

    def on_error(self, text: str) -> None:
        self.note(lambda: self.errors.append(text))

    def note(self, add: Callable[[], Any]) -> None:
        with self.changed:
            add()
            self.changed.notify_all()

    def load(self, name: str, predict: Callable[[Any], Any], *, warm: Callable[[], Any] = lambda: None) -> None:
        """Load a network whose prediction is ``predict``, made ready by ``warm``."""
        network: Any = SimpleNamespace(name=name, predict=predict, warm=warm)
        self.serving.load(
            network,
            lambda found: self.note(lambda: self.events.append(f"{name} serves")),
            lambda: self.note(lambda: self.events.append(f"{name} failed")),
        )

    def serve(self, name: str, predict: Callable[[Any], Any]) -> None:
        """Load a network and wait until it serves; no frame came yet, so there is no warm-up."""
        self.load(name, predict)
        self.until(lambda: f"{name} serves" in self.events)

    def answered(self) -> int:
        counts = self.serving.counts()
        return counts.predicted + counts.failed

    def until(self, condition: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WAIT_S), (self.events, self.errors)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    made.serving.close()


def named(name: str) -> Callable[[Any], Any]:
    return lambda sample: name


def test_every_image_of_a_stream_is_answered_while_networks_change_in_its_middle(world: World) -> None:
    """The old network answers all images that come while the new one is made ready, the new one all after it."""
    world.serve("old", named("old"))
    ready = threading.Event()
    for number in range(90):
        if number == 30:
            world.load("new", named("new"), warm=lambda: ready.wait(WAIT_S))
        if number == 60:
            ready.set()
            world.until(lambda: "new serves" in world.events)
        world.serving.offer(number, b"")
        world.until(lambda: len(world.results) == number + 1)  # noqa: B023 - called at once

    assert world.results == [(number, "old" if number < 60 else "new") for number in range(90)]
    assert world.events.index("new serves") == world.events.index("59 by old") + 1
    counts = world.serving.counts()
    assert (counts.received, counts.dropped, counts.failed) == (90, 0, 0)


def test_memory_goes_back_to_the_system_when_a_network_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[bool] = []

    class Predictor:
        def __call__(self, sample: Any) -> str:
            return "old"

    old = Predictor()
    watched = weakref.ref(old)
    monkeypatch.setattr(serving, "give_back_memory", lambda: world.note(lambda: gone.append(watched() is None)))
    world.serve("old", old)
    del old
    world.until(lambda: gone == [False])
    world.serve("new", named("new"))
    world.until(lambda: gone == [False, True])


def test_giving_back_shrinks_the_process() -> None:
    """Blocks too small to be mapped one by one, freed behind one that stays: only trimming returns them."""
    blocks = [bytearray(60_000) for _ in range(4000)]
    last = bytearray(60_000)
    del blocks
    before = psutil.Process().memory_info().rss
    serving.give_back_memory()
    assert psutil.Process().memory_info().rss < before - 100_000_000
    del last


def test_the_newest_frame_is_next_and_the_overtaken_ones_are_counted(world: World) -> None:
    held, entered = threading.Semaphore(0), threading.Semaphore(0)

    def slow(sample: Any) -> str:
        entered.release()
        assert held.acquire(timeout=WAIT_S)
        return "slow"

    world.serve("slow", slow)
    world.serving.offer(0, b"")
    assert entered.acquire(timeout=WAIT_S)  # 0 is being predicted
    for number in range(1, 7):
        world.serving.offer(number, b"")
    for _ in range(2):
        held.release()
    world.until(lambda: len(world.results) == 2)

    assert [token for token, _ in world.results] == [0, 6]
    world.serving.close()
    counts = world.serving.counts()
    assert (counts.received, counts.predicted, counts.dropped) == (7, 2, 5)


def test_a_frame_from_before_the_first_network_is_answered_if_it_is_the_newest(world: World) -> None:
    world.serving.offer(1, b"")
    world.serving.offer(2, b"")
    world.load("net", named("net"))
    world.until(lambda: world.results)
    assert world.results == [(2, "net")] and world.serving.counts().dropped == 1


def test_a_network_is_warmed_up_on_the_last_frame_before_it_serves(world: World) -> None:
    world.serving.offer(1, "the last frame")
    seen: list[str] = []

    def predict(sample: str) -> str:
        seen.append(sample)
        return sample

    world.load("net", predict)
    world.until(lambda: world.results)
    assert seen == ["the last frame", "the last frame"]  # warm-up, then the frame itself


def test_an_error_of_a_frame_is_told_and_counted_and_the_next_one_is_answered(world: World) -> None:
    def picky(sample: Any) -> Any:
        if sample == "bad":
            raise ValueError("two\nlines")
        return sample

    world.serve("picky", picky)
    world.serving.offer(1, "bad")
    world.until(lambda: world.errors)
    world.serving.offer(2, "good")
    world.until(lambda: world.results)
    assert world.errors == ["ValueError: two lines"] and world.results == [(2, "good")]
    assert world.serving.counts().failed == 1


def test_the_problem_is_that_of_the_last_frame(world: World) -> None:
    def picky(sample: Any) -> Any:
        if sample == "bad":
            raise ValueError("no picture")
        return sample

    world.serve("picky", picky)
    for number, (sample, problem) in enumerate((("bad", "ValueError: no picture"), ("good", ""))):
        world.serving.offer(number, sample)
        world.until(lambda: world.answered() == number + 1)  # noqa: B023 - called at once
        assert world.serving.problem == problem


def test_a_frame_that_cannot_be_predicted_does_not_keep_a_network_from_the_next_one(world: World) -> None:
    def picky(sample: Any) -> Any:
        if sample == "bad":
            raise ValueError("no picture")
        return sample

    world.serving.offer(1, "bad")
    world.load("picky", picky)
    world.until(lambda: len(world.errors) == 2)  # the warm-up, then the frame itself
    world.serving.offer(2, "good")
    world.until(lambda: world.results)
    assert world.results == [(2, "good")]


def test_a_network_that_cannot_be_made_is_told_and_the_old_one_serves_on(world: World) -> None:
    def broken() -> None:
        raise KeyError("key")

    world.serve("old", named("old"))
    world.load("broken", named("broken"), warm=broken)
    world.until(lambda: world.errors)
    world.serving.offer(1, b"")
    world.until(lambda: world.results)
    assert world.errors == ["KeyError: 'key'"] and world.results == [(1, "old")]
    assert world.events == ["old serves", "broken failed", "1 by old"]
    assert world.serving.problem == "KeyError: 'key'"
    world.serve("next", named("next"))
    assert world.serving.problem == ""


@pytest.mark.parametrize(
    ("device", "runtime", "has_gpu", "found"),
    [
        ("cpu", "torch", True, "cpu"),
        ("auto", "torch", True, "cuda"),
        ("auto", "torch", False, "cpu"),
        ("auto", "onnx", True, "cpu"),
        ("cuda", "compile", True, "cuda"),
    ],
)
def test_networks_run_on_the_device_that_was_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch, device: str, runtime: str, has_gpu: bool, found: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: has_gpu)
    world.serving._device, world.serving._runtime = device, runtime
    assert world.serving._torch_device().type == found


def test_a_gpu_that_is_not_there_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    world.serving._device = "cuda"
    with pytest.raises(ConfigError, match="device is cuda, but PyTorch sees no GPU; set device to auto or cpu"):
        world.serving._torch_device()


def test_latency_and_age_are_of_what_was_handed_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = world.serving.counts()
    assert counts.age_s == float("inf") and counts.latency_s[0] != counts.latency_s[0]
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def late(sample: float) -> str:
        clock[0] += sample
        return "late"

    world.serve("late", late)
    for number, duration_s in enumerate((0.010, 0.030, 0.020)):
        world.serving.offer(number, duration_s)
        world.until(lambda: world.serving.counts().predicted == number + 1)  # noqa: B023
    clock[0] += 2.0
    counts = world.serving.counts()
    # The median of 10, 20 and 30 ms; with three values the 95th percentile is the largest.
    assert counts.latency_s == pytest.approx((0.020, 0.030)) and counts.age_s == pytest.approx(2.0)
