"""A small fleet of real processes for tests: tiny recordings, a tiny network, and a node that watches its topics."""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
import yaml
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor

from fed_core.data.bag_writer import write_bag
from fed_core.types import DepthFrame

#: The smallest input of adabins_s: 36 patches for 33 tokens.
NETWORK = {"height": 96, "width": 96, "d_max": 20.0}
YEAR_NS = 31_556_952 * 1_000_000_000


class Frames:
    """A synthetic recording, (48, 64) pixels: a slope with a box on it, in the colour of its place."""

    def __init__(self, name: str, colour: tuple[int, int, int], *, start_ns: int, frames: int, blind: bool) -> None:
        self.name, self.source = name, "synthetic"
        self._colour, self._start_ns, self._frames, self._blind = colour, start_ns, frames, blind

    def __len__(self) -> int:
        return self._frames

    def __getitem__(self, index: int) -> DepthFrame:
        if not 0 <= index < self._frames:
            raise IndexError(index)
        rng = np.random.default_rng([index, *self._colour])
        depth = np.repeat(np.linspace(8.0, 1.0, 48, dtype=np.float32)[:, None], 64, axis=1)
        column = 4 * (index % 12)
        depth[20:36, column : column + 12] = 2.0
        shade = np.clip(1.2 - depth / 10.0, 0.0, 1.0)[..., None]
        rgb = shade * np.array(self._colour) + rng.normal(0.0, 6.0, (48, 64, 3))
        return DepthFrame(
            rgb=np.clip(rgb, 0, 255).astype(np.uint8),
            depth_m=np.full_like(depth, np.nan) if self._blind else depth,
            stamp_ns=self._start_ns + index * 100_000_000,
            intrinsics=np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]]),
            frame_id=f"{self.name}_optical",
        )


def record(
    path: Path,
    colour: tuple[int, int, int] = (60, 200, 60),
    *,
    year: int = 2020,
    frames: int = 10,
    blind: bool = False,
) -> Path:
    """Write a bag that was taken in ``year``; ``blind`` ones have no valid depth."""
    start_ns = (year - 1970) * YEAR_NS
    return write_bag(Frames(path.name, colour, start_ns=start_ns, frames=frames, blind=blind), path)


class Watcher:
    """A node of the test's own process that keeps what arrives and wakes whoever waits for it."""

    def __init__(self, domain_id: int) -> None:
        self._context = Context()
        rclpy.init(context=self._context, domain_id=domain_id)
        self.node = rclpy.create_node("watcher", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._executor.spin, daemon=True)
        self._thread.start()
        self._changed = threading.Condition()
        self.messages: dict[str, list[Any]] = {}

    def watch(self, kind: type, topic: str, profile: Any) -> None:
        """Keep all messages of a topic in ``messages[topic]``."""
        kept: list[Any] = self.messages.setdefault(topic, [])

        def keep(msg: Any) -> None:
            with self._changed:
                kept.append(msg)
                self._changed.notify_all()

        self.node.create_subscription(kind, topic, keep, profile)
        self._executor.wake()

    def wait(self, topic: str, wanted: Callable[[Any], bool], timeout_s: float = 40.0) -> Any:
        """Return the first message of ``topic``, past ones too, for which ``wanted`` is true."""
        with self._changed:
            kept = self.messages[topic]
            found = self._changed.wait_for(lambda: [m for m in kept if wanted(m)], timeout_s)
            if not found:
                last = kept[-1] if kept else "nothing came"
                pytest.fail(f"no such message on {topic} within {timeout_s} s; last: {str(last)[:600]}")
            return found[0]

    def until(
        self, condition: Callable[[], Any], timeout_s: float = 20.0, tell: Callable[[], str] = lambda: "not true"
    ) -> Any:
        """Return the first true value of ``condition``, asked again whenever the graph changes or 50 ms passed."""
        deadline_s = time.monotonic() + timeout_s
        while not (value := condition()):
            if time.monotonic() > deadline_s:
                pytest.fail(f"{tell()} within {timeout_s} s")
            with self._changed:
                self._changed.wait(0.05)
        return value

    def call(self, client: Any, request: Any, timeout_s: float = 20.0) -> Any:
        """Return the answer of a service."""
        done = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        self._executor.wake()
        if not done.wait(timeout_s):
            pytest.fail(f"{client.srv_name} gave no answer within {timeout_s} s")
        return future.result()

    def close(self) -> None:
        self._executor.shutdown()
        self._thread.join(5.0)
        self.node.destroy_node()
        rclpy.try_shutdown(context=self._context)


class Fleet:
    """Starts nodes with short-test parameters; keyword arguments of each method override them."""

    def __init__(self, folder: Path, domain_id: int, start: Callable[..., Any]) -> None:
        self.folder, self._start, self._domain_id = folder, start, domain_id
        self._watcher: Watcher | None = None
        self._files = 0
        self.nodes: dict[str, Any] = {}

    @property
    def watcher(self) -> Watcher:
        if self._watcher is None:
            self._watcher = Watcher(self._domain_id)
        return self._watcher

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()

    def node(self, executable: str, namespace: str = "", *, prefix: tuple[str, ...] = (), **parameters: Any) -> Any:
        """Start one node."""
        self._files += 1
        path = self.folder / f"params_{self._files}.yaml"
        tree = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in parameters.items()}
        tree = {k: str(v) if isinstance(v, Path) else v for k, v in tree.items()}
        path.write_text(yaml.safe_dump({"/**": {"ros__parameters": tree}}))
        command = [*prefix, sys.executable, "-m", f"fed_nodes.{executable}", "--ros-args"]
        if namespace:
            command += ["-r", f"__ns:=/{namespace}"]
        return self._start([*command, "--params-file", str(path)])

    def aggregator(self, **parameters: Any) -> Any:
        """Start the aggregator of run "tiny"."""
        defaults = {
            "run": "tiny",
            "runs_dir": self.folder / "aggregator",
            "strategy": "fedavg",
            "network_options": NETWORK,
            "train": {"lr": 3e-3, "augment": False},
            "rounds": 2,
            "min_robots": 2,
        }
        return self.node("aggregator", **{**defaults, **parameters})

    def robot(self, name: str, *, prefix: tuple[str, ...] = (), **parameters: Any) -> Any:
        """Start a robot that records from topics, or trains on ``source``."""
        defaults = {
            "robot_id": name,
            "state_dir": self.folder / "robots" / name,
            "network_options": NETWORK,
            "record_frames": 10,
            "reliable_sensors": True,
            "retry_s": 0.5,
            "scheduling": "normal",  # on a busy machine, idle ones would wait for ever
        }
        return self.node("robot_client", name, prefix=prefix, **{**defaults, **parameters})

    def replay(self, namespace: str, bag: Path, **parameters: Any) -> Any:
        """Start a replay."""
        defaults = {"source": {"data": str(bag)}, "rate_hz": 50.0, "reliable": True}
        return self.node("replay", namespace, **{**defaults, **parameters})

    def inference(self, namespace: str = "live", **parameters: Any) -> Any:
        """Start an inference node."""
        defaults = {
            "reader_id": f"{namespace}_inference",
            "state_dir": self.folder / "inference",
            "descriptor_frames": 4,
            "reliable_sensors": True,
        }
        return self.node("inference", namespace, **{**defaults, **parameters})
