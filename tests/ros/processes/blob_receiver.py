"""A node that fetches one blob: blob_receiver.py STORE SERVICE DIGEST SIZE_BYTES.

It prints "ready" when the node is idle and starts at the first line on its input. Then it prints "progress BYTES",
"fetched BYTES" (over the network, in this process) and "done SECONDS", or "error TEXT".
"""

import sys
import threading
import time
from pathlib import Path

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_nodes import blob_client
from fed_nodes.blobs import RosBlobChannel

blob_client.PROGRESS_EVERY_S = 0.0  # the tests kill at a certain chunk


def say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Fetch, report, stop."""
    store, service, digest, size_bytes = sys.argv[1:5]
    rclpy.init()
    node = Node("receiver")
    channel = RosBlobChannel(node, BlobStore(Path(store)))
    ended = threading.Event()

    def on_done(ref: BlobRef) -> None:
        say(f"fetched {channel.received_bytes}")
        say(f"done {time.monotonic() - start_s:.6f}")
        ended.set()

    def on_error(ref: BlobRef, error: Exception) -> None:
        say(f"error {error}")
        ended.set()

    def on_progress(ref: BlobRef, stored_bytes: int) -> None:
        say(f"progress {stored_bytes}")

    thread = threading.Thread(target=spin, args=(node,), daemon=True)
    thread.start()
    say("ready")
    sys.stdin.readline()
    start_s = time.monotonic()
    ref = BlobRef(digest, int(size_bytes))
    channel.fetch(ref, service, on_done=on_done, on_error=on_error, on_progress=on_progress)
    try:
        ended.wait()
        sys.stdin.readline()  # stay idle until told, so that memory can be looked at
    except KeyboardInterrupt:
        pass
    channel.close()
    rclpy.try_shutdown()
    thread.join(5.0)


def spin(node: Node) -> None:
    """Spin until shutdown."""
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass


if __name__ == "__main__":
    main()
