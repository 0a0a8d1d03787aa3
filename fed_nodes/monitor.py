"""Writes what happens in a fleet as JSON lines on standard output, for programs that speak no ROS."""

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from fed_msgs.msg import FleetStatus, LayerMask, RobotStatus, RoundPlan, Selection
from rclpy.node import Node

from fed_core.config import check, option
from fed_core.roles.messages import RobotPhase
from fed_nodes import params, qos, run
from fed_nodes.diagnostics import Diagnostics
from fed_nodes.timers import steady_timer
from fed_nodes.watching.services import find_services

if TYPE_CHECKING:
    from fed_nodes.watching.pictures import Pictures

#: Types that are looked for in the graph: of selections, and of what every fleet has.
_SELECTION, _STATUS = "fed_msgs/msg/Selection", "fed_msgs/msg/FleetStatus"
#: Most selections that are followed, statuses of one message that are told, and names that are kept as not well.
MAX_SELECTIONS, MAX_STATUSES, MAX_ILL = 256, 100, 10_000
_LOOK_S = 1.0
_PHASES = {phase.value: phase.name.lower() for phase in RobotPhase}
_LEVELS = {
    DiagnosticStatus.OK: "ok",
    DiagnosticStatus.WARN: "warn",
    DiagnosticStatus.ERROR: "error",
    DiagnosticStatus.STALE: "stale",
}


@dataclass(frozen=True)
class MonitorConfig:
    """What is watched (``config/monitor.yaml``)."""

    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")
    pictures: bool = option(False, help="tell small pictures of what inference nodes publish, one in two seconds each")

    def __post_init__(self) -> None:
        check(self)


class MonitorNode(Node):
    """One JSON object per message.

    ``{"kind": "fleet" | "robot" | "plan" | "mask" | "selection" | "diagnostics" | "graph" | "services" | "picture",
    ...}``; diagnostics are told of any node that is not well, once a second as they come, and once more when it is well
    again. Services are those that a person may call.
    """

    def __init__(self) -> None:
        super().__init__("monitor")
        config = params.load(self, MonitorConfig)
        fleet = config.fleet_ns.rstrip("/")
        self._lines = 0
        self._ill: set[str] = set()
        self._selections: dict[str, object] = {}
        self._fleets: list[str] | None = None
        self._acts: list[dict[str, str]] | None = None
        self._pictures = self._open_pictures() if config.pictures else None
        self.create_subscription(FleetStatus, f"{fleet}/status", self._teller(_fleet), qos.LATCHED)
        self.create_subscription(RobotStatus, f"{fleet}/robot_status", self._teller(_robot), qos.STATUS)
        self.create_subscription(RoundPlan, f"{fleet}/round", self._on_plan, qos.LATCHED)
        self.create_subscription(LayerMask, f"{fleet}/masks", self._teller(_mask), qos.UPDATES)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.DIAGNOSTICS)
        steady_timer(self, _LOOK_S, self._look)
        self._diagnostics = Diagnostics(self, "monitor", lambda: ("ok", "watching", {"lines": str(self._lines)}))

    def _open_pictures(self) -> "Pictures":
        from fed_nodes.watching.pictures import Pictures  # OpenCV is loaded where somebody wants to see something

        return Pictures(self, self._tell)

    def _on_plan(self, msg: RoundPlan, info: Any) -> None:
        # A latched plan may be old; the deadline counts from the moment at which it was sent.
        self._tell({**_plan(msg), "sent_s": (info["source_timestamp"] or time.time_ns()) / 1e9})

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        for status in msg.status[:MAX_STATUSES]:
            well = status.level == DiagnosticStatus.OK
            if not well or status.name in self._ill:
                self._tell(_diagnostic(status))
            if well:
                self._ill.discard(status.name)
            elif len(self._ill) < MAX_ILL:
                self._ill.add(status.name)

    def _look(self) -> None:
        """Follow inference nodes that came, and tell which fleets there are and what a person may call."""
        fleets = []
        topics = dict(self.get_topic_names_and_types())
        for topic, types in topics.items():
            if _STATUS in types and self.count_publishers(topic):
                fleets.append(topic.removesuffix("/status"))
            elif _SELECTION in types and topic not in self._selections and len(self._selections) < MAX_SELECTIONS:
                tell = self._teller(selection_to_json, source=_source(topic))
                self._selections[topic] = self.create_subscription(Selection, topic, tell, qos.LATCHED)
        if sorted(fleets) != self._fleets:
            self._fleets = sorted(fleets)
            self._tell({"kind": "graph", "fleets": self._fleets})
        services = find_services(self)
        if services != self._acts:
            self._acts = services
            self._tell({"kind": "services", "services": services})
        if self._pictures is not None:
            self._pictures.look(map(_source, self._selections), topics)

    def _teller(self, read: Callable[[Any], dict[str, Any]], **more: str) -> Callable[[Any], None]:
        return lambda msg: self._tell({**read(msg), **more})

    def _tell(self, tree: dict[str, Any]) -> None:
        line = json.dumps({**tree, "time_s": time.time()}, allow_nan=False)
        self._lines += 1
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _source(topic: str) -> str:
    """Return the namespace of the inference node that has a topic of selections."""
    return topic.removesuffix("/selection") or "/"


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
            "quarantine": r.quarantine,
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
        "phase": _PHASES.get(msg.phase, "unknown"),
        "round": msg.round,
        "progress": _number(msg.progress),
        "loss": _number(msg.loss),
        "samples_per_s": _number(msg.samples_per_s),
        "samples": msg.num_samples,
        "sent_bytes": msg.sent_bytes,
        "received_bytes": msg.received_bytes,
        "disk_free_bytes": msg.disk_free_bytes,
        "gpu_used_bytes": msg.gpu_used_bytes,
        "text": msg.text,
    }


def _plan(msg: RoundPlan) -> dict[str, Any]:
    return {
        "kind": "plan",
        "run": msg.run_id,
        "round": msg.round,
        "finished": msg.phase == RoundPlan.FINISHED,
        "strategy": msg.strategy,
        "task": msg.task,
        "network": msg.network,
        "deadline_s": _number(msg.deadline_s) or None,
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


def _diagnostic(status: DiagnosticStatus) -> dict[str, Any]:
    return {
        "kind": "diagnostics",
        "name": status.name,
        "level": _LEVELS.get(status.level, "error"),
        "text": status.message,
        "hardware": status.hardware_id,
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
