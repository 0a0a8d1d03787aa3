"""ROS 2 node of the aggregator role: one per fleet, usually on the base station."""

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fed_msgs.msg import FleetStatus, RobotStatus, RoundPlan, SequenceDescriptor, UpdateReport
from fed_msgs.srv import RegisterRobot
from rclpy.node import Node

from fed_core import requests
from fed_core.aggregation import run_aggregation
from fed_core.bookkeeping import RunBook
from fed_core.config import check, from_tree, option
from fed_core.errors import ConfigError, FedError, Refusal
from fed_core.registry import check_name
from fed_core.roles import events as ev
from fed_core.roles.aggregator import Aggregator
from fed_core.roles.membership import AggregatorConfig, is_run_id
from fed_core.roles.messages import RunConfig
from fed_core.training.options import TrainConfig
from fed_nodes import params, qos, run
from fed_nodes.blobs import RosBlobChannel
from fed_nodes.convert import fleet as convert
from fed_nodes.diagnostics import Diagnostics
from fed_nodes.host import RoleHost, fetch_for, guarded
from fed_nodes.presence import OtherAggregators
from fed_nodes.readmission import Readmission
from fed_nodes.timers import steady_timer
from fed_nodes.training.jobs import Jobs


@dataclass(frozen=True)
class RunParameters:
    """What the aggregator trains (``config/aggregator.yaml``)."""

    run: str = option("run", help="name of the run; its folder is <runs_dir>/<run>")
    runs_dir: Path = option(Path("runs"), help="folder of all runs")
    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")
    strategy: str = option("fedepth", help="federated method; `fedperc strategies` lists them")
    strategy_options: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "its options, as YAML"})
    task: str = option("depth", help="what the fleet learns")
    network: str = option("adabins_s", help="network that is trained")
    network_options: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "its options, as YAML"})
    train: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "options of local training, as YAML"})
    rounds: int = option(8, help="communication rounds", unit="count", low=0, high=100_000)
    seed: int = option(0, help="seed of weights, data order and descriptors", low=0, high=2**31 - 1)

    def __post_init__(self) -> None:
        check(self)
        if not is_run_id(self.run):
            raise ConfigError(f"run is {self.run!r}; it names a folder: no slash, no dot first, at most 100 characters")
        check_name("task", self.task, "fed_core.tasks")
        check_name("network", self.network, "fed_models")
        from_tree(TrainConfig, dict(self.train), "train")

    def run_config(self) -> RunConfig:
        """Return what goes into every plan."""
        return RunConfig(
            strategy=self.strategy,
            strategy_options=self.strategy_options,
            task=self.task,
            network=self.network,
            network_options=self.network_options,
            train=self.train,
            total_rounds=self.rounds,
            seed=self.seed,
        )


class AggregatorNode(Node):
    """Registers robots, runs rounds, serves models. Parameters: RunParameters, AggregatorConfig."""

    def __init__(self) -> None:
        super().__init__("aggregator")
        self._settings = params.load(self, RunParameters)
        config = params.load(self, AggregatorConfig, self._on_limits)
        run_config = self._settings.run_config()
        folder = self._settings.runs_dir / self._settings.run
        self._book = RunBook(folder, self._settings.run, run_config, keep_updates=config.keep_updates)
        snapshot = self._book.snapshot()
        self._role = Aggregator(
            config,
            self._settings.run,
            run_config,
            descriptor=self._book.strategy.descriptor,
            snapshot=snapshot,
            now_s=time.monotonic(),
        )
        self._host = RoleHost(self, self._role, self._carriers())
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aggregate")
        self._channel = RosBlobChannel(self, self._book.store)
        self._served: set[str] = set()
        self._blob_services = {r.robot_id: r.blob_service for r, _ in snapshot.members}
        for robot_id in self._blob_services:
            self._serve(robot_id)
        self._open_topics()
        self._diagnostics = Diagnostics(self, self._settings.run, self._health)
        self._jobs = Jobs(self._host.post)
        if snapshot.initial is None:
            self._jobs.start(requests.initial_model(run_config, self._book.store))

    def _carriers(self) -> dict[type, Callable[[Any], Any]]:
        return {
            ev.PublishPlan: lambda e: self._plans.publish(convert.plan_to_msg(e.plan)),
            ev.PublishFleetStatus: self._publish_status,
            ev.ReplyRegistration: self._reply_with,
            ev.SaveInitialModel: lambda e: self._book.save_initial(e.model),
            ev.SaveRobot: self._book.save_robot,
            ev.SaveQuarantine: self._book.save_quarantine,
            ev.SaveUpdate: self._book.save_update,
            ev.CommitRound: self._book.commit,
            ev.FetchBlob: self._fetch,
            ev.CancelFetch: lambda e: self._channel.cancel(e.digest),
            ev.CheckUpdate: lambda e: self._in_thread("check", lambda: self._book.check(e)),
            ev.StartAggregation: self._aggregate,
        }

    def _open_topics(self) -> None:
        fleet, post = self._settings.fleet_ns.rstrip("/"), self._host.feed
        self._last_status: Any = None
        self._plans = self.create_publisher(RoundPlan, f"{fleet}/round", qos.LATCHED)
        self._statuses = self.create_publisher(FleetStatus, f"{fleet}/status", qos.LATCHED)
        for kind, topic, profile, reader in (
            (SequenceDescriptor, "descriptors", qos.UPDATES, convert.descriptor_from_msg),
            (UpdateReport, "updates", qos.UPDATES, convert.report_from_msg),
            (RobotStatus, "robot_status", qos.STATUS, convert.status_from_msg),
        ):
            self.create_subscription(kind, f"{fleet}/{topic}", guarded(self, reader, post), profile)
        self.create_service(RegisterRobot, f"{fleet}/register", self._on_register)
        self._readmission = Readmission(self, fleet, lambda robot_id: post(ev.Readmit(robot_id)))
        self._others = OtherAggregators(self, fleet, self._settings.run)
        steady_timer(self, 1.0, self._on_tick)

    def _on_tick(self) -> None:
        self._others.look()
        self._host.feed(ev.Tick())

    def _on_limits(self, config: AggregatorConfig) -> None:
        self._host.feed(ev.LimitsChanged(config.min_updates, config.round_deadline_s, config.liveness_s))

    def _on_register(self, request: RegisterRobot.Request, response: RegisterRobot.Response) -> Any:
        self._response = response
        registration = convert.registration_from_request(request)
        self._host.feed(registration)
        return response

    def _reply_with(self, effect: ev.ReplyRegistration) -> None:
        reply, response = effect.reply, self._response
        response.code, response.text = int(reply.code), reply.text
        response.run_id, response.descriptor = reply.run_id, reply.descriptor
        if reply.code is Refusal.ACCEPTED:
            if not effect.registration.observer:  # a refused rival must not redirect the robot's blobs to itself
                self._blob_services[effect.registration.robot_id] = effect.registration.blob_service
            response.read_service = self._serve(effect.registration.robot_id)

    def _serve(self, reader: str) -> str:
        """Return the blob service of one reader; each has its own, since all clients of one hear every answer."""
        name = f"{self._settings.fleet_ns.rstrip('/')}/read_blob/{reader}"
        if reader not in self._served:
            self._served.add(reader)
            self._channel.serve(name)
        return name

    def _fetch(self, effect: ev.FetchBlob) -> None:
        fetch_for(self._channel, self._host, effect.blob, self._blob_services[effect.source])

    def _aggregate(self, effect: ev.StartAggregation) -> None:
        job = self._book.plan_aggregation(effect)
        self._in_thread("aggregation", lambda: run_aggregation(job, self._book.strategy, self._book.store))

    def _in_thread(self, name: str, work: Callable[[], Any]) -> None:
        def guarded_work() -> None:
            try:
                self._host.post(work())
            except FedError as err:
                self._host.post(ev.JobFailed(name, str(err)))
            except Exception as err:  # a thread has nobody else to tell: without this the run would wait for ever
                self._host.post(ev.JobFailed(name, f"{type(err).__name__}: {' '.join(str(err).split())}"))

        self._threads.submit(guarded_work)

    def _publish_status(self, effect: ev.PublishFleetStatus) -> None:
        self._last_status = effect.status
        self._readmission.follow(effect.status)
        channel = self._channel
        self._statuses.publish(
            convert.fleet_to_msg(effect.status, sent_bytes=channel.sent_bytes, received_bytes=channel.received_bytes)
        )

    def _health(self) -> tuple[str, str, dict[str, str]]:
        status = self._last_status
        level = "error" if self._role.failed else "ok"
        if status is None:
            return "warn", "starting", {}
        values = {"phase": status.phase, "round": f"{status.round}/{status.total_rounds}"}
        values["robots"] = str(len(status.robots))
        text = self._role.failed or status.waiting_for or status.phase
        if self._others.problem:
            level, text = "warn" if level == "ok" else level, f"{self._others.problem}; {text}"
        return level, text, values

    def destroy_node(self) -> None:
        """Stop the threads, then the node."""
        self._jobs.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._channel.close()
        super().destroy_node()
        self._book.close()


def main() -> int:
    """Run the node."""
    return run.main(AggregatorNode)


if __name__ == "__main__":
    sys.exit(main())
