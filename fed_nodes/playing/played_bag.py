"""Keeps what an inference node was shown, and the depth it gave, as a bag that other tools open."""

from pathlib import Path

import numpy as np
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image

from fed_core.data.bag_topics import IMAGE
from fed_core.data.bag_writer import BagWriter
from fed_core.data.options import TopicNames
from fed_core.types import DepthFrame
from fed_nodes.live.depth import DEPTH as PREDICTED
from fed_nodes.sensing.frames import COLOUR, DEPTH, INFO


class PlayedBag:
    """A new bag with the topics of one namespace, as a recorder beside the node would have written it.

    Args:
        path: new folder; it can be read after :meth:`close`.
        namespace: of the inference node ("/live").
    """

    def __init__(self, path: Path, namespace: str) -> None:
        space = namespace.rstrip("/")
        names = TopicNames(f"{space}/{COLOUR}", f"{space}/{DEPTH}", f"{space}/{INFO}")
        self._predicted = f"{space}/{PREDICTED}"
        self._writer = BagWriter(path, topics=names, compress=True)

    def add(self, frame: DepthFrame, depth: Image) -> None:
        """Append a frame and the depth that was predicted for it."""
        self._writer.add(frame, depth=bool(np.isfinite(frame.depth_m).any()))
        self._writer.add_message(self._predicted, IMAGE, frame.stamp_ns, bytes(serialize_message(depth)))

    def close(self) -> None:
        """Finish the bag."""
        self._writer.close()
