"""Writes what happens in a fleet as JSON lines on standard output, for programs that speak no ROS."""

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fed_msgs.msg import FleetStatus, LayerMask, RobotStatus, RoundPlan, Selection
from rclpy.node import Node

from fed_core.config import check, option
from fed_core.roles.messages import RobotPhase
from fed_nodes import params, qos, run
from fed_nodes.diagnostics import Diagnostics


@dataclass(frozen=True)
class MonitorConfig:
    """What is watched (``config/monitor.yaml``)."""

    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")

    def __post_init__(self) -> None:
        check(self)


class MonitorNode(Node):
    """One JSON object per message: ``{"kind": "fleet" | "robot" | "plan" | "mask" | "selection", ...}``."""

    def __init__(self) -> None:
        super().__init__("monitor")
        config = params.load(self, MonitorConfig)
        fleet = config.fleet_ns.rstrip("/")
        self._lines = 0
        self.create_subscription(FleetStatus, f"{fleet}/status", self._teller(_fleet), qos.LATCHED)
        self.create_subscription(RobotStatus, f"{fleet}/robot_status", self._teller(_robot), qos.STATUS)
        self.create_subscription(RoundPlan, f"{fleet}/round", self._teller(_plan), qos.LATCHED)
        self.create_subscription(LayerMask, f"{fleet}/masks", self._teller(_mask), qos.UPDATES)
        self.create_subscription(Selection, "selection", self._teller(selection_to_json), qos.LATCHED)
        self._diagnostics = Diagnostics(self, "monitor", lambda: ("ok", "watching", {"lines": str(self._lines)}))

    def _teller(self, read: Callable[[Any], dict[str, Any]]) -> Callable[[Any], None]:
        def tell(msg: Any) -> None:
            line = json.dumps({**read(msg), "time_s": time.time()}, allow_nan=False)
            self._lines += 1
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

        return tell


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _fleet(msg: FleetStatus) -> dict[str, Any]:
    robots = [
        {
            "id": r.robot_id,
            "alive": r.alive,
            "described": r.described,
            "reported": r.reported,
            "clusters": list(r.clusters),
            "updates": r.updates,
            "refused": r.refused,
            "last_text": r.last_text,
        }
        for r in msg.robots
    ]
    return {
        "kind": "fleet",
        "run": msg.run_id,
        "phase": msg.phase,
        "round": msg.round,
        "rounds": msg.total_rounds,
        "strategy": msg.strategy,
        "expected": msg.expected_robots,
        "robots": robots,
        "sent_bytes": msg.sent_bytes,
        "received_bytes": msg.received_bytes,
        "waiting_for": msg.waiting_for,
    }


def _robot(msg: RobotStatus) -> dict[str, Any]:
    return {
        "kind": "robot",
        "id": msg.robot_id,
        "phase": RobotPhase(msg.phase).name.lower(),
        "round": msg.round,
        "progress": _number(msg.progress),
        "loss": _number(msg.loss),
        "samples_per_s": _number(msg.samples_per_s),
        "samples": msg.num_samples,
        "sent_bytes": msg.sent_bytes,
        "received_bytes": msg.received_bytes,
        "text": msg.text,
    }


def _plan(msg: RoundPlan) -> dict[str, Any]:
    return {
        "kind": "plan",
        "run": msg.run_id,
        "round": msg.round,
        "finished": msg.phase == RoundPlan.FINISHED,
        "models": list(msg.models),
        "blobs": {blob.key: {"digest": blob.digest, "size_bytes": blob.size_bytes} for blob in msg.blobs},
        "load": {robot.robot_id: list(robot.load) for robot in msg.robots},
    }


def _mask(msg: LayerMask) -> dict[str, Any]:
    bits = np.unpackbits(np.asarray(msg.bits, np.uint8), bitorder="little")[: msg.num_units]
    return {
        "kind": "mask",
        "id": msg.robot_id,
        "run": msg.run_id,
        "round": msg.round,
        "units": msg.num_units,
        "shared": int(bits.sum()),
    }


def selection_to_json(msg: Selection) -> dict[str, Any]:
    """Return a choice of models as a JSON tree."""
    return {
        "kind": "selection",
        "sequence": msg.sequence,
        "run": msg.run_id,
        "round": msg.round,
        "models": list(msg.models),
        "clusters": list(msg.clusters),
        "distances": [_number(distance) for distance in msg.distances],
        "threshold": _number(msg.threshold),
        "fallback": msg.fallback,
    }


def main() -> int:
    """Run the node."""
    return run.main(MonitorNode)


if __name__ == "__main__":
    sys.exit(main())
