"""Jobs that nodes hand to their worker, and the events that come back."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.config import to_tree
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, RunConfig, UpdateReport
from fed_core.store.blobs import BlobStore
from fed_core.types import Descriptor, ModelSignature
from fed_nodes.worker import Worker

#: A job whose process was killed (out of memory, by a person) is started again this often.
MAX_RESTARTS = 3


class Jobs:
    """Runs named jobs in a worker, starts lost ones again, and turns answers into events.

    Args:
        post: takes an event from any thread.
        environment: variables for the child process.
        nice: added to the child's niceness.
    """

    def __init__(
        self, post: Callable[[ev.Event], None], *, environment: Mapping[str, str] | None = None, nice: int = 5
    ) -> None:
        self._post = post
        self._worker = Worker(self._on_message, environment=environment, nice=nice)
        self._running: tuple[str, str, Mapping[str, Any], Callable[[dict[str, Any]], ev.Event]] | None = None
        self._lost = 0

    @property
    def pid(self) -> int | None:
        """Process id of the child."""
        return self._worker.pid

    def start(
        self, job: str, kind: str, arguments: Mapping[str, Any], finish: Callable[[dict[str, Any]], ev.Event]
    ) -> None:
        """Start a job; ``finish`` turns its answer into an event, in the worker's thread."""
        self._running, self._lost = (job, kind, arguments, finish), 0
        self._worker.submit(job, kind, arguments)

    def stop(self) -> None:
        """Stop the running job and the child."""
        self._running = None
        self._worker.stop()

    def _on_message(self, message: dict[str, Any]) -> None:
        running = self._running
        if running is None or message.get("job") != running[0]:
            return
        job, kind, arguments, finish = running
        event = message["event"]
        if event == "progress":
            self._post(ev.Progress(message["share"], message["loss"], message["samples_per_s"]))
        elif event == "done":
            self._running = None
            self._post(finish(message["result"]))
        elif event == "lost" and self._lost < MAX_RESTARTS:
            self._lost += 1
            self._worker.submit(job, kind, arguments)
        else:
            self._running = None
            self._post(ev.JobFailed(job, message.get("text", "unknown error")))


def initial_model(jobs: Jobs, run: RunConfig, store: BlobStore) -> None:
    """Build the seeded initial model; answered with ``InitialModel``."""

    def finish(result: dict[str, Any]) -> ev.Event:
        return ev.InitialModel(store.put_file(Path(result["path"])), ModelSignature.from_json(result["signature"]))

    arguments = {
        "network": run.network,
        "network_options": to_tree(run.network_options),
        "seed": run.seed,
        "out": str(store.scratch()),
    }
    jobs.start("initial model", "init", arguments, finish)


def count_samples(jobs: Jobs, source: Any, base: Path, network: str, network_options: Mapping[str, Any]) -> None:
    """Open the samples and build the network once; answered with ``SamplesReady``."""

    def finish(result: dict[str, Any]) -> ev.Event:
        signature = ModelSignature.from_json(result["signature"])
        return ev.SamplesReady(int(result["num_samples"]), signature.digest)

    arguments = {"network": network, "network_options": to_tree(network_options), **_samples(source, base)}
    jobs.start("samples", "count", arguments, finish)


def describe(jobs: Jobs, source: Any, base: Path, kind: str, robot_id: str) -> None:
    """Compute the descriptor of the local samples; answered with ``Described``."""

    def finish(result: dict[str, Any]) -> ev.Event:
        tensors = {name: np.asarray(values, np.float32) for name, values in result["tensors"].items()}
        return ev.Described(Descriptor(kind, tensors, int(result["num_frames"]), result["encoder"]))

    jobs.start("descriptor", "describe", {"kind_of": kind, "robot_id": robot_id, **_samples(source, base)}, finish)


def train(
    jobs: Jobs, plan: FleetPlan, store: BlobStore, *, robot_id: str, instance: str, source: Any, base: Path,
    state_dir: Path, local: Mapping[str, Any],
) -> None:  # fmt: skip
    """Train for one round; answered with ``Trained``.

    Args:
        jobs: where it runs.
        plan: the round.
        store: where models are and the update goes.
        robot_id: this robot.
        instance: this installation.
        source: entry of the samples.
        base: folder that relative paths of ``source`` start from.
        state_dir: the robot's folder; keeps the strategy's memory and the robot's last weights by round.
        local: options of local training that belong to this machine (threads, device).
    """
    entry, config = plan.robots[robot_id], plan.config
    folder = state_dir / "rounds" / plan.run_id
    last = folder / f"{plan.round - 1}"
    paths = {key: str(store.path(plan.blobs[key].digest)) for key in (*entry.load, *entry.extras)}

    def finish(result: dict[str, Any]) -> ev.Event:
        blobs = {"weights": store.put_file(Path(result["weights_path"]), keep=True)}
        if result["extras_path"]:
            blobs["extras"] = store.put_file(Path(result["extras_path"]), keep=True)
        mask = result.get("mask")
        return ev.Trained(
            UpdateReport(
                robot_id=robot_id,
                instance=instance,
                run_id=plan.run_id,
                round=plan.round,
                config_digest=config.digest,
                num_samples=int(result["num_samples"]),
                loss=float(result["loss"]),
                seconds=float(result["seconds"]),
                blobs=blobs,
                scalars={name: float(value) for name, value in result["scalars"].items()},
                mask=None if mask is None else np.asarray(mask, bool),
            )
        )

    arguments = {
        "robot_id": robot_id,
        "round": plan.round,
        "total_rounds": config.total_rounds,
        "strategy": config.strategy,
        "strategy_options": to_tree(config.strategy_options),
        "task": config.task,
        "network": config.network,
        "network_options": to_tree(config.network_options),
        "load": [paths[key] for key in entry.load],
        "extras": {key: paths[key] for key in entry.extras},
        "values": to_tree(entry.values),
        "own": str(last / "weights.safetensors") if (last / "weights.safetensors").exists() else "",
        "memory": str(last / "memory.safetensors") if (last / "memory.safetensors").exists() else "",
        "seed": config.seed,
        "train": {**to_tree(config.train), **local},
        "out_dir": str(folder / f"{plan.round}"),
        **_samples(source, base),
    }
    jobs.start(f"round {plan.round}", "train", arguments, finish)


def _samples(source: Any, base: Path) -> dict[str, Any]:
    return {"source": to_tree(source), "base": str(base)}
