"""The inference node as it is, with a stop-watch and a meter of memory.

They tell when an image's callback begins, what its forward pass takes, when its depth is published, and how much NumPy
and Python hold in between.

Nothing of the node is replaced: subscriptions, publishers and networks are wrapped from outside, before it starts. At
the end it writes one JSON line per frame to the file named by ``LIVE_TIMES``; with ``LIVE_MEMORY`` set, sizes, too.
"""

import json
import os
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import rclpy.node
import rclpy.publisher
import torch
from sensor_msgs.msg import Image

import fed_models
from fed_core.tasks.depth.task import DepthTask
from fed_nodes import inference
from fed_nodes.convert.images import stamp_ns

MEMORY = bool(os.environ.get("LIVE_MEMORY"))


class Watch:
    """Times by frame; forward passes are told in the order in which their depth is published."""

    def __init__(self) -> None:
        self.begun: dict[int, float] = {}
        self.frames: list[dict[str, float]] = []
        self.forward_s = float("nan")
        self.held_in = self.held_out = 0

    def on_image(self, msg: Image) -> None:
        """An image's callback begins."""
        self.begun[stamp_ns(msg.header.stamp)] = time.perf_counter()
        _mark()

    def forward(self, network: Any) -> Any:
        """Wrap a network's forward pass."""
        plain = network.forward

        def timed(*args: Any, **kwargs: Any) -> Any:
            self.held_in = _held()
            start = time.perf_counter()
            result = plain(*args, **kwargs)
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            self.forward_s = time.perf_counter() - start
            return result

        network.forward = timed
        return network

    def predict(self, plain: Any) -> Any:
        """Wrap the prediction of a task: what is taken after it is on the way out."""

        def marked(*args: Any) -> Any:
            result = plain(*args)
            _mark()
            return result

        return marked

    def on_depth(self, msg: Image) -> None:
        """A depth image is published."""
        now, self.held_out = time.perf_counter(), _held()
        stamp = stamp_ns(msg.header.stamp)
        begun = self.begun.pop(stamp, None)
        if begun is not None:
            figures = {"stamp": stamp, "total_ms": 1e3 * (now - begun), "forward_ms": 1e3 * self.forward_s}
            self.frames.append({**figures, "held_in": self.held_in, "held_out": self.held_out})

    def write(self, path: Path) -> None:
        """Write one line per frame."""
        path.write_text("".join(json.dumps(frame) + "\n" for frame in self.frames), encoding="utf-8")


def _mark() -> None:
    if MEMORY:
        tracemalloc.reset_peak()
        tracemalloc.clear_traces()


def _held() -> int:
    return tracemalloc.get_traced_memory()[1] if MEMORY else 0


def watch_node(watch: Watch) -> None:
    """Wrap what the node is made of."""
    subscribe, publish, build = rclpy.node.Node.create_subscription, rclpy.publisher.Publisher.publish, fed_models.build

    def create_subscription(node: Any, kind: Any, topic: str, callback: Any, *args: Any, **kwargs: Any) -> Any:
        def called(msg: Any) -> None:
            watch.on_image(msg)
            callback(msg)

        return subscribe(node, kind, topic, called if kind is Image else callback, *args, **kwargs)

    def published(publisher: Any, msg: Any) -> None:
        publish(publisher, msg)
        if isinstance(msg, Image):
            watch.on_depth(msg)

    rclpy.node.Node.create_subscription = create_subscription  # type: ignore[method-assign]
    rclpy.publisher.Publisher.publish = published  # type: ignore[method-assign,assignment]
    fed_models.build = lambda *args: watch.forward(build(*args))
    DepthTask.predict = watch.predict(DepthTask.predict)  # type: ignore[method-assign]


def main() -> int:
    """Run the node, then write the times."""
    watch = Watch()
    watch_node(watch)
    if MEMORY:
        tracemalloc.start()
    code = inference.main()
    watch.write(Path(os.environ["LIVE_TIMES"]))
    return code


if __name__ == "__main__":
    sys.exit(main())
