"""A node that serves every blob of a store: blob_sender.py STORE SERVICE..."""

import sys
from pathlib import Path

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

from fed_core.store.blobs import BlobStore
from fed_nodes.blobs import RosBlobChannel


def main() -> None:
    """Serve until a signal comes."""
    rclpy.init()
    node = Node("sender")
    channel = RosBlobChannel(node, BlobStore(Path(sys.argv[1])))
    for service in sys.argv[2:]:
        channel.serve(service)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        channel.close()
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
