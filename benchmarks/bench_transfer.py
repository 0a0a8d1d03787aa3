"""A 125 MB blob over ROS 2 against the same bytes over a raw loopback TCP socket, and what it costs in memory.

Run it without arguments. Each figure is the best of 5; the ROS time runs from the request to the verified file on
disk, the TCP time to the last byte in memory. ``control_s`` hashes the blob in one thread: it tells how busy the
machine was.
"""

import hashlib
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from machine import machine  # noqa: E402

from fed_core.store.blobs import BlobStore  # noqa: E402
from fed_core.types import BlobRef  # noqa: E402

SIZE_MB = 125
REPEATS = 5
SERVICE = "/bench/read_blob"
DOMAIN_ID = 99


def serve(root: str) -> None:
    """Child process: serve a store over ROS 2 until it is interrupted."""
    import rclpy
    from rclpy.executors import ExternalShutdownException

    from fed_nodes.blobs import RosBlobChannel

    rclpy.init()
    node = rclpy.create_node("bench_sender")
    channel = RosBlobChannel(node, BlobStore(Path(root)))
    channel.serve(SERVICE)
    print("ready", flush=True)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        channel.close()
        node.destroy_node()
        rclpy.try_shutdown()


def receive(root: str, digest: str, size_bytes: str) -> None:
    """Child process: fetch the blob once for each line of input, print the seconds, drop it again."""
    import rclpy

    from fed_nodes.blobs import RosBlobChannel

    rclpy.init()
    node = rclpy.create_node("bench_receiver")
    store, ref = BlobStore(Path(root)), BlobRef(digest, int(size_bytes))
    channel = RosBlobChannel(node, store)
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    print("ready", flush=True)
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    for _ in sys.stdin:
        start_s = time.perf_counter()
        channel.fetch(
            ref, SERVICE, on_done=lambda _ref: ended.put(""), on_error=lambda _ref, error: ended.put(str(error))
        )
        print(ended.get() or f"{time.perf_counter() - start_s:.6f}", flush=True)
        store.collect([])
    channel.close()
    executor.shutdown()
    thread.join()
    node.destroy_node()
    rclpy.try_shutdown()


def send_tcp(path: str) -> None:
    """Child process: send the file's bytes to everyone who connects."""
    data = Path(path).read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        for _ in range(REPEATS):
            connection, _address = server.accept()
            with connection:
                connection.recv(1)
                connection.sendall(data)


def start(*arguments: object) -> "subprocess.Popen[str]":
    """Start this file as a child process and return it once it is ready."""
    environment = {
        **os.environ,
        "ROS_DOMAIN_ID": str(DOMAIN_ID),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "FASTDDS_DEFAULT_PROFILES_FILE": str(ROOT / "config" / "fastdds" / "fleet.xml"),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment)


def line_of(child: "subprocess.Popen[str]") -> str:
    """Return the next line of a child's output."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: "subprocess.Popen[str]") -> None:
    """Send a child one empty line."""
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def anonymous_mb(child: "subprocess.Popen[str]") -> float:
    """Return the anonymous resident memory of a child in MiB."""
    match = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text(encoding="utf-8"))
    return int(match[1]) / 1024 if match else 0.0


@contextmanager
def peaks_mb(*children: "subprocess.Popen[str]") -> Iterator[list[float]]:
    """Give a list of the children's peak memory that is kept up to date inside the block."""
    peaks, stop = [anonymous_mb(child) for child in children], threading.Event()

    def sample() -> None:
        while not stop.wait(0.002):
            for index, child in enumerate(children):
                peaks[index] = max(peaks[index], anonymous_mb(child))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def ros_figures(folder: Path, ref: BlobRef) -> dict[str, float]:
    """Fetch the blob over ROS 2, first without and then (memory only) with a sampler beside it."""
    sender = start("serve", folder / "sender")
    line_of(sender)
    receiver = start("receive", folder / "receiver", ref.digest, ref.size_bytes)
    line_of(receiver)
    time.sleep(1.0)  # idle: what the processes hold before anything was asked
    idle = anonymous_mb(sender), anonymous_mb(receiver)
    with peaks_mb(sender, receiver) as peaks:
        tell(receiver)
        line_of(receiver)
    seconds = []
    for _ in range(REPEATS):
        tell(receiver)
        seconds.append(float(line_of(receiver)))
    assert receiver.stdin is not None
    receiver.stdin.close()
    receiver.wait(20)
    sender.send_signal(signal.SIGINT)
    sender.wait(20)
    return {
        "ros_s": min(seconds),
        "ros_worst_s": max(seconds),
        "sender_anon_mb": round(peaks[0] - idle[0], 1),
        "receiver_anon_mb": round(peaks[1] - idle[1], 1),
    }


def tcp_seconds(path: Path) -> float:
    """Return the best time of a raw TCP copy into memory."""
    sender, seconds = start("send_tcp", path), []
    port = int(line_of(sender))
    buffer = memoryview(bytearray(path.stat().st_size))
    for _ in range(REPEATS):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            start_s, got = time.perf_counter(), 0
            connection.sendall(b"x")
            while got < len(buffer):
                got += connection.recv_into(buffer[got:])
            seconds.append(time.perf_counter() - start_s)
    sender.wait(20)
    return min(seconds)


def control_seconds(path: Path) -> float:
    """Return the best time to hash the blob."""
    data, seconds = path.read_bytes(), []
    for _ in range(REPEATS):
        start_s = time.perf_counter()
        hashlib.sha256(data).digest()
        seconds.append(time.perf_counter() - start_s)
    return min(seconds)


def main() -> None:
    """Measure and print one JSON line."""
    with tempfile.TemporaryDirectory(prefix="bench_transfer_") as name:
        folder = Path(name)
        store = BlobStore(folder / "sender")
        scratch = store.scratch()
        scratch.write_bytes(np.random.default_rng(0).bytes(SIZE_MB << 20))
        ref = store.put_file(scratch)
        ros = ros_figures(folder, ref)
        tcp_s = tcp_seconds(store.path(ref.digest))
        control_s = control_seconds(store.path(ref.digest))
    figures: dict[str, Any] = {
        "ros_vs_tcp": round(tcp_s / ros["ros_s"], 3),
        "receiver_anon_mb": ros["receiver_anon_mb"],
        "sender_anon_mb": ros["sender_anon_mb"],
        "mb_per_s": round(SIZE_MB / ros["ros_s"], 1),
        "worst_mb_per_s": round(SIZE_MB / ros["ros_worst_s"], 1),
        "tcp_mb_per_s": round(SIZE_MB / tcp_s, 1),
        "control_s": round(control_s, 4),
    }
    print(json.dumps({"bench": "transfer", "figures": figures, "machine": machine()}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"serve": serve, "receive": receive, "send_tcp": send_tcp}[sys.argv[1]](*sys.argv[2:])
    else:
        main()
