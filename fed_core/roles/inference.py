"""The inference node's state machine: one choice of models per sequence, made from its first frames."""

from collections.abc import Callable
from typing import Any

from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan
from fed_core.strategies.base import Strategy
from fed_core.types import BlobRef, Choice, Descriptor, Memory

#: Time after which a blob that could not be read is asked for again, or a load that failed is tried again.
RETRY_S = 3.0


class Inference:
    """Pure role; the driver carries its effects out.

    The choice needs the plan, the strategy's serving memory and the descriptor of the sequence, whatever comes first.
    The model that was loaded before serves until the new one is there; a new round renews the weights of the choice.

    Args:
        make_strategy: builds a strategy from the name and options of a plan.
        robot_id: robot that asks, for strategies with a model of each robot; empty = none in particular.
    """

    def __init__(self, make_strategy: Callable[[str, Any], Strategy], robot_id: str = "") -> None:
        self._make, self._robot_id = make_strategy, robot_id
        self._strategy: Strategy | None = None
        self._plan: FleetPlan | None = None
        self._serving: Memory | None = None
        self._sequence = ""
        self._frames_ready = False
        self._describing = False
        self._descriptor: Descriptor | None = None
        self._choice: Choice | None = None
        self._missing: dict[str, BlobRef] = {}
        self._retry_at_s = float("inf")
        self._loaded: tuple[str, str, tuple[str, ...]] | None = None
        self._handlers: dict[type, Callable[[Any, float], list[ev.Effect]]] = {
            FleetPlan: self._on_plan,
            ev.SequenceStarted: self._on_sequence,
            ev.FramesReady: self._on_frames,
            ev.SequenceDescribed: self._on_described,
            ev.ServingLoaded: self._on_serving,
            ev.BlobReady: self._on_blob,
            ev.BlobFailed: self._on_failed,
            ev.LoadFailed: self._on_load_failed,
            ev.Tick: self._on_tick,
        }

    def handle(self, event: ev.Event, now_s: float) -> list[ev.Effect]:
        """Return what must be done because ``event`` happened at monotonic time ``now_s`` [s]."""
        return self._handlers[type(event)](event, now_s)

    def _on_plan(self, event: FleetPlan, now_s: float) -> list[ev.Effect]:
        self._plan = event
        self._missing = {}
        self._strategy = self._make(event.config.strategy, event.config.strategy_options)
        self._choice = None
        self._serving = None if event.serving else Memory()
        if event.serving is None:
            return self._choose()
        return [ev.FetchBlob(event.serving, "")]

    def _on_sequence(self, event: ev.SequenceStarted, now_s: float) -> list[ev.Effect]:
        self._sequence, self._descriptor, self._choice = event.name, None, None
        self._missing = {}
        self._frames_ready = self._describing = False
        return self._choose()

    def _on_frames(self, event: ev.FramesReady, now_s: float) -> list[ev.Effect]:
        if event.name != self._sequence:
            return []
        self._frames_ready = True
        return self._choose()

    def _on_described(self, event: ev.SequenceDescribed, now_s: float) -> list[ev.Effect]:
        if event.name != self._sequence:
            return []
        self._descriptor, self._describing = event.descriptor, False
        return self._choose()

    def _on_serving(self, event: ev.ServingLoaded, now_s: float) -> list[ev.Effect]:
        self._serving = event.memory
        return self._choose()

    def _choose(self) -> list[ev.Effect]:
        plan, strategy = self._plan, self._strategy
        if plan is None or strategy is None or self._serving is None or not self._sequence:
            return []
        if strategy.descriptor is not None and self._descriptor is None:
            if not self._frames_ready or self._describing:
                return []
            self._describing = True
            return [ev.DescribeSequence(self._sequence, strategy.descriptor)]
        self._choice = strategy.choose(self._descriptor, plan.models, self._serving, self._robot_id)
        self._missing = _blobs(plan, self._choice)
        return [ev.FetchBlob(blob, "") for blob in self._missing.values()]

    def _on_blob(self, event: ev.BlobReady, now_s: float) -> list[ev.Effect]:
        plan = self._plan
        if plan is None:
            return []
        effects: list[ev.Effect] = []
        if plan.serving and event.digest == plan.serving.digest and self._serving is None:
            effects.append(ev.LoadServing(plan.serving))
        if self._choice is None or event.digest not in self._missing:
            return effects
        del self._missing[event.digest]
        if self._missing:
            return effects
        frames = self._descriptor.num_frames if self._descriptor else 0
        load = ev.LoadModel(self._sequence, plan, self._choice, frames)
        if self._loaded == _identity(load):
            return effects
        self._loaded = _identity(load)
        return [*effects, load]

    def _on_load_failed(self, event: ev.LoadFailed, now_s: float) -> list[ev.Effect]:
        if self._loaded != _identity(event.load):
            return []  # another load was asked for meanwhile
        self._loaded = None
        if self._plan is not None and self._choice is not None and not self._missing:
            self._missing = _blobs(self._plan, self._choice)
            self._retry_at_s = now_s + RETRY_S
        return []

    def _on_failed(self, event: ev.BlobFailed, now_s: float) -> list[ev.Effect]:
        if event.digest not in self._wanted():
            return []
        self._retry_at_s = now_s + RETRY_S
        return [ev.Log("error", f"cannot read a model of sequence {self._sequence!r}: {event.text}")]

    def _on_tick(self, event: ev.Tick, now_s: float) -> list[ev.Effect]:
        if now_s < self._retry_at_s:
            return []
        self._retry_at_s = float("inf")
        return [ev.FetchBlob(blob, "") for blob in self._wanted().values()]

    def _wanted(self) -> dict[str, BlobRef]:
        serving = self._plan.serving if self._plan and self._serving is None else None
        return {**self._missing, **({serving.digest: serving} if serving else {})}


def _blobs(plan: FleetPlan, choice: Choice) -> dict[str, BlobRef]:
    return {plan.blobs[key].digest: plan.blobs[key] for key in choice.keys}


def _identity(load: ev.LoadModel) -> tuple[str, str, tuple[str, ...]]:
    """Return what tells one load from another: the round does not, where the weights are the same."""
    return load.plan.run_id, load.sequence, tuple(sorted(_blobs(load.plan, load.choice)))
