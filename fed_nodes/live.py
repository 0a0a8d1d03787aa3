"""What an inference node does between configure and cleanup: the stream, the role, the thread with the networks."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fed_msgs.msg import RoundPlan, Selection
from rclpy.lifecycle import LifecycleNode
from std_srvs.srv import Trigger

from fed_core.config import check, option
from fed_core.data.opv2v.sequence import FOV, OFF, SECTOR
from fed_core.errors import ConfigError
from fed_core.requests import Installation, kept_files
from fed_core.roles import events as ev
from fed_core.roles.inference import Inference
from fed_core.roles.messages import FleetPlan
from fed_core.similarity.group import MIN_FRAMES
from fed_core.store.blobs import BlobStore
from fed_core.strategies.base import make_strategy
from fed_core.types import Descriptor
from fed_core.wire.codec import load_memory
from fed_nodes import qos
from fed_nodes.access import ReadAccess
from fed_nodes.blobs import RosBlobChannel
from fed_nodes.convert import fleet as convert
from fed_nodes.host import Mailbox, RoleHost, fetch_for, guarded
from fed_nodes.live_bev import BevStream
from fed_nodes.live_depth import DepthStream
from fed_nodes.live_detection import DetectionStream
from fed_nodes.rigs import CameraMount, Mount, rig_from_tree
from fed_nodes.scan_rigs import scan_rig_from_tree
from fed_nodes.sequences import SequenceCutter
from fed_nodes.serving import LiveModel, ServingThread
from fed_nodes.streams import Feed, Stream, Taken
from fed_nodes.timers import steady_timer


@dataclass(frozen=True)
class InferenceConfig:
    """How models are chosen and served (``config/inference.yaml``)."""

    reader_id: str = option("inference", help="name under which models are read; unique in the fleet")
    robot_id: str = option("", help="robot that asks, for strategies with a model of each robot; empty = none")
    robot_dir: str = option(
        "", help="that robot's state_dir, for methods that keep tensors on the robots; empty = none"
    )
    state_dir: Path = option(Path("inference"), help="folder of downloaded models")
    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")
    descriptor_frames: int = option(8, help="first frames that choose the models", unit="count", low=2, high=10_000)
    gap_s: float = option(5.0, help="a jump of image time by more than this starts a new sequence", unit="s", low=0.01)
    reliable_sensors: bool = option(False, help="ask the image publisher for reliable delivery (replays)")
    rig: Mapping[str, CameraMount] = field(
        default_factory=dict,
        metadata={"help": "cameras of a vehicle by topic prefix, as YAML (docs/live_bev.md); empty = one camera"},
    )
    lidar: Mapping[str, Mount] = field(
        default_factory=dict,
        metadata={"help": "task detection: the LiDAR by topic prefix, as YAML (docs/live_detection.md); empty = none"},
    )
    min_score: float = option(0.1, help="boxes with a lower score are not published", low=0.0, high=1.0)
    base_frame: str = option("base_link", help="frame of the vehicle, in which rig tells where its cameras are")
    sync_slop_s: float = option(0.02, help="largest time between the messages of a rig", unit="s", low=0.0, high=10.0)
    known_cells: str = option(
        SECTOR, help="cells that the cameras of a rig look at, as in training", choices=(SECTOR, FOV, OFF)
    )
    threads: int = option(1, help="CPU threads of the network", unit="count", low=1, high=1024)
    autostart: bool = option(True, help="configure and activate without a lifecycle manager")

    def __post_init__(self) -> None:
        check(self)
        if self.robot_dir and not self.robot_id:
            raise ConfigError("robot_dir is set, but not robot_id; name the robot whose folder it is")
        if self.lidar:
            scan_rig_from_tree(self.rig, self.lidar)
        else:
            rig_from_tree(self.rig).require_known(self.known_cells)

    def stream(self, node: LifecycleNode) -> Stream:
        """Return the topics of the task: one camera and its depth, a rig and a map, or a rig with LiDAR and boxes."""
        if self.lidar:
            scan_rig = scan_rig_from_tree(self.rig, self.lidar)
            return DetectionStream(node, scan_rig, slop_s=self.sync_slop_s, min_score=self.min_score)
        if not self.rig:
            return DepthStream(node)
        rig = rig_from_tree(self.rig)
        return BevStream(node, rig, base_frame=self.base_frame, slop_s=self.sync_slop_s, known=self.known_cells)


@dataclass(frozen=True)
class Served:
    """A network that serves from now on, and why."""

    selection: Selection
    network: Any


class LiveInference:
    """Chooses models for the running sequence and publishes live predictions while :attr:`active`.

    Args:
        node: owner of topics and services.
        config: how models are chosen and served.

    Attributes:
        active: samples are taken and results published.
        text: what it does, for people.
    """

    def __init__(self, node: LifecycleNode, config: InferenceConfig) -> None:
        self._node, self._config = node, config
        self.active, self.text = False, "inactive"
        self._stream = config.stream(node)
        self._problem, self._wrong_task, self._said = "", "", ""
        self._early_plan: FleetPlan | None = None
        self._sequences = SequenceCutter(config.gap_s, config.descriptor_frames)
        self._last_image_s = float("inf")
        self._opened = ExitStack()

    def open(self) -> None:
        """Load the encoder, open topics, ask the aggregator for access; whatever it raises, :meth:`close` cleans up."""
        node, config, opened = self._node, self._config, self._opened
        self._store = BlobStore(config.state_dir)
        self._results = Mailbox(node, self._on_result)
        opened.callback(self._results.close)
        self._serving = ServingThread(config.threads, self._results.post, self._on_error)
        opened.callback(self._serving.close)
        self._host = RoleHost(node, Inference(make_strategy, robot_id=config.robot_id), self._carriers())
        opened.callback(self._host.close)
        self._channel = RosBlobChannel(node, self._store)
        opened.callback(self._channel.close)
        self._access = ReadAccess(node, config.fleet_ns.rstrip("/"), config.reader_id, self._on_access)
        opened.callback(self._access.close)
        self._open_outputs()
        self._open_inputs()

    def _open_outputs(self) -> None:
        node = self._node
        self._selections = node.create_lifecycle_publisher(Selection, "selection", qos.LATCHED)
        self._opened.callback(node.destroy_publisher, self._selections)

    def _open_inputs(self) -> None:
        node = self._node
        sensors = qos.SENSORS_RELIABLE if self._config.reliable_sensors else qos.SENSORS
        self._stream.open(Feed(lambda: self.active, self._on_taken, self._on_error), sensors, self._opened)
        plans = guarded(node, convert.plan_from_msg, self._on_plan)
        topic = f"{self._config.fleet_ns.rstrip('/')}/round"
        subscription = node.create_subscription(RoundPlan, topic, plans, qos.LATCHED)
        self._opened.callback(node.destroy_subscription, subscription)
        service = node.create_service(Trigger, "new_sequence", self._on_new_sequence)
        timer = steady_timer(node, 1.0, self._on_tick)
        self._opened.callback(node.destroy_service, service)
        self._opened.callback(node.destroy_timer, timer)

    def close(self) -> None:
        """Close the topics, stop the thread."""
        self.active = False
        self._opened.close()

    def health(self) -> tuple[str, str, dict[str, str]]:
        """Return level, a line for people, and how many samples were predicted and dropped."""
        problem = self._wrong_task or self._problem
        counts = {"predicted": str(self._serving.predicted), "dropped": str(self._serving.dropped)}
        return ("warn" if problem else "ok"), problem or self.text, {**counts, **self._stream.counts()}

    def _carriers(self) -> dict[type, Callable[[Any], Any]]:
        return {
            ev.FetchBlob: lambda e: fetch_for(self._channel, self._host, e.blob, self._access.service),
            ev.LoadServing: lambda e: ev.ServingLoaded(load_memory(self._store.path(e.blob.digest))),
            ev.DescribeSequence: self._describe,
            ev.LoadModel: self._load,
        }

    # ---- fleet ---------------------------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        self._access.ask()
        if time.monotonic() - self._last_image_s > self._config.gap_s:
            self._last_image_s = float("inf")
            self._on_silence()
        problem, known = self._stream.problem(), (self._problem, self._said)
        self._problem = problem
        if problem and problem not in known:
            self._node.get_logger().error(problem)
        self._host.feed(ev.Tick())

    def _on_silence(self) -> None:
        """Choose the models of a sequence that ended early by what there is of it."""
        for event in self._sequences.silent():
            self._host.feed(event)
        if len(self._sequences.images) < MIN_FRAMES:
            name = self._sequences.name
            self._on_error(f"{name} stopped after 1 image; at least {MIN_FRAMES} are needed to choose its models")

    def _on_access(self) -> None:
        if self._early_plan is not None:
            plan, self._early_plan = self._early_plan, None
            self._host.feed(plan)

    def _on_plan(self, plan: FleetPlan) -> None:
        task, known = plan.config.task, self._stream
        self._wrong_task = ""
        if task != known.task:
            self._wrong_task = f"run {plan.run_id} learns {task}, but this node takes {known.takes} for {known.task}"
            self._on_error(f"{self._wrong_task}; see its parameters rig and lidar")
            return
        if self._access.service:
            self._host.feed(plan)
        else:
            self._early_plan = plan

    # ---- sequences -----------------------------------------------------------------------------------------------

    def _on_new_sequence(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._sequences.cut()
        response.success, response.message = True, "the next image starts a new sequence"
        return response

    def _on_taken(self, taken: Taken) -> None:
        self._last_image_s = time.monotonic()
        for event in self._sequences.add(taken.header, taken.pictures):
            self._host.feed(event)
        self._serving.offer(taken, taken.sample)

    def _describe(self, effect: ev.DescribeSequence) -> None:
        images = list(self._sequences.images)

        def described(descriptor: Descriptor) -> None:
            self._host.post(ev.SequenceDescribed(effect.name, descriptor))

        self._serving.describe(images, effect.kind, described)

    def _load(self, effect: ev.LoadModel) -> None:
        plan, keys = effect.plan, effect.choice.keys
        selection = convert.selection_to_msg(effect, self._sequences.first)
        paths = {key: self._store.path(plan.blobs[key].digest) for key in keys}
        model = LiveModel(plan.config, paths, *self._own(plan))

        def loaded(network: Any) -> None:
            self.text = f"serving {', '.join(keys)} of round {plan.round}"
            self._results.post(Served(selection, network))

        self._serving.load(model, loaded)

    def _own(self, plan: FleetPlan) -> tuple[dict[str, str], str]:
        """Return the files that the robot keeps, and what to do should they be needed and missing."""
        folder, robot_id = self._config.robot_dir, self._config.robot_id
        if not folder:
            return {}, "serve each robot's model on that robot: set robot_id and robot_dir"
        kept = kept_files(plan, Installation(robot_id, "", Path(folder), {}))
        return kept, f"{folder} holds none of robot {robot_id} in run {plan.run_id}; its first training brings them"

    def _on_result(self, result: Any) -> None:
        """Publish what the serving thread made: the choice once its models are loaded, then predictions."""
        if isinstance(result, Served):
            self._stream.served(result.network)
        if not self.active:
            return
        if isinstance(result, Served):
            self._selections.publish(result.selection)
            return
        taken, prediction = result
        self._stream.publish(taken, prediction)

    def _on_error(self, text: str) -> None:
        self._said = text
        self._node.get_logger().error(text, throttle_duration_sec=2.0)
