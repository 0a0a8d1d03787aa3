"""What an inference node does between configure and cleanup: topics, the role, the thread with the networks."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fed_msgs.msg import RoundPlan, Selection
from rclpy.lifecycle import LifecycleNode
from sensor_msgs.msg import CameraInfo, Image
from std_srvs.srv import Trigger

from fed_core.config import check, option
from fed_core.errors import DataError
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
from fed_nodes.convert.images import depth_to_msg, rgb_from_msg
from fed_nodes.frames import COLOUR, INFO
from fed_nodes.host import Mailbox, RoleHost, fetch_for, guarded
from fed_nodes.sequences import SequenceCutter
from fed_nodes.serving import LiveModel, ServingThread
from fed_nodes.timers import steady_timer


@dataclass(frozen=True)
class InferenceConfig:
    """How models are chosen and served (``config/inference.yaml``)."""

    reader_id: str = option("inference", help="name under which models are read; unique in the fleet")
    robot_id: str = option("", help="robot that asks, for strategies with a model of each robot; empty = none")
    state_dir: Path = option(Path("inference"), help="folder of downloaded models")
    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")
    descriptor_frames: int = option(8, help="first frames that choose the models", unit="count", low=2, high=10_000)
    gap_s: float = option(5.0, help="a jump of image time by more than this starts a new sequence", unit="s", low=0.01)
    reliable_sensors: bool = option(False, help="ask the image publisher for reliable delivery (replays)")
    threads: int = option(1, help="CPU threads of the network", unit="count", low=1, high=1024)
    autostart: bool = option(True, help="configure and activate without a lifecycle manager")

    def __post_init__(self) -> None:
        check(self)


class LiveInference:
    """Chooses models for the running sequence and publishes live depth while :attr:`active`.

    Args:
        node: owner of topics and services.
        config: how models are chosen and served.

    Attributes:
        active: images are taken and results published.
        text: what it does, for people.
    """

    def __init__(self, node: LifecycleNode, config: InferenceConfig) -> None:
        self._node, self._config = node, config
        self.active, self.text = False, "inactive"
        self._info: CameraInfo | None = None
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
        self._depths = node.create_lifecycle_publisher(Image, "depth/image", qos.OUTPUTS)
        self._infos = node.create_lifecycle_publisher(CameraInfo, "depth/camera_info", qos.OUTPUTS)
        self._selections = node.create_lifecycle_publisher(Selection, "selection", qos.LATCHED)
        for publisher in (self._depths, self._infos, self._selections):
            self._opened.callback(node.destroy_publisher, publisher)

    def _open_inputs(self) -> None:
        node = self._node
        sensors = qos.SENSORS_RELIABLE if self._config.reliable_sensors else qos.SENSORS
        plans = guarded(node, convert.plan_from_msg, self._on_plan)
        for kind, topic, callback, profile in (
            (RoundPlan, f"{self._config.fleet_ns.rstrip('/')}/round", plans, qos.LATCHED),
            (CameraInfo, INFO, self._on_info, sensors),
            (Image, COLOUR, self._on_image, sensors),
        ):
            subscription = node.create_subscription(kind, topic, callback, profile)
            self._opened.callback(node.destroy_subscription, subscription)
        service = node.create_service(Trigger, "new_sequence", self._on_new_sequence)
        timer = steady_timer(node, 1.0, self._on_tick)
        self._opened.callback(node.destroy_service, service)
        self._opened.callback(node.destroy_timer, timer)

    def close(self) -> None:
        """Close the topics, stop the thread."""
        self.active = False
        self._opened.close()

    def counts(self) -> dict[str, str]:
        """Return how many frames were predicted and dropped."""
        return {"predicted": str(self._serving.predicted), "dropped": str(self._serving.dropped)}

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
        if self._access.service:
            self._host.feed(plan)
        else:
            self._early_plan = plan

    # ---- sequences -----------------------------------------------------------------------------------------------

    def _on_new_sequence(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._sequences.cut()
        response.success, response.message = True, "the next image starts a new sequence"
        return response

    def _on_info(self, msg: CameraInfo) -> None:
        self._info = msg

    def _on_image(self, msg: Image) -> None:
        if not self.active:
            return
        try:
            rgb = rgb_from_msg(msg)
        except DataError as err:
            self._on_error(f"dropped an image: {err}")
            return
        self._last_image_s = time.monotonic()
        for event in self._sequences.add(msg.header, rgb):
            self._host.feed(event)
        self._serving.offer((msg.header, self._info), rgb)

    def _describe(self, effect: ev.DescribeSequence) -> None:
        images = list(self._sequences.images)

        def described(descriptor: Descriptor) -> None:
            self._host.post(ev.SequenceDescribed(effect.name, descriptor))

        self._serving.describe(images, effect.kind, described)

    def _load(self, effect: ev.LoadModel) -> None:
        plan, keys = effect.plan, effect.choice.keys
        selection = convert.selection_to_msg(effect, self._sequences.first)
        model = LiveModel(plan.config, {key: self._store.path(plan.blobs[key].digest) for key in keys})

        def loaded() -> None:
            self.text = f"serving {', '.join(keys)} of round {plan.round}"
            self._results.post(selection)

        self._serving.load(model, loaded)

    def _on_result(self, result: Any) -> None:
        """Publish what the serving thread made: the choice once its models are loaded, then depth."""
        if not self.active:
            return
        if isinstance(result, Selection):
            self._selections.publish(result)
            return
        (header, info), depth_m = result
        self._depths.publish(depth_to_msg(depth_m, header))
        if info is not None:
            info.header = header
            self._infos.publish(info)

    def _on_error(self, text: str) -> None:
        self._node.get_logger().error(text, throttle_duration_sec=2.0)
