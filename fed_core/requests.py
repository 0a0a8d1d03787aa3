"""What roles ask to be computed, as jobs: JSON in, JSON out, and the event that the answer becomes.

A robot's node hands them to its child process, the simulator runs them in place.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fed_core.config import to_tree
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, RunConfig, UpdateReport
from fed_core.store.blobs import BlobStore
from fed_core.types import Descriptor, ModelSignature
from fed_core.wire.files import write_text

#: What the trainer is told of the run.
_RUN_FIELDS = ("strategy", "strategy_options", "task", "network", "network_options", "seed")
#: Lies in a round's folder when everything else does.
_DONE = "done"


@dataclass(frozen=True)
class JobRequest:
    """One job.

    Attributes:
        name: what people read in messages ("round 3").
        kind: what :func:`fed_core.training.jobs.run_job` does.
        arguments: JSON tree.
        finish: turns the JSON answer into an event.
    """

    name: str
    kind: str
    arguments: Mapping[str, Any]
    finish: Callable[[Any], ev.Event]


@dataclass(frozen=True)
class Samples:
    """Where training samples are: an entry of a fleet file and the folder its paths start from."""

    source: Any
    base: Path

    def to_json(self) -> dict[str, Any]:
        """Return the arguments of a job."""
        return {"source": to_tree(self.source), "base": str(self.base)}


@dataclass(frozen=True)
class Installation:
    """One robot on one disk.

    Attributes:
        robot_id: name in the fleet.
        instance: name of this installation.
        folder: the robot's folder; keeps memory and last weights by round.
        local: options of local training that belong to this machine (threads, device).
    """

    robot_id: str
    instance: str
    folder: Path
    local: Mapping[str, Any]


def initial_model(run: RunConfig, store: BlobStore) -> JobRequest:
    """Return the job that builds the seeded initial model; answered with ``InitialModel``."""

    def finish(result: dict[str, Any]) -> ev.Event:
        return ev.InitialModel(store.put_file(Path(result["path"])), ModelSignature.from_json(result["signature"]))

    arguments = {
        "network": run.network,
        "network_options": to_tree(run.network_options),
        "seed": run.seed,
        "out": str(store.scratch()),
    }
    return JobRequest("initial model", "init", arguments, finish)


def count_samples(samples: Samples, task: str, network: str, network_options: Mapping[str, Any]) -> JobRequest:
    """Return the job that opens the samples and builds the network once; answered with ``SamplesReady``."""

    def finish(result: dict[str, Any]) -> ev.Event:
        signature = ModelSignature.from_json(result["signature"])
        return ev.SamplesReady(int(result["num_samples"]), signature.digest)

    arguments = {"task": task, "network": network, "network_options": to_tree(network_options), **samples.to_json()}
    return JobRequest("samples", "count", arguments, finish)


def describe(samples: Samples, task: str, kind: str, robot_id: str) -> JobRequest:
    """Return the job that describes the local samples; answered with ``Described``."""

    def finish(result: dict[str, Any]) -> ev.Event:
        tensors = {name: np.asarray(values, np.float32) for name, values in result["tensors"].items()}
        return ev.Described(Descriptor(kind, tensors, int(result["num_frames"]), result["encoder"]))

    arguments = {"task": task, "kind_of": kind, "robot_id": robot_id, **samples.to_json()}
    return JobRequest("descriptor", "describe", arguments, finish)


def train(plan: FleetPlan, store: BlobStore, samples: Samples, robot: Installation) -> JobRequest:
    """Return the job that trains for one round; answered with ``Trained``.

    Args:
        plan: the round; its blobs are in ``store``.
        store: where the update goes.
        samples: local training samples.
        robot: who trains.
    """
    config, folder = plan.config, _rounds_folder(plan, robot)
    last = _last_trained(folder, plan.round)

    def finish(result: dict[str, Any]) -> ev.Event:
        report = _report(plan, robot, store, result)
        write_text(folder / f"{plan.round}" / _DONE, "")
        _forget_before(folder, last)
        return ev.Trained(report)

    arguments = {
        "robot_id": robot.robot_id,
        "round": plan.round,
        "total_rounds": config.total_rounds,
        **to_tree({name: getattr(config, name) for name in _RUN_FIELDS}),
        **starting_point(plan, store, robot),
        "train": {**to_tree(config.train), **robot.local},
        "out_dir": str(folder / f"{plan.round}"),
        **samples.to_json(),
    }
    return JobRequest(f"round {plan.round}", "train", arguments, finish)


def starting_point(plan: FleetPlan, store: BlobStore, robot: Installation) -> dict[str, Any]:
    """Return what a robot starts a plan's round from, for :func:`fed_core.training.jobs.start_weights`.

    Args:
        plan: the round; a finished one tells what the robot ends with.
        store: holds the plan's blobs.
        robot: whose own tensors and memory count.
    """
    entry = plan.robots[robot.robot_id]
    paths = {key: str(store.path(plan.blobs[key].digest)) for key in (*entry.load, *entry.extras)}
    return {
        "load": {key: paths[key] for key in entry.load},
        "extras": {key: paths[key] for key in entry.extras},
        "values": to_tree(entry.values),
        **kept_files(plan, robot),
        "optimizer": _kept_file(plan, robot, "optimizer"),
    }


def kept_files(plan: FleetPlan, robot: Installation) -> dict[str, str]:
    """Return the paths of what a robot kept from its last round before a plan's: "own" tensors and "memory".

    "" stands for what is not there. The round of a finished plan counts, too.
    """
    return {name: _kept_file(plan, robot, name) for name in ("own", "memory")}


def _kept_file(plan: FleetPlan, robot: Installation, name: str) -> str:
    folder = _rounds_folder(plan, robot)
    last = folder / f"{_last_trained(folder, plan.round + plan.finished)}"
    return _existing(last / f"{name}.safetensors")


def trained_file(plan: FleetPlan, number: int, robot: Installation) -> Path | None:
    """Return the file of the whole model that a robot's training of a round ended with; None where there is none.

    Args:
        plan: of the run.
        number: of the round, this one or the one before; older ones are forgotten.
        robot: who trained.
    """
    folder = _rounds_folder(plan, robot) / f"{number}"
    # What was sent is the whole model where the robot kept nothing of its own, and only there.
    files = (folder / "own.safetensors", folder / "weights.safetensors")
    return next((path for path in files if path.exists()), None)


def _rounds_folder(plan: FleetPlan, robot: Installation) -> Path:
    return robot.folder / "rounds" / plan.run_id


def _report(plan: FleetPlan, robot: Installation, store: BlobStore, result: Mapping[str, Any]) -> UpdateReport:
    """Take the trained tensors into the store; what is left in the folder is for the robot's next round."""
    blobs = {"weights": store.put_file(Path(result["weights_path"]), keep=True)}
    if result["extras_path"]:
        blobs["extras"] = store.put_file(Path(result["extras_path"]), keep=True)
    mask = result.get("mask")
    return UpdateReport(
        robot_id=robot.robot_id,
        instance=robot.instance,
        run_id=plan.run_id,
        round=plan.round,
        config_digest=plan.config.digest,
        num_samples=int(result["num_samples"]),
        loss=float(result["loss"]),
        seconds=float(result["seconds"]),
        blobs=blobs,
        scalars={name: float(value) for name, value in result["scalars"].items()},
        mask=None if mask is None else np.asarray(mask, bool),
    )


def _rounds(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def _last_trained(folder: Path, before: int) -> int:
    """Return the newest round before ``before`` that this robot trained to its end; 0 = none, it may miss some."""
    done = (n for n in _rounds(folder) if n < before and (folder / f"{n}" / _DONE).exists())
    return max(done, default=0)


def _forget_before(folder: Path, oldest: int) -> None:
    """Delete the rounds before ``oldest``: the running round may have to be trained again, older ones never."""
    for number in _rounds(folder):
        if number < oldest:
            shutil.rmtree(folder / f"{number}", ignore_errors=True)


def _existing(path: Path) -> str:
    return str(path) if path.exists() else ""
