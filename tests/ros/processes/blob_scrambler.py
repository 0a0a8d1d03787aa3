"""A blob server on a bad network: it drops, repeats, damages and reorders answers. blob_scrambler.py STORE SERVICE.

A service answers each request at once and once, so this server sends its answers by itself through the service's
own response call: from a pool, in random order, some of them twice, some never, some with a flipped byte.
"""

import random
import sys
from pathlib import Path

import rclpy
from fed_msgs.srv import ReadBlob
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

from fed_core.store.blobs import BlobStore
from fed_nodes import qos
from fed_nodes.blobs import BlobServer

POOL = 4


class Scrambler(Node):
    """Keeps up to POOL answers and sends them in random order."""

    def __init__(self, store: BlobStore, service: str) -> None:
        super().__init__("scrambler")
        self._random = random.Random(7)
        self._pool: list[tuple[object, ReadBlob.Response]] = []
        self._server = BlobServer(self, store)
        self._service = self.create_service(ReadBlob, service, self._server.answer, qos_profile=qos.BLOBS)
        # rclpy hands the header of a request to send_response; holding it back is what reorders the answers.
        self._service.send_response = self._hold  # type: ignore[method-assign]
        self.create_timer(0.005, self._release)

    def _hold(self, response: ReadBlob.Response, header: object) -> None:
        self._pool.append((header, response))
        if len(self._pool) > POOL:
            self._release()

    def _release(self) -> None:
        if not self._pool:
            return
        header, response = self._pool.pop(self._random.randrange(len(self._pool)))
        fate = self._random.random()
        if fate < 0.03:
            return
        if fate < 0.08:
            response.data[len(response.data) // 2] ^= 1
        for _ in range(2 if fate > 0.8 else 1):
            type(self._service).send_response(self._service, response, header)


def main() -> None:
    """Serve until a signal comes."""
    rclpy.init()
    node = Scrambler(BlobStore(Path(sys.argv[1])), sys.argv[2])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
