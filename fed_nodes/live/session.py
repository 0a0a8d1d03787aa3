"""What an inference node does between configure and cleanup: the stream, the role, the threads with the networks."""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from fed_msgs.msg import Selection
from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode
from std_srvs.srv import Trigger

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
from fed_nodes.convert import fleet as convert
from fed_nodes.host import RoleHost
from fed_nodes.live.allocator import keep_freed_memory
from fed_nodes.live.config import InferenceConfig
from fed_nodes.live.drift import DriftWatch
from fed_nodes.live.fleet_models import FleetModels
from fed_nodes.live.sequences import SequenceCutter
from fed_nodes.live.serving import Counts, LiveModel, LiveNetwork, ServingThread
from fed_nodes.live.streams import Feed, Taken
from fed_nodes.sensing.sensors import first_problem, health_values
from fed_nodes.timers import steady_timer

#: Time after which the interpreter lets another thread go on [s].
_SWITCH_S = 0.0002


class LiveInference:
    """Chooses models for the running sequence and publishes live predictions while :attr:`active`.

    Predictions are published by the thread that makes them: the way over the executor would cost a wake-up.

    Args:
        node: owner of topics and services.
        config: how models are chosen and served.

    Attributes:
        active: samples are taken and results published.
    """

    def __init__(self, node: LifecycleNode, config: InferenceConfig) -> None:
        self._node, self._config = node, config
        self.active = False
        self._stream = config.stream(node)
        self._problem, self._wrong_task, self._said = "", "", ""
        self._models: tuple[str, int] = ("", 0)  # keys and round of what serves
        self._unsaid: Selection | None = None  # a choice that was made while nothing is published
        self._sequences = SequenceCutter(config.gap_s, config.descriptor_frames)
        self._drift = DriftWatch(config.drift_frames, config.descriptor_frames, config.drift_threshold)
        self._last_image_s = float("inf")
        self._opened = ExitStack()

    def open(self) -> None:
        """Open topics, take the last known plan, ask the aggregator for access; whatever it raises, :meth:`close`."""
        node, config, opened = self._node, self._config, self._opened
        # Else a thread that is ready to predict or to publish may wait 5 ms for one that loads a network.
        opened.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(_SWITCH_S)
        keep_freed_memory()
        store = self._store = BlobStore(config.state_dir)
        self._serving = ServingThread(
            config.threads, self._on_result, self._on_error, config.runtime, device=config.device
        )
        opened.callback(self._serving.close)
        self._host = RoleHost(node, Inference(make_strategy, robot_id=config.robot_id), self._carriers())
        opened.callback(self._host.close)
        fleet = config.fleet_ns.rstrip("/")
        self._fleet = FleetModels(node, store, fleet, config.reader_id, self._on_plan)
        self._fleet.open(opened)
        self._open_outputs()
        self._open_inputs()
        opened.callback(self._serving.close)  # closed first: it publishes
        self._fleet.restore()

    @property
    def text(self) -> str:
        """What it does, for people."""
        keys, number = self._models
        if not self.active:
            return "inactive"
        return f"serving {keys} of round {number}" if keys else "waiting for models"

    def activate(self) -> None:
        """Take samples and publish from now on; the publishers are active already."""
        self.active = True
        unsaid, self._unsaid = self._unsaid, None
        if unsaid is not None:
            self._selections.publish(unsaid)

    def change(self, config: InferenceConfig) -> None:
        """Take new values of live parameters; on the executor's thread."""
        self._config = config
        self._sequences.gap_s = config.gap_s
        config.change(self._stream)
        self._follow_clock()

    def _open_outputs(self) -> None:
        node = self._node
        self._selections = node.create_lifecycle_publisher(Selection, "selection", qos.LATCHED)
        self._opened.callback(node.destroy_publisher, self._selections)

    def _open_inputs(self) -> None:
        node, opened = self._node, self._opened
        sensors = qos.SENSORS_RELIABLE if self._config.reliable_sensors else qos.SENSORS
        self._stream.open(Feed(lambda: self.active, self._on_taken, self._on_error), sensors, opened)
        opened.callback(node.destroy_service, node.create_service(Trigger, "new_sequence", self._on_new_sequence))
        opened.callback(node.destroy_timer, steady_timer(node, 1.0, self._on_tick))
        self._jumps: Any = None
        self._follow_clock()
        opened.callback(lambda: self._jumps.unregister())

    def _follow_clock(self) -> None:
        if self._jumps is not None:
            self._jumps.unregister()
        gap = Duration(nanoseconds=round(self._config.gap_s * 1e9))
        threshold = JumpThreshold(min_forward=gap, min_backward=Duration(nanoseconds=-gap.nanoseconds))
        self._jumps = self._node.get_clock().create_jump_callback(threshold, post_callback=self._on_clock_jump)

    def close(self) -> None:
        """Close the topics, stop the threads."""
        self.active = False
        self._opened.close()

    def health(self) -> tuple[str, str, dict[str, str]]:
        """Return level, a line for people, and what became of the samples."""
        problem = self._wrong_task or self._problem or self._serving.problem
        keys, number = self._models
        values = {**_told(self._serving.counts()), "models": keys, "round": str(number)}
        if self._config.drift_frames:
            values["drift"] = f"{self._drift.distance:.3g}"
        values |= {**self._stream.counts(), **health_values(self._stream.topics)}
        return ("warn" if problem else "ok"), problem or self.text, values

    def _carriers(self) -> dict[type, Callable[[Any], Any]]:
        return {
            ev.FetchBlob: lambda e: self._fleet.fetch(e.blob, self._host),
            ev.LoadServing: lambda e: ev.ServingLoaded(load_memory(self._store.path(e.blob.digest))),
            ev.DescribeSequence: self._describe,
            ev.LoadModel: self._load,
        }

    # ---- fleet ---------------------------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        self._fleet.ask()
        if time.monotonic() - self._last_image_s > self._config.gap_s:
            self._last_image_s = float("inf")
            self._on_silence()
        stream, known = self._stream, (self._problem, self._said)
        problem = stream.problem() or first_problem(stream.topics) or self._fleet.problem
        self._problem = problem
        if problem and problem not in known and not any(topic.has_told(problem) for topic in stream.topics):
            self._node.get_logger().warning(problem)
        self._host.feed(ev.Tick())

    def _on_silence(self) -> None:
        """Choose the models of a sequence that ended early by what there is of it."""
        for event in self._sequences.silent():
            self._host.feed(event)
        if not self._sequences.is_announced:
            name = self._sequences.name
            self._on_error(f"{name} stopped after 1 image; at least {MIN_FRAMES} are needed to choose its models")

    def _on_plan(self, plan: FleetPlan) -> None:
        task, known = plan.config.task, self._stream
        self._wrong_task = ""
        if task != known.task:
            self._wrong_task = f"run {plan.run_id} learns {task}, but this node takes {known.takes} for {known.task}"
            self._on_error(f"{self._wrong_task}; see its parameters rig and lidar")
            return
        self._host.feed(plan)

    # ---- sequences -----------------------------------------------------------------------------------------------

    def _on_new_sequence(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._sequences.cut()
        response.success, response.message = True, "the next image starts a new sequence"
        return response

    def _on_clock_jump(self, jump: Any) -> None:
        self._sequences.cut()

    def _on_taken(self, taken: Taken) -> None:
        self._serving.offer(taken, taken.sample)  # first of all: it may be predicted while the rest goes on here
        self._last_image_s = time.monotonic()
        events = self._sequences.add(taken.header, taken.pictures)
        if any(isinstance(event, ev.SequenceStarted) for event in events):
            self._drift.restart()
        for event in events:
            self._host.feed(event)
        wanted = self._drift.add(taken.pictures)
        if wanted is not None and not self._serving.is_behind:  # else comparisons would pile up, with their pictures
            kind, pictures = wanted
            self._serving.describe(pictures, kind, partial(self._on_recent, self._sequences.name))

    def _on_recent(self, name: str, recent: Descriptor) -> None:
        """Compare the last frames with those of the choice, in the thread that describes."""
        if name == self._sequences.name and self._drift.ends(recent):
            self._node.get_logger().info(f"{name} ends: it drifted by {self._drift.distance:.3g}")
            self._sequences.cut()

    def _describe(self, effect: ev.DescribeSequence) -> None:
        images = self._sequences.take()

        def described(descriptor: Descriptor) -> None:
            if effect.name == self._sequences.name:
                self._drift.chosen_from(descriptor)
            self._host.post(ev.SequenceDescribed(effect.name, descriptor))

        self._serving.describe(images, effect.kind, described)

    def _load(self, effect: ev.LoadModel) -> None:
        plan, keys = effect.plan, effect.choice.keys
        selection = convert.selection_to_msg(effect, self._sequences.first)
        paths = {key: self._store.path(plan.blobs[key].digest) for key in keys}
        self._serving.load(
            LiveModel(plan.config, paths, *self._own(plan)),
            partial(self._on_served, effect, selection),
            partial(self._host.post, ev.LoadFailed(effect)),
        )

    def _own(self, plan: FleetPlan) -> tuple[dict[str, str], str]:
        """Return the files that the robot keeps, and what to do should they be needed and missing."""
        folder, robot_id = self._config.robot_dir, self._config.robot_id
        if not folder:
            return {}, "serve each robot's model on that robot: set robot_id and robot_dir"
        kept = kept_files(plan, Installation(robot_id, "", Path(folder), {}))
        return kept, f"{folder} holds none of robot {robot_id} in run {plan.run_id}; its first training brings them"

    # ---- results, in the thread that predicts --------------------------------------------------------------------

    def _on_served(self, effect: ev.LoadModel, selection: Selection, live: LiveNetwork) -> None:
        """Publish the choice, now that its models serve."""
        before, self._models = self._models, (", ".join(effect.choice.keys), effect.plan.round)
        if self._models != before:
            self._node.get_logger().info("serving {} of round {}".format(*self._models))
        self._stream.served(live.network)
        self._serving.later(partial(self._fleet.keep, effect.plan))  # disks may be slow
        if self.active:
            self._selections.publish(selection)
        else:
            self._unsaid = selection

    def _on_result(self, result: tuple[Taken, Any]) -> None:
        if self.active:
            self._stream.publish(*result)

    def _on_error(self, text: str) -> None:
        self._said = text
        self._node.get_logger().error(text, throttle_duration_sec=2.0)


def _told(counts: Counts) -> dict[str, str]:
    found = {name: str(getattr(counts, name)) for name in ("received", "predicted", "dropped", "failed")}
    p50, p95 = (f"{value * 1e3:.1f}" for value in counts.latency_s)
    return {**found, "latency_p50_ms": p50, "latency_p95_ms": p95, "output_age_s": f"{counts.age_s:.1f}"}
