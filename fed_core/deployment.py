"""Which nodes a fleet file means: executables, namespaces and parameters, for launch files and the demo alike."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fed_core.config import to_tree
from fed_core.data.nuscenes.mounts import scan_mounts
from fed_core.data.open import SourceConfig
from fed_core.data.opv2v.mounts import rig_tree
from fed_core.data.opv2v.sequence import SECTOR
from fed_core.data.samples import first_readable, open_samples
from fed_core.errors import ConfigError
from fed_core.fleet import FleetConfig, RobotEntry, SequenceEntry

#: Tasks of vehicles with several sensors: a node must know where they sit.
OF_VEHICLES = ("bev", "detection")
#: Longest wait for an answer of inference: several may start at once, each with PyTorch, on a machine that also trains.
PATIENCE_S = 180.0


@dataclass(frozen=True)
class NodeSpec:
    """One process.

    Attributes:
        executable: name of the executable, also of its module in ``fed_nodes``.
        namespace: ROS namespace ("/spot1"; "" = root).
        parameters: ROS parameters; trees are texts that hold JSON, which is YAML.
        name: unique name of the process, for files and people.
    """

    executable: str
    name: str
    namespace: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployment:
    """Where a fleet file's processes keep things.

    Attributes:
        fleet: the fleet.
        base: folder that relative paths of its sources start from.
        folder: everything the processes write lies below it.
        fleet_ns: namespace of the fleet's topics.
        replayed: robots record from replays, none of whose frames may be lost.
    """

    fleet: FleetConfig
    base: Path
    folder: Path
    fleet_ns: str = "/fleet"
    replayed: bool = True

    def aggregator(self) -> NodeSpec:
        """Return the aggregator."""
        fleet, run = self.fleet, self.fleet.run_config()
        parameters = {
            "run": fleet.run,
            "runs_dir": str(self.folder / "aggregator"),
            "fleet_ns": self.fleet_ns,
            "strategy": run.strategy,
            "strategy_options": _text(run.strategy_options),
            "task": run.task,
            "network": run.network,
            "network_options": _text(run.network_options),
            "train": _text(run.train),
            "rounds": run.total_rounds,
            "seed": run.seed,
            **to_tree(fleet.aggregator),
            "min_robots": max(fleet.aggregator.min_robots, len(fleet.robots)),
        }
        return NodeSpec("aggregator", "aggregator", parameters=parameters)

    def robot(self, entry: RobotEntry) -> NodeSpec:
        """Return one robot."""
        parameters: dict[str, Any] = {
            "robot_id": entry.id,
            "task": self.fleet.task,
            "network": self.fleet.network.name,
            "network_options": _text(self.fleet.network.options),
            "state_dir": str(self.folder / "robots" / entry.id),
            "fleet_ns": self.fleet_ns,
            "reliable_sensors": self.replayed and entry.source is not None,
        }
        if self.replayed:
            parameters["scheduling"] = "normal"  # a fleet to watch: all wait for training, and nothing drives
        if entry.source is not None:
            # Every frame is waited for; silence ends the recording where the replay had to leave broken frames out.
            parameters["record_frames"] = entry.frames or len(open_samples(self.fleet.task, entry.source, self.base))
            parameters["record_idle_s"] = 30.0
        elif entry.frames:
            parameters["record_frames"] = entry.frames
        return NodeSpec("robot_client", entry.id, f"/{entry.id}", parameters | self._rig(entry))

    def replay(self, entry: RobotEntry, rate_hz: float = 10.0) -> NodeSpec | None:
        """Return what feeds a robot; None where live sensors do."""
        if entry.source is None:
            return None
        parameters = {
            "task": self.fleet.task,
            "source": _text(entry.source),
            "source_base": str(self.base),
            "rate_hz": float(rate_hz),
            "reliable": self.replayed,
        }
        return NodeSpec("replay", f"{entry.id}_replay", f"/{entry.id}", parameters)

    def inference(self, namespace: str = "/live", entry: RobotEntry | SequenceEntry | None = None) -> NodeSpec:
        """Return an inference node.

        Args:
            namespace: its ROS namespace.
            entry: robot that it sits on, or sequence that it will see; only needed where the vehicle's cameras must be
                known (tasks bev and detection), or where robots have models of their own.
        """
        reader = namespace.strip("/").replace("/", "_") + "_inference"
        models, own = self.folder / "inference" / self.fleet.run, namespace == "/live"
        parameters: dict[str, Any] = {
            "reader_id": reader,
            "state_dir": str(models if own else models / reader),
            "fleet_ns": self.fleet_ns,
            "descriptor_frames": self.fleet.inference.descriptor_frames,
            "reliable_sensors": self.replayed,
        }
        robot = "" if entry is None else entry.id if isinstance(entry, RobotEntry) else entry.robot
        if entry is not None:
            parameters |= self._rig(entry)
        if robot:
            parameters |= {"robot_id": robot, "robot_dir": str(self.folder / "robots" / robot)}
        return NodeSpec("inference", "inference" if own else reader, namespace, parameters)

    def watcher(self, entry: SequenceEntry) -> NodeSpec:
        """Return the inference node that a held-out sequence is played to.

        One serves all sequences of one camera; a vehicle with several cameras has a node of its own, since that must
        know where they sit.
        """
        own = self.fleet.task in OF_VEHICLES or entry.robot
        found = self.inference(f"/live/{entry.name}" if own else "/live", entry)
        # Scores count every box, also those that no one would act upon.
        every = {"min_score": 0.0} if self.fleet.task == "detection" else {}
        return replace(found, parameters={**found.parameters, **every})

    def live(self, namespaces: Sequence[str] = ()) -> list[NodeSpec]:
        """Return inference nodes for what robots see now.

        Args:
            namespaces: of the nodes; none = ``/live``, or with tasks of vehicles those of all robots, since a node must
                know whose cameras it gets.
        """
        if self.fleet.task not in OF_VEHICLES:
            return [self.inference(namespace) for namespace in namespaces or ("/live",)]
        robots = {f"/{entry.id}": entry for entry in self.fleet.robots}
        unknown = [namespace for namespace in namespaces if namespace not in robots]
        if unknown:
            known = ", ".join(robots)
            raise ConfigError(
                f"with task {self.fleet.task}, inference sits on a robot: {unknown[0]} is none of {known}"
            )
        return [self.inference(namespace, robots[namespace]) for namespace in namespaces or robots]

    def score(self, entry: SequenceEntry, out: Path, namespace: str = "/live") -> NodeSpec:
        """Return the node that scores a held-out sequence."""
        parameters = {
            "source": _text(entry.source),
            "source_base": str(self.base),
            "name": entry.name,
            "out": str(out),
            "task": self.fleet.task,
            "descriptor_frames": self.fleet.inference.descriptor_frames,
            "cap_m": self.fleet.inference.cap_m,
            "timeout_s": PATIENCE_S,
        }
        if self.fleet.task == "detection":  # a picture of each sequence: there are as many as there are domains
            parameters["panels"] = 1
        return NodeSpec("score", f"score_{entry.name}", namespace, parameters)

    def _rig(self, entry: RobotEntry | SequenceEntry) -> dict[str, str]:
        """Return the parameters that tell where sensors sit; none for tasks with one camera, or where nobody knows."""
        if self.fleet.task not in OF_VEHICLES:
            return {}
        if entry.source is None:
            trees = {"rig": entry.rig, "lidar": entry.lidar} if isinstance(entry, RobotEntry) else {}
            return {name: _text(tree) for name, tree in trees.items() if tree}
        if self.fleet.task == "detection":
            cameras, lidar = scan_mounts(first_readable(open_samples("detection", entry.source, self.base)))
            return {"rig": json.dumps(cameras) if cameras else "", "lidar": json.dumps(lidar)}
        mounts = rig_tree(first_readable(open_samples("bev", entry.source, self.base)))
        source = entry.source
        while source.parts:  # all parts have the first one's cameras
            source = source.parts[0]
        return {"rig": json.dumps(mounts), "known_cells": str(source.options.get("amcm_mask", SECTOR))}

    def monitor(self, namespace: str = "/live") -> NodeSpec:
        """Return the monitor."""
        return NodeSpec("monitor", "monitor", namespace, {"fleet_ns": self.fleet_ns})


def _text(tree: Any) -> str:
    """Return a tree as text; options left at their defaults are left out of sources."""
    if isinstance(tree, SourceConfig):
        plain, default = to_tree(tree), to_tree(SourceConfig(data="default"))
        return json.dumps({key: value for key, value in plain.items() if value != default.get(key)})
    return json.dumps(to_tree(tree)) if tree else ""
