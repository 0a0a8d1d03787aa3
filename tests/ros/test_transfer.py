"""Blobs between real processes over DDS, with the ends being killed and the network misbehaving."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_core.wire import files

MB = 1 << 20
SERVICE = "/spot1/read_blob"
BIG_BYTES = 125 * MB + 12_345
GROWTH_BYTES = 32 * MB


@pytest.fixture(scope="module")
def sender_store(tmp_path_factory: pytest.TempPathFactory) -> BlobStore:
    return BlobStore(tmp_path_factory.mktemp("sender"))


@pytest.fixture(scope="module")
def big(sender_store: BlobStore) -> BlobRef:
    return put(sender_store, BIG_BYTES)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "receiver")


def put(store: BlobStore, size_bytes: int) -> BlobRef:
    path, random = store.scratch(), np.random.default_rng(size_bytes)
    with path.open("wb") as file:
        for start in range(0, size_bytes, MB):
            file.write(random.bytes(min(MB, size_bytes - start)))
    return store.put_file(path)


def receiver(ros_process: Callable[..., Any], store: BlobStore, ref: BlobRef, service: str = SERVICE) -> Any:
    """Start a receiver that waits, idle, for its first line."""
    process = ros_process("blob_receiver.py", store.root, service, ref.digest, ref.size_bytes)
    process.wait_line("ready")
    return process


def sender(ros_process: Callable[..., Any], store: BlobStore, *services: str) -> Any:
    process = ros_process("blob_sender.py", store.root, *(services or (SERVICE,)))
    process.wait_line("ready")
    return process


def wait_done(process: Any, timeout_s: float = 60.0) -> int:
    """Return the bytes that came over the network."""
    fetched = int(process.wait_line(r"fetched (\d+)", timeout_s)[1])
    process.wait_line("done")
    return fetched


def wait_half(process: Any, ref: BlobRef) -> int:
    while True:
        stored_bytes = int(process.wait_line(r"progress (\d+)")[1])
        if stored_bytes > ref.size_bytes // 3:
            return stored_bytes


@contextmanager
def memory_growth(*processes: Any) -> Iterator[list[int]]:
    """Give a list that holds, after the block, each process's peak growth of anonymous memory in bytes."""
    idle = [process.anonymous_bytes() for process in processes]
    peaks, stop = list(idle), threading.Event()

    def sample() -> None:
        while not stop.wait(0.002):
            for index, process in enumerate(processes):
                peaks[index] = max(peaks[index], process.anonymous_bytes())

    thread, growth = threading.Thread(target=sample), []
    thread.start()
    try:
        yield growth
    finally:
        stop.set()
        thread.join()
        growth += [peak - start for peak, start in zip(peaks, idle, strict=True)]


def assert_intact(store: BlobStore, ref: BlobRef) -> None:
    assert files.hash_file(store.path(ref.digest)) == ref
    assert [path.name for path in store.root.iterdir()] == [ref.digest]


def test_125_mb_arrive_intact_in_little_memory(
    ros_process: Callable[..., Any], sender_store: BlobStore, store: BlobStore, big: BlobRef
) -> None:
    tx, rx = sender(ros_process, sender_store), receiver(ros_process, store, big)
    idle = tx.anonymous_bytes(), rx.anonymous_bytes()

    with memory_growth(tx, rx) as growth:
        rx.tell()
        fetched = wait_done(rx)

    assert_intact(store, big)
    assert fetched < big.size_bytes + 8 * MB
    assert min(idle) > 5 * MB  # the samples are real
    assert max(growth) < GROWTH_BYTES, growth
    rx.tell()
    assert rx.wait() == 0 and tx.stop() == 0


def test_a_receiver_that_asks_before_the_sender_exists(
    ros_process: Callable[..., Any], sender_store: BlobStore, store: BlobStore, big: BlobRef
) -> None:
    rx = receiver(ros_process, store, big)
    rx.tell()
    tx = sender(ros_process, sender_store)

    with memory_growth(tx, rx) as growth:
        wait_done(rx)

    assert_intact(store, big)
    assert max(growth) < GROWTH_BYTES, growth


def test_a_receiver_that_is_killed_half_way_fetches_only_the_rest(
    ros_process: Callable[..., Any], sender_store: BlobStore, store: BlobStore, big: BlobRef
) -> None:
    tx, rx = sender(ros_process, sender_store), receiver(ros_process, store, big)
    rx.tell()
    stored_bytes = wait_half(rx, big)
    rx.kill()
    assert not store.has(big.digest)

    again = receiver(ros_process, store, big)
    with memory_growth(tx, again) as growth:
        again.tell()
        fetched = wait_done(again)

    assert_intact(store, big)
    assert fetched <= big.size_bytes - stored_bytes
    assert max(growth) < GROWTH_BYTES, growth


def test_a_sender_that_is_killed_half_way_and_returns(
    ros_process: Callable[..., Any], sender_store: BlobStore, store: BlobStore, big: BlobRef
) -> None:
    tx, rx = sender(ros_process, sender_store), receiver(ros_process, store, big)
    rx.tell()
    wait_half(rx, big)
    tx.kill()

    tx = sender(ros_process, sender_store)
    with memory_growth(tx, rx) as growth:
        fetched = wait_done(rx)

    assert_intact(store, big)
    assert fetched == big.size_bytes  # no chunk was stored twice
    assert max(growth) < GROWTH_BYTES, growth


def test_repeated_reordered_lost_and_damaged_chunks(
    ros_process: Callable[..., Any], sender_store: BlobStore, store: BlobStore, big: BlobRef
) -> None:
    tx = ros_process("blob_scrambler.py", sender_store.root, SERVICE)
    tx.wait_line("ready")
    rx = receiver(ros_process, store, big)

    with memory_growth(tx, rx) as growth:
        rx.tell()
        fetched = wait_done(rx, timeout_s=100.0)

    assert_intact(store, big)
    assert fetched == big.size_bytes
    assert max(growth) < GROWTH_BYTES, growth


def test_three_robots_read_at_once(ros_process: Callable[..., Any], tmp_path: Path) -> None:
    source = BlobStore(tmp_path / "source")
    ref = put(source, 20 * MB)
    services = [f"/robot{number}/read_blob" for number in range(3)]
    sender(ros_process, source, *services)
    stores = [BlobStore(tmp_path / f"robot{number}") for number in range(3)]
    robots = [receiver(ros_process, s, ref, service) for s, service in zip(stores, services, strict=True)]

    for robot in robots:
        robot.tell()
    for robot, robot_store in zip(robots, stores, strict=True):
        wait_done(robot)
        assert_intact(robot_store, ref)


def test_a_blob_the_sender_does_not_have(ros_process: Callable[..., Any], store: BlobStore, tmp_path: Path) -> None:
    sender(ros_process, BlobStore(tmp_path / "empty"))
    rx = receiver(ros_process, store, BlobRef("0" * 64, MB))
    rx.tell()

    assert rx.wait_line("error (.*)")[1] == "blob 000000000000 is not with the sender any more (code 1)"


def test_a_sender_whose_disk_lies(ros_process: Callable[..., Any], store: BlobStore, tmp_path: Path) -> None:
    source = BlobStore(tmp_path / "source")
    ref = put(source, 3 * MB)
    with source.path(ref.digest).open("r+b") as file:
        file.seek(2 * MB)
        file.write(b"not what was hashed")
    sender(ros_process, source)
    rx = receiver(ros_process, store, ref)
    rx.tell()

    text = f"the bytes of blob {ref.digest[:12]} do not give its digest; they were dropped"
    assert rx.wait_line("error (.*)")[1] == text
    assert list(store.root.iterdir()) == []


def test_a_killed_process_leaves_no_shared_memory(ros_process: Callable[..., Any], tmp_path: Path) -> None:
    tx = sender(ros_process, BlobStore(tmp_path / "empty"))
    maps = Path(f"/proc/{tx.pid}/maps").read_text()
    own = {Path(line.split()[-1]) for line in maps.splitlines() if "/dev/shm/fastdds_" in line and "_port" not in line}
    assert own and all(path.exists() for path in own)

    tx.kill()

    assert not any(path.exists() for path in own)
