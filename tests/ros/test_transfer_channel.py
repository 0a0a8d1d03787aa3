"""The channel inside one process: codes of the server, and how a fetch ends."""

import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from fed_msgs.srv import ReadBlob
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from fed_core.errors import DiskFullError, FedError, Refusal, StoreError, WireError
from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_core.wire import files
from fed_core.wire.chunks import PullConfig, ReadCode
from fed_nodes.blobs import MAX_CHUNK_BYTES, BlobServer, RosBlobChannel

DATA = bytes(range(256)) * 40


@pytest.fixture
def node(domain_id: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Node]:
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "ros_log"))
    context = Context()
    rclpy.init(context=context, domain_id=domain_id)
    node = rclpy.create_node("channel", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin)
    thread.start()
    yield node
    executor.shutdown()
    thread.join(5.0)
    node.destroy_node()
    rclpy.try_shutdown(context=context)


@pytest.fixture
def source(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "source")


@pytest.fixture
def ref(source: BlobStore) -> BlobRef:
    path = source.scratch()
    path.write_bytes(DATA)
    return source.put_file(path)


class Outcome:
    """Waits for the end of a fetch."""

    def __init__(self) -> None:
        self.errors: list[FedError] = []
        self.done: list[BlobRef] = []
        self.progress: list[int] = []
        self._event = threading.Event()

    def callbacks(self) -> dict[str, Any]:
        return {"on_done": self._on_done, "on_error": self._on_error, "on_progress": self._on_progress}

    def wait(self) -> "Outcome":
        assert self._event.wait(20.0), "the fetch did not end"
        return self

    def _on_done(self, ref: BlobRef) -> None:
        self.done.append(ref)
        self._event.set()

    def _on_error(self, _ref: BlobRef, error: FedError) -> None:
        self.errors.append(error)
        self._event.set()

    def _on_progress(self, _ref: BlobRef, stored_bytes: int) -> None:
        self.progress.append(stored_bytes)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ReadCode.OK),
        ({"digest": "0" * 64}, ReadCode.NOT_FOUND),
        ({"digest": "../../etc/passwd"}, ReadCode.BAD_REQUEST),
        ({"offset": len(DATA) - 99}, ReadCode.BAD_REQUEST),
        ({"offset": 2**64 - 1}, ReadCode.BAD_REQUEST),
        ({"length": 0}, ReadCode.BAD_REQUEST),
        ({"length": MAX_CHUNK_BYTES + 1}, ReadCode.BAD_REQUEST),
        ({"length": 2**32 - 1}, ReadCode.BAD_REQUEST),
    ],
)
def test_answers_of_the_server(node: Node, source: BlobStore, ref: BlobRef, change: dict, code: ReadCode) -> None:
    request = ReadBlob.Request(**{"digest": ref.digest, "offset": 1000, "length": 100, **change})

    answer = BlobServer(node, source).answer(request, ReadBlob.Response())

    expected = DATA[1000:1100] if code == ReadCode.OK else b""
    assert answer.code == code and bytes(answer.data) == expected
    assert answer.offset == request.offset and answer.crc32 == zlib.crc32(expected)


def test_a_blob_comes_and_a_second_fetch_needs_no_network(
    node: Node, source: BlobStore, ref: BlobRef, tmp_path: Path
) -> None:
    sender = RosBlobChannel(node, source)
    sender.serve("/a/read_blob")
    sender.serve("/a/read_blob")  # again does no harm
    store = BlobStore(tmp_path / "target")
    channel = RosBlobChannel(node, store, PullConfig(chunk_bytes=1024))
    outcomes = Outcome(), Outcome()

    for outcome in outcomes:  # the second joins the first
        channel.fetch(ref, "/a/read_blob", **outcome.callbacks())
    for outcome in outcomes:
        assert outcome.wait().done == [ref] and not outcome.errors
    sender.stop("/a/read_blob")
    later = Outcome()
    channel.fetch(ref, "/a/read_blob", **later.callbacks())

    assert later.wait().done == [ref]
    assert store.path(ref.digest).read_bytes() == DATA
    assert channel.received_bytes == sender.sent_bytes == len(DATA)
    channel.close()
    sender.close()


def test_one_service_after_the_other_and_all_arrive(node: Node, source: BlobStore, tmp_path: Path) -> None:
    refs = []
    for number in range(5):
        path = source.scratch()
        path.write_bytes(bytes([number]) * 5000)
        refs.append(source.put_file(path))
    sender = RosBlobChannel(node, source)
    channel = RosBlobChannel(node, BlobStore(tmp_path / "target"), PullConfig(chunk_bytes=1024), max_parallel=1)
    outcomes = [Outcome() for _ in refs]
    for number, (ref, outcome) in enumerate(zip(refs, outcomes, strict=True)):
        sender.serve(f"/r{number % 2}/read_blob")
        channel.fetch(ref, f"/r{number % 2}/read_blob", **outcome.callbacks())

    assert [outcome.wait().done for outcome in outcomes] == [[ref] for ref in refs]
    channel.close()
    sender.close()


def test_too_large_a_blob_is_refused_before_anything_is_made(node: Node, tmp_path: Path) -> None:
    store, outcome = BlobStore(tmp_path / "target"), Outcome()
    channel = RosBlobChannel(node, store)
    channel.fetch(BlobRef("0" * 64, 1 << 40), "/a/read_blob", **outcome.callbacks())

    (error,) = outcome.wait().errors
    assert isinstance(error, WireError) and error.code == Refusal.TOO_LARGE
    assert str(error) == f"blob 000000000000 has {1 << 40} bytes, allowed are {8 << 30}"
    assert list(store.root.iterdir()) == []
    channel.close()


def test_a_full_disk_ends_the_fetch(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "free_bytes", lambda _: 1 << 20)
    outcome, channel = Outcome(), RosBlobChannel(node, BlobStore(tmp_path / "target"))
    channel.fetch(BlobRef("0" * 64, 1 << 30), "/a/read_blob", **outcome.callbacks())

    (error,) = outcome.wait().errors
    assert isinstance(error, DiskFullError) and "no space for blob 000000000000" in str(error)
    channel.close()


def test_no_sender_for_long_enough(node: Node, tmp_path: Path) -> None:
    outcome = Outcome()
    channel = RosBlobChannel(node, BlobStore(tmp_path / "target"), PullConfig(give_up_s=0.1))
    channel.fetch(BlobRef("0" * 64, 10), "/nobody/read_blob", **outcome.callbacks())

    assert str(outcome.wait().errors[0]) == "blob 000000000000 no chunk came for 0.1 s; is the sender alive?"
    channel.close()


def test_cancel_frees_the_part_and_calls_nobody(node: Node, tmp_path: Path) -> None:
    store, cancelled, other = BlobStore(tmp_path / "target"), Outcome(), Outcome()
    channel, ref = RosBlobChannel(node, store, PullConfig(give_up_s=0.1)), BlobRef("0" * 64, 10)
    channel.fetch(BlobRef("1" * 64, 10), "/nobody/read_blob", **cancelled.callbacks())
    channel.cancel("1" * 64)
    channel.fetch(ref, "/nobody/read_blob", **other.callbacks())
    other.wait()

    store.partial(BlobRef("1" * 64, 10)).close()  # not locked any more
    assert cancelled.done == [] and cancelled.errors == []
    channel.close()


def test_a_part_that_another_process_holds(node: Node, tmp_path: Path) -> None:
    store, outcome, ref = BlobStore(tmp_path / "target"), Outcome(), BlobRef("0" * 64, 10)
    held = store.partial(ref)
    channel = RosBlobChannel(node, store)
    channel.fetch(ref, "/a/read_blob", **outcome.callbacks())

    (error,) = outcome.wait().errors
    assert isinstance(error, StoreError) and "is being received by another process" in str(error)
    held.close()
    channel.close()


def test_senders_that_are_away_hold_nobody_up(node: Node, source: BlobStore, ref: BlobRef, tmp_path: Path) -> None:
    sender = RosBlobChannel(node, source)
    sender.serve("/here/read_blob")
    receiver = RosBlobChannel(node, BlobStore(tmp_path / "target"), max_parallel=2)
    for number in range(3):
        lost = BlobRef(f"{number}" * 64, 1000)
        receiver.fetch(lost, f"/away_{number}/read_blob", **Outcome().callbacks())
    here = Outcome()
    receiver.fetch(ref, "/here/read_blob", **here.callbacks())

    assert here.wait().done == [ref] and here.errors == []

    receiver.close()
    sender.close()
