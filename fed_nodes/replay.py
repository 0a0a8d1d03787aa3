"""Publishes a recording as a robot's sensors would, and a ``clock`` of its own.

Task depth: colour, depth and camera; an M3ED recording also gives its event cameras. Task bev: all cameras of a vehicle
and the true map. Task detection: all cameras, the LiDAR and the true boxes. Task any: every topic of a bag. What plays
them is in :mod:`fed_nodes.playing`.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger

from fed_core.config import check, option
from fed_core.data.open import data_path
from fed_core.data.samples import TASKS, open_samples
from fed_core.errors import ConfigError
from fed_nodes import params, run
from fed_nodes.diagnostics import Diagnostics
from fed_nodes.playing.bag_player import BagPlayer
from fed_nodes.playing.frame_player import FramePlayer
from fed_nodes.playing.pace import LONGEST_PAUSE_S, Pace
from fed_nodes.timers import steady_timer

#: No task: all topics of a bag, and the key of its source.
ANY, BAG_KEY = "any", "bag"
#: Messages or frames that are played before others may have the executor.
_AT_ONCE = 50
#: How often [s] a replay looks whether there is a reader.
_LOOK_S = 0.05


@dataclass(frozen=True)
class ReplayConfig:
    """What is replayed and how (``config/replay.yaml``)."""

    task: str = option(
        "depth",
        help="depth, bev (all cameras), detection (and a LiDAR), any (all topics of a bag)",
        choices=(*TASKS, ANY),
    )
    source: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "recording, as in a fleet file, as YAML"})
    source_base: Path = option(Path(), help="folder that relative paths of source start from")
    topics: Mapping[str, str] = field(
        default_factory=dict, metadata={"help": "task any: new names of topics by recorded name, as YAML"}
    )
    rate_hz: float = option(
        10.0,
        help="frames per second, where speed is 0 (task any: not used)",
        unit="Hz",
        low=0.1,
        high=1000.0,
        live=True,
    )
    speed: float = option(
        0.0, help="times the recorded speed; 0 = rate_hz (task any: as recorded)", low=0.0, high=1000.0, live=True
    )
    reliable: bool = option(False, help="deliver every frame, and wait for a reader before the first one")
    loop: bool = option(False, help="start again at the end", live=True)
    start_paused: bool = option(False, help="wait for the service start before the first frame")

    def __post_init__(self) -> None:
        check(self)
        if not self.source:
            raise ConfigError("replay needs a source, for example -p source:=\"'{data: my_bag}'\"")
        if (self.task == ANY) != (list(self.source) == [BAG_KEY]):
            raise ConfigError("task any plays a bag, and only it does: -p source:=\"'{bag: PATH}'\"")
        if self.topics and self.task != ANY:
            raise ConfigError("topics names the topics of a bag; it needs task any")


class ReplayNode(Node):
    """Plays one recording. Parameters: ReplayConfig; services ``~/start``, ``~/stop`` and ``~/restart``."""

    def __init__(self) -> None:
        super().__init__("replay")
        self._config = params.load(self, ReplayConfig, self._on_change)
        if "generated" in self._config.source:
            self.get_logger().info("rendering the generated source; this may take a while")
        self._player = _player(self, self._config)
        pause_s = math.inf if self._config.task == ANY else LONGEST_PAUSE_S
        self._pace = Pace(self._config.rate_hz, self._speed(), pause_s)
        self._has_begun, self._is_finished, self._is_playing = False, False, not self._config.start_paused
        waits = "; waits for ~/start" if self._config.start_paused else ""
        self.get_logger().info(f"plays {self._player.name}, {self._player.total} {self._player.unit}s{waits}")
        self._timer = steady_timer(self, _LOOK_S, self._step)
        if not self._is_playing:
            self._timer.cancel()
        for name, act in (("start", self._start), ("stop", self._stop), ("restart", self._restart)):
            self.create_service(Trigger, f"~/{name}", partial(_answer, act))
        self._diagnostics = Diagnostics(self, self._player.name, self._health)

    def _step(self) -> None:
        if not self._has_begun and self._config.reliable and self._player.readers() == 0:
            self.get_logger().info("waiting for a reader of the sensor topics", throttle_duration_sec=10.0)
            self._again(_LOOK_S)
            return
        self._has_begun = True
        for _ in range(_AT_ONCE):
            due_ns = self._player.due_ns()
            if due_ns is None:
                if not self._config.loop or self._player.position == self._player.skipped_now:
                    self._finish()
                    return
                self._player.rewind()
                self._pace.loop(time.monotonic())
                continue
            now_s = time.monotonic()
            if (wait_s := self._pace.wait_s(due_ns, now_s)) > 0.0:
                self._again(wait_s)
                return
            self._pace.played(due_ns, now_s)
            self._player.play()
        self._again(0.0)

    def _again(self, wait_s: float) -> None:
        self._timer.timer_period_ns = max(1000, round(wait_s * 1e9))
        self._timer.reset()

    def _finish(self) -> None:
        self._is_playing, self._is_finished = False, True
        self._timer.cancel()
        played = self._player.position - self._player.skipped_now
        what = f"{played} of {self._player.position} {self._player.unit}s of {self._player.name}"
        self.get_logger().info(f"played {what}")

    def _start(self) -> str:
        if self._is_playing:
            return "it plays already"
        if self._is_finished:
            return self._restart()
        self._play_on()
        return f"goes on at {self._place()}"

    def _stop(self) -> str:
        if not self._is_playing:
            return "it stands already"
        self._is_playing = False
        self._timer.cancel()
        return f"stopped at {self._place()}"

    def _restart(self) -> str:
        self._player.rewind()
        self._is_finished = False
        self._play_on()
        return f"starts at {self._place()}"

    def _play_on(self) -> None:
        self._is_playing = True
        self._pace.restart()
        self._again(0.0)

    def _on_change(self, config: ReplayConfig) -> None:
        self._config = config
        self._pace.change(config.rate_hz, self._speed())
        if self._is_playing:
            self._again(0.0)  # what it waits for may be due sooner now

    def _speed(self) -> float:
        return self._config.speed or (1.0 if self._config.task == ANY else 0.0)

    def _place(self) -> str:
        return f"{self._player.unit} {self._player.position} of {self._player.total}"

    def _health(self) -> tuple[str, str, dict[str, str]]:
        state = "playing" if self._is_playing else "finished" if self._is_finished else "stopped"
        values = {
            "state": state,
            self._player.unit: str(self._player.position),
            f"{self._player.unit}s": str(self._player.total),
            "skipped": str(self._player.skipped),
            "pace": f"{self._speed():g} x recorded" if self._speed() else f"{self._config.rate_hz:g} Hz",
        }
        return "ok", f"{self._player.name}: {state}, {self._place()}", values


def _player(node: Node, config: ReplayConfig) -> Any:
    if config.task == ANY:
        path = data_path(str(config.source[BAG_KEY]), config.source_base)
        return BagPlayer(node, path, config.topics, reliable=config.reliable)
    return FramePlayer(
        node, config.task, open_samples(config.task, dict(config.source), config.source_base), reliable=config.reliable
    )


def _answer(act: Callable[[], str], request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
    response.success, response.message = True, act()
    return response


def main() -> int:
    """Run the node."""
    return run.main(ReplayNode)


if __name__ == "__main__":
    sys.exit(main())
