"""ROS 2 lifecycle node of the inference role: chooses models for the running sequence and serves live depth."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fed_msgs.msg import RoundPlan, Selection
from fed_msgs.srv import RegisterRobot
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header
from std_srvs.srv import Trigger

import fed_core
from fed_core.bookkeeping import make_strategy
from fed_core.config import check, option
from fed_core.errors import DataError, FedError
from fed_core.roles import events as ev
from fed_core.roles.inference import Inference
from fed_core.roles.messages import FleetPlan, Registration
from fed_core.store.blobs import BlobStore
from fed_core.types import PROTOCOL_VERSION, Array
from fed_core.wire.codec import load_memory
from fed_nodes import params, qos, run
from fed_nodes.blobs import RosBlobChannel
from fed_nodes.convert import fleet as convert
from fed_nodes.convert.images import depth_to_msg, rgb_from_msg, stamp_ns
from fed_nodes.diagnostics import Diagnostics
from fed_nodes.frames import COLOUR, INFO
from fed_nodes.host import RoleHost, fetch_for, guarded
from fed_nodes.serving import LiveModel, ServingThread
from fed_nodes.timers import steady_timer


@dataclass(frozen=True)
class InferenceConfig:
    """How models are chosen and served (``config/inference.yaml``)."""

    reader_id: str = option("inference", help="name under which models are read; unique in the fleet")
    state_dir: Path = option(Path("inference"), help="folder of downloaded models")
    fleet_ns: str = option("/fleet", help="namespace of the fleet's topics")
    descriptor_frames: int = option(8, help="first frames that choose the models", unit="count", low=2, high=10_000)
    gap_s: float = option(5.0, help="a jump of image time by more than this starts a new sequence", unit="s", low=0.01)
    reliable_sensors: bool = option(False, help="ask the image publisher for reliable delivery (replays)")
    threads: int = option(1, help="CPU threads of the network", unit="count", low=1, high=1024)
    autostart: bool = option(True, help="configure and activate without a lifecycle manager")

    def __post_init__(self) -> None:
        check(self)


class InferenceNode(LifecycleNode):
    """Live output of the fleet's models. Parameters: InferenceConfig."""

    def __init__(self) -> None:
        super().__init__("inference")
        self._config = params.load(self, InferenceConfig)
        self._serving: ServingThread | None = None
        self._active = False
        self._count, self._sequence, self._last_ns = 0, "", 0
        self._images: list[Array] = []
        self._first = Header()
        self._info: CameraInfo | None = None
        self._text = "unconfigured"
        self._boundary = True
        self._diagnostics = Diagnostics(self, self._config.reader_id, self._health)
        if self._config.autostart:
            self._starter = steady_timer(self, 0.0, self._autostart)

    def _autostart(self) -> None:
        self._starter.cancel()
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    # ---- lifecycle -----------------------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the encoder, open topics, ask the aggregator for access."""
        try:
            self._store = BlobStore(self._config.state_dir)
            self._serving = ServingThread(self._config.threads, self._on_depth, self._on_error)
        except FedError as err:
            self.get_logger().error(str(err))
            return TransitionCallbackReturn.FAILURE
        self._channel = RosBlobChannel(self, self._store)
        self._role = Inference(make_strategy)
        self._host = RoleHost(self, self._role, self._carriers())
        self._read_service = ""
        self._early_plan: FleetPlan | None = None
        self._open_topics()
        self._text = "inactive"
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish from now on."""
        self._active, self._text = True, "waiting for models"
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish nothing."""
        self._active, self._text = False, "inactive"
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close topics, forget the models."""
        self._close()
        self._text = "unconfigured"
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close everything."""
        self._close()
        return TransitionCallbackReturn.SUCCESS

    def _open_topics(self) -> None:
        fleet = self._config.fleet_ns.rstrip("/")
        sensors = qos.SENSORS_RELIABLE if self._config.reliable_sensors else qos.SENSORS
        self._depths = self.create_lifecycle_publisher(Image, "depth/image", qos.OUTPUTS)
        self._infos = self.create_lifecycle_publisher(CameraInfo, "depth/camera_info", qos.OUTPUTS)
        self._selections = self.create_lifecycle_publisher(Selection, "selection", qos.LATCHED)
        self._registrar: Any = self.create_client(RegisterRobot, f"{fleet}/register")
        plans = guarded(self, convert.plan_from_msg, self._on_plan)
        self._opened: list[Callable[[], Any]] = []
        for kind, topic, callback, profile in (
            (RoundPlan, f"{fleet}/round", plans, qos.LATCHED),
            (CameraInfo, INFO, self._on_info, sensors),
            (Image, COLOUR, self._on_image, sensors),
        ):
            subscription = self.create_subscription(kind, topic, callback, profile)
            self._opened.append(partial(self.destroy_subscription, subscription))
        service = self.create_service(Trigger, "new_sequence", self._on_new_sequence)
        timer = steady_timer(self, 1.0, self._on_tick)
        self._opened += [lambda: self.destroy_service(service), lambda: self.destroy_timer(timer)]

    def _close(self) -> None:
        if self._serving is None:
            return
        for close in self._opened:
            close()
        for publisher in (self._depths, self._infos, self._selections):
            self.destroy_publisher(publisher)
        self.destroy_client(self._registrar)
        self._channel.close()
        self._serving.close()
        self._serving = None

    def _carriers(self) -> dict[type, Callable[[Any], Any]]:
        return {
            ev.FetchBlob: lambda e: fetch_for(self._channel, self._host, e.blob, self._read_service),
            ev.LoadServing: lambda e: ev.ServingLoaded(load_memory(self._store.path(e.blob.digest))),
            ev.DescribeSequence: self._describe,
            ev.LoadModel: self._load,
        }

    # ---- fleet ---------------------------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        """Ask for a blob service until there is one."""
        if self._read_service or not self._registrar.service_is_ready():
            return
        registration = Registration(
            robot_id=self._config.reader_id,
            instance="",
            observer=True,
            protocol=PROTOCOL_VERSION,
            software=fed_core.__version__,
            task="",
            architecture="",
            model_digest="",
            num_samples=0,
        )
        future = self._registrar.call_async(convert.registration_to_request(registration))
        future.add_done_callback(self._on_registered)

    def _on_registered(self, future: Any) -> None:
        response = future.result()
        if response is None:
            return
        if response.code != 0:
            self.get_logger().error(f"the aggregator refused: {response.text}")
            return
        self._read_service = response.read_service
        if self._early_plan is not None:
            plan, self._early_plan = self._early_plan, None
            self._host.feed(plan)

    def _on_plan(self, plan: FleetPlan) -> None:
        if self._read_service:
            self._host.feed(plan)
        else:
            self._early_plan = plan

    # ---- sequences -----------------------------------------------------------------------------------------------

    def _on_new_sequence(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._boundary = True
        response.success, response.message = True, "the next image starts a new sequence"
        return response

    def _on_info(self, msg: CameraInfo) -> None:
        self._info = msg

    def _on_image(self, msg: Image) -> None:
        if not self._active or self._serving is None:
            return
        try:
            rgb = rgb_from_msg(msg)
        except DataError as err:
            self.get_logger().error(f"dropped an image: {err}", throttle_duration_sec=2.0)
            return
        now_ns = stamp_ns(msg.header.stamp)
        if self._boundary or abs(now_ns - self._last_ns) > self._config.gap_s * 1e9:
            self._start_sequence(msg.header)
        self._last_ns = now_ns
        if len(self._images) < self._config.descriptor_frames:
            self._images.append(rgb)
            if len(self._images) == self._config.descriptor_frames:
                self._host.feed(ev.FramesReady(self._sequence))
        self._serving.offer((msg.header, self._info), rgb)

    def _start_sequence(self, header: Header) -> None:
        self._boundary = False
        self._count += 1
        self._sequence, self._images, self._first = f"sequence_{self._count}", [], header
        self._text = f"choosing models for {self._sequence}"
        self._host.feed(ev.SequenceStarted(self._sequence))

    def _describe(self, effect: ev.DescribeSequence) -> None:
        if self._serving is not None:
            self._serving.describe(
                list(self._images), lambda found: self._host.post(ev.SequenceDescribed(effect.name, found))
            )

    def _load(self, effect: ev.LoadModel) -> None:
        if self._serving is None:
            return
        plan, choice = effect.plan, effect.choice
        digests = [plan.blobs[key].digest for key in choice.keys]
        selection = Selection(
            header=self._first,
            sequence=effect.sequence,
            run_id=plan.run_id,
            round=plan.round,
            models=list(choice.keys),
            clusters=list(choice.clusters),
            distances=[float(distance) for distance in choice.distances],
            threshold=float(choice.threshold),
            fallback=choice.fallback,
            num_frames=effect.num_frames,
            model_digest=hashlib.sha256("".join(sorted(digests)).encode()).hexdigest(),
        )
        self._text = f"serving {', '.join(choice.keys)} of round {plan.round}"
        paths = {key: self._store.path(plan.blobs[key].digest) for key in choice.keys}
        model = LiveModel(plan.config, paths)
        self._serving.load(model, lambda: self._selections.publish(selection))

    def _on_depth(self, token: Any, depth_m: Array) -> None:
        header, info = token
        if not self._active:
            return
        self._depths.publish(depth_to_msg(depth_m, header))
        if info is not None:
            info.header = header
            self._infos.publish(info)

    def _on_error(self, text: str) -> None:
        self.get_logger().error(text, throttle_duration_sec=2.0)

    def _health(self) -> tuple[str, str, dict[str, str]]:
        if self._serving is None:
            return "warn", self._text, {}
        values = {"predicted": str(self._serving.predicted), "dropped": str(self._serving.dropped)}
        return "ok", self._text, values

    def destroy_node(self) -> None:
        """Stop the thread, then the node."""
        self._close()
        super().destroy_node()


def main() -> int:
    """Run the node."""
    return run.main(InferenceNode)


if __name__ == "__main__":
    sys.exit(main())
