"""Plays a sequence to a live inference node, frame by frame, and scores what comes back: depth, a map, or boxes.

The next frame is sent only when the output of the last one arrived, so that no frame is lost by chance. Scored are the
frames after those that choose the models, for every method alike (fedepth spec 6.1). Frames that cannot be read are
left out. With ``record`` what went in and came out is kept as a bag; a sequence without any truth is played, too.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fed_msgs.msg import Selection
from rclpy.node import Node
from std_srvs.srv import Trigger

from fed_core.config import check, option
from fed_core.data.samples import TASKS, open_samples
from fed_core.errors import ConfigError, DataError, FedError
from fed_core.wire.files import write_text
from fed_nodes import params, qos, run
from fed_nodes.convert.images import stamp_ns
from fed_nodes.judges import judge_of
from fed_nodes.monitor import selection_to_json
from fed_nodes.playing.frame_player import publisher_of
from fed_nodes.playing.played_bag import PlayedBag
from fed_nodes.timers import steady_timer


@dataclass(frozen=True)
class ScoreConfig:
    """What is scored and where the result goes."""

    task: str = option(
        "depth", help="what is scored: depth, bev (map around a vehicle) or detection (boxes)", choices=TASKS
    )
    source: Mapping[str, Any] = field(
        default_factory=dict, metadata={"help": "held-out recording, as in a fleet file, as YAML"}
    )
    source_base: Path = option(Path(), help="folder that relative paths of source start from")
    name: str = option("sequence", help="name of the sequence in the result")
    out: Path = option(Path("score.json"), help="file of the result; panels go beside it as .npz")
    descriptor_frames: int = option(8, help="frames that choose the models, as in inference", unit="count", low=2)
    cap_m: float = option(80.0, help="task depth: largest true depth that is scored", unit="m", low=0.1)
    panels: int = option(3, help="frames kept as pictures", unit="count", low=0, high=100)
    record: str = option("", help="task depth: new bag (a folder) of the frames and the depth they got; empty = none")
    timeout_s: float = option(60.0, help="longest wait for one answer", unit="s", low=1.0)

    def __post_init__(self) -> None:
        check(self)
        if not self.source:
            raise ConfigError("score needs a source, for example -p source:=\"'{data: my_bag}'\"")
        if self.record and self.task != "depth":
            raise ConfigError(f"record keeps the frames of task depth, not of {self.task}; leave it empty")


class ScoreNode(Node):
    """Scores one sequence and ends. Parameters: ScoreConfig."""

    def __init__(self) -> None:
        super().__init__("score")
        self._config = params.load(self, ScoreConfig)
        task = self._config.task
        self._sequence = open_samples(task, dict(self._config.source), self._config.source_base)
        if len(self._sequence) <= self._config.descriptor_frames:
            raise ConfigError(
                f"{self._config.name} has {len(self._sequence)} frames; "
                f"scoring needs more than descriptor_frames ({self._config.descriptor_frames})"
            )
        self._publisher: Any = publisher_of(self, task, self._sequence[0], reliable=True)
        self._judge = judge_of(task, self._config.cap_m, self._sequence)
        self._played = PlayedBag(Path(self._config.record), self.get_namespace()) if self._config.record else None
        self._next, self._sent = 0, 0  # frames gone through, and those that could be read
        self._frame: Any = None
        self._first_ns = 0
        self._selection: Selection | None = None
        self._panels: dict[str, Any] = {}
        self._num_panels = 0
        self._since_s = time.monotonic()
        self._started = False
        self.create_subscription(self._judge.kind, self._judge.topic, self._on_output, qos.OUTPUTS)
        self.create_subscription(Selection, "selection", self._on_selection, qos.LATCHED)
        self._boundary: Any = self.create_client(Trigger, "new_sequence")
        self._timer = steady_timer(self, 0.02, self._step)

    def _step(self) -> None:
        """Move on where no answer is awaited: until the first frame, and through those that choose the models."""
        if time.monotonic() - self._since_s > self._config.timeout_s:
            self._timer.cancel()
            raise FedError(f"no answer from inference for {self._config.timeout_s:g} s at frame {self._next}")
        if not self._started:
            ready = self._boundary.service_is_ready() and self._publisher.readers() > 0
            if ready and self.count_publishers(self._judge.topic) > 0:
                self._started = True
                self._boundary.call_async(Trigger.Request()).add_done_callback(lambda _: self._send())
        elif 0 < self._sent < self._config.descriptor_frames:
            self._send()
        elif self._selection is not None and self._sent == self._config.descriptor_frames:
            self._send()

    def _send(self) -> None:
        frame = self._read_on()
        if frame is None:
            self._finish()
            return
        if self._sent == 0:
            self._first_ns = frame.stamp_ns
        self._frame = frame
        self._sent += 1
        self._since_s = time.monotonic()
        self.get_logger().info(f"frame {self._next} of {len(self._sequence)}", throttle_duration_sec=1.0)
        self._publisher.publish(frame)

    def _read_on(self) -> Any:
        """Return the next frame that can be read; None at the end."""
        while self._next < len(self._sequence):
            self._next += 1
            try:
                return self._sequence[self._next - 1]
            except DataError as err:
                self.get_logger().warning(f"skipped frame {self._next - 1}: {err}", throttle_duration_sec=1.0)
        return None

    def _on_selection(self, msg: Selection) -> None:
        if self._sent == 0 or stamp_ns(msg.header.stamp) != self._first_ns or self._selection is not None:
            return
        self._selection = msg

    def _on_output(self, msg: Any) -> None:
        frame = self._frame
        if frame is None or self._judge.time_ns(msg) != frame.stamp_ns:
            return
        if self._sent <= self._config.descriptor_frames:
            return
        self._keep_panel(self._judge.add(msg, frame))
        if self._played is not None:
            self._played.add(frame, msg)
        self._frame = None
        self._send()

    def _keep_panel(self, arrays: Mapping[str, Any]) -> None:
        scored = len(self._sequence) - self._config.descriptor_frames
        wanted = {int(place) for place in np.linspace(0, scored - 1, self._config.panels + 2)[1:-1]}
        if self._sent - 1 - self._config.descriptor_frames in wanted:
            self._panels |= {f"{name}_{self._num_panels}": array for name, array in arrays.items()}
            self._num_panels += 1

    def _finish(self) -> None:
        if self._selection is None:
            raise FedError("the sequence ended before inference chose its models")
        found = self._judge.result()
        if self._played is not None:
            self._played.close()
            found = found or {"frames": 0, "metrics": {}}
        if found is None:
            raise FedError(f"no frame of {self._config.name} has {self._judge.lacking} to score against")
        result = {
            "name": self._config.name,
            "task": self._config.task,
            **found,
            "selection": selection_to_json(self._selection),
        }
        if self._config.panels:
            np.savez_compressed(self._config.out.with_suffix(".npz"), **self._panels)
        write_text(self._config.out, json.dumps(result, indent=2))
        self._timer.cancel()
        raise run.Finished


def main() -> int:
    """Run the node."""
    return run.main(ScoreNode)


if __name__ == "__main__":
    sys.exit(main())
