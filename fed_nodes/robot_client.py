"""ROS 2 node of the robot role: records samples, trains in a child process, reports to the aggregator."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fed_msgs.msg import FleetStatus, LayerMask, RobotStatus, RoundPlan, SequenceDescriptor, UpdateReport
from rclpy.node import Node

import fed_core
from fed_core import requests
from fed_core.config import check, option
from fed_core.errors import ConfigError
from fed_core.registry import check_name
from fed_core.roles import events as ev
from fed_core.roles import messages as roles
from fed_core.roles.robot import Robot, RobotConfig
from fed_nodes import params, qos, run
from fed_nodes.blobs import RosBlobChannel
from fed_nodes.convert import fleet as convert
from fed_nodes.diagnostics import Diagnostics, LastWarning
from fed_nodes.host import RoleHost, fetch_for, guarded
from fed_nodes.presence import AggregatorPresence
from fed_nodes.progress_log import ProgressLog
from fed_nodes.recording.recorder import Recorder, RecorderConfig, samples_for
from fed_nodes.registrar import Registrar
from fed_nodes.robot_folder import RobotFolder
from fed_nodes.timers import steady_timer
from fed_nodes.training.jobs import Jobs
from fed_nodes.training.limits import TrainingLimits
from fed_nodes.training.pausing import Pausing
from fed_nodes.training.yielding import YieldingConfig


@dataclass(frozen=True)
class RobotParameters:
    """Where a robot keeps things and what it trains on (``config/robot_client.yaml``)."""

    state_dir: Path = option(Path("robot"), help="folder of this robot: samples, models, half-done transfers")
    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")
    network: str = option("adabins_s", help="network that is trained; the same in the whole fleet")
    network_options: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "its options, as YAML"})
    source: Mapping[str, Any] = field(
        default_factory=dict, metadata={"help": "recording to train on, as YAML; empty = record from topics"}
    )
    source_base: Path = option(Path(), help="folder that relative paths of source start from")
    device: str = option("auto", help="where it trains", choices=("auto", "cpu", "cuda"))

    def __post_init__(self) -> None:
        check(self)
        check_name("network", self.network, "fed_models")


class RobotClientNode(Node):
    """One robot of the fleet.

    Parameters: RobotConfig, RobotParameters, TrainingLimits, YieldingConfig, RecorderConfig.
    """

    def __init__(self) -> None:
        super().__init__("robot_client")
        self._config = params.load(self, RobotConfig)
        check_name("task", self._config.task, "fed_core.tasks")
        self._settings = params.load(self, RobotParameters)
        self._limits = params.load(self, TrainingLimits)
        yielding = params.load(self, YieldingConfig, lambda new: self._pausing.change(new))
        recorder = params.load(self, RecorderConfig)
        self._folder = RobotFolder(self._settings.state_dir)
        self._service = f"{self.get_namespace().rstrip('/')}/read_blob"
        self._status: roles.RobotStatus | None = None
        source = dict(self._settings.source)
        _require_cameras(self._config.task, source, recorder)
        self._recorder = None if source else Recorder(self, recorder, self._folder.path / "samples", self._count)
        self._samples = partial(samples_for, self._recorder, requests.Samples(source, self._settings.source_base))
        self._role = Robot(
            self._config,
            self._folder.instance,
            architecture=self._settings.network,
            software=fed_core.__version__,
            blob_service=self._service,
            last_report=self._folder.saved_report(),
        )
        self._host = RoleHost(self, self._role, self._carriers())
        self._warning, self._progress = LastWarning(self), ProgressLog(self)
        self._jobs = Jobs(self._host.post, limits=self._limits, warn=self._warning.tell)
        self._pausing = Pausing(self, yielding, lambda: self._jobs.pid, self._jobs.pause)
        self._channel = RosBlobChannel(self, self._folder.store)
        self._channel.serve(self._service)
        self._open_topics()
        self._diagnostics = Diagnostics(self, self._config.robot_id, self._health)

    def _carriers(self) -> dict[type, Callable[[Any], Any]]:
        return {
            ev.CountSamples: lambda e: self._count(),
            ev.Register: lambda e: self._registrar.ask(e),
            ev.Describe: self._describe,
            ev.PublishDescriptor: lambda e: self._descriptor_pub.publish(convert.descriptor_to_msg(e.message)),
            ev.FetchBlob: self._fetch,
            ev.CancelFetch: lambda e: self._channel.cancel(e.digest),
            ev.StartTraining: self._train,
            ev.StopTraining: lambda e: self._jobs.stop(),
            ev.SaveReport: lambda e: self._folder.save_report(e.report),
            ev.PublishReport: self._publish_report,
            ev.PublishStatus: self._publish_status,
        }

    def _open_topics(self) -> None:
        fleet, feed = self._settings.fleet_ns.rstrip("/"), self._host.feed
        self._descriptor_pub = self.create_publisher(SequenceDescriptor, f"{fleet}/descriptors", qos.LATCHED)
        self._report_pub = self.create_publisher(UpdateReport, f"{fleet}/updates", qos.LATCHED)
        self._mask_pub = self.create_publisher(LayerMask, f"{fleet}/masks", qos.LATCHED)
        self._status_pub = self.create_publisher(RobotStatus, f"{fleet}/robot_status", qos.STATUS)
        self._registrar = Registrar(self, fleet, self._host.post)
        self.create_subscription(RoundPlan, f"{fleet}/round", guarded(self, convert.plan_from_msg, feed), qos.LATCHED)
        self.create_subscription(
            FleetStatus, f"{fleet}/status", guarded(self, convert.fleet_from_msg, self._on_fleet), qos.LATCHED
        )
        self._presence = AggregatorPresence(self, fleet)
        steady_timer(self, 1.0, self._on_tick)

    def _on_tick(self) -> None:
        self._host.feed(ev.Tick())
        self._presence.look(needed=self._role.phase not in (roles.RobotPhase.STARTING, roles.RobotPhase.FINISHED))

    # ---- samples -------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        samples, settings = self._samples(), self._settings
        if samples is not None:
            task, network = self._config.task, settings.network
            self._jobs.start(requests.count_samples(samples, task, network, settings.network_options))

    def _describe(self, effect: ev.Describe) -> None:
        samples = self._samples()
        if samples is not None:
            self._jobs.start(requests.describe(samples, self._config.task, effect.kind, self._config.robot_id))

    # ---- fleet ---------------------------------------------------------------------------------------------------

    def _on_fleet(self, status: roles.FleetStatus) -> None:
        if self._role.run_id in ("", status.run_id):
            self._presence.heard()
        self._host.feed(status)

    def _fetch(self, effect: ev.FetchBlob) -> None:
        fetch_for(self._channel, self._host, effect.blob, self._registrar.read_service)

    def _train(self, effect: ev.StartTraining) -> None:
        samples = self._samples(job=f"{effect.plan.run_id}_{effect.plan.round}")
        if samples is None:
            return
        self._folder.tidy(effect.plan)
        local = {"threads": self._limits.threads, "device": self._settings.device}
        robot = requests.Installation(self._config.robot_id, self._folder.instance, self._folder.path, local)
        self._jobs.start(requests.train(effect.plan, self._folder.store, samples, robot))

    def _publish_report(self, effect: ev.PublishReport) -> None:
        msg = convert.report_to_msg(effect.report)
        if msg.mask.num_units:
            self._mask_pub.publish(msg.mask)
        self._report_pub.publish(msg)

    # ---- health --------------------------------------------------------------------------------------------------

    def _publish_status(self, effect: ev.PublishStatus) -> None:
        self._status = effect.status
        self._progress.add(effect.status, self._role.run_id)
        msg = convert.status_to_msg(
            effect.status,
            sent_bytes=self._channel.sent_bytes,
            received_bytes=self._channel.received_bytes,
            disk_free_bytes=self._folder.free_bytes,
        )
        if self._recorder is not None and effect.status.phase is roles.RobotPhase.STARTING:
            msg.progress, msg.num_samples, msg.text = self._recorder.progress()
        msg.text = self._pausing.text(msg.text)
        self._status_pub.publish(msg)

    def _health(self) -> tuple[str, str, dict[str, str]]:
        status = self._status
        if status is None:
            return "warn", "starting", {}
        level = {roles.RobotPhase.FAILED: "error", roles.RobotPhase.STARTING: "warn"}.get(status.phase, "ok")
        values = {"phase": status.phase.name.lower(), "round": str(status.round), "samples": str(status.num_samples)}
        text = self._pausing.text(status.text or status.phase.name.lower())
        if self._recorder is not None:
            values |= self._recorder.values()
            level, text = self._recorder.judged(level, text)
        level, text = self._presence.judged(level, text)
        return level, text, {**values, **self._pausing.values(), **self._warning.values()}

    def destroy_node(self) -> None:
        """Stop the trainer, then the node."""
        self._jobs.stop()
        self._channel.close()
        if self._recorder is not None:
            self._recorder.close()
        super().destroy_node()


def _require_cameras(task: str, source: Mapping[str, Any], recorder: RecorderConfig) -> None:
    """Refuse a robot that could never record what its task learns from."""
    if task == "bev" and not source and not recorder.rig:
        ways = "set rig to where they sit, or source to a recording"
        raise ConfigError(f"task bev records from several cameras: {ways} (docs/live_bev.md)")
    if task == "detection" and not source and not recorder.lidar:
        ways = "set lidar (and rig) to where they sit, or source to a recording"
        raise ConfigError(f"task detection records from a LiDAR and cameras: {ways} (docs/live_detection.md)")
    if task not in ("bev", "detection") and recorder.rig:
        raise ConfigError(f"rig is for tasks bev and detection, and this robot's task is {task}; leave it out")
    if task != "detection" and recorder.lidar:
        raise ConfigError(f"lidar is for task detection, and this robot's task is {task}; leave it out")


def main() -> int:
    """Run the node."""
    return run.main(RobotClientNode)


if __name__ == "__main__":
    sys.exit(main())
