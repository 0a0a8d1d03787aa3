"""The jobs of a robot's trainer: JSON in, JSON out, tensors in files.

A child process runs them from JSON lines, the simulator in place. What later rounds need again (samples in the
network's size) stays in the process.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fed_core.config import from_tree, to_tree
from fed_core.errors import ConfigError, DataError
from fed_core.strategies.base import LocalState, Strategy, make_strategy
from fed_core.tasks.base import Dataset, Task, tasks
from fed_core.training.kept import Beginning, begin_round, read_optimizer
from fed_core.training.local import OnProgress, TrainOutcome, seeded, train
from fed_core.training.optimizer import own_moments
from fed_core.training.options import TrainConfig
from fed_core.types import Array, Descriptor, ModelSignature, Tensors
from fed_core.wire.codec import open_tensors, save_memory, write_tensors

_log = logging.getLogger(__name__)

#: Most frames that a descriptor is computed from (fedepth spec 2.1).
DESCRIPTOR_FRAMES = 256
#: Prepared samples that a process keeps: a robot has one recording, a simulation those of all its robots.
KEPT_BYTES = 2**30


@dataclass(frozen=True)
class Toolbox:
    """What jobs need of ``fed_models``.

    Attributes:
        build: network by name and options.
        signature: signature of a network, by its name.
        state_arrays: its parameters and buffers.
        load_arrays: overwrites them.
        describe: images (H, W, 3) uint8 and a kind ("gaussian", "subspace") to a descriptor, with the fleet's frozen
            encoder.
    """

    build: Callable[[str, Mapping[str, Any]], nn.Module]
    signature: Callable[[nn.Module, str], ModelSignature]
    state_arrays: Callable[[nn.Module], dict[str, Array]]
    load_arrays: Callable[[nn.Module, Mapping[str, Array]], None]
    describe: Callable[[Any, str], Descriptor]


def run_job(kind: str, arguments: Mapping[str, Any], toolbox: Toolbox, on_progress: OnProgress) -> dict[str, Any]:
    """Run one job and return its answer; see the functions below for arguments and answers."""
    if kind not in JOBS:
        raise ConfigError(f"no job is called {kind!r}; known: {', '.join(JOBS)}")
    return JOBS[kind](arguments, toolbox, on_progress)


def initial_model(arguments: Mapping[str, Any], toolbox: Toolbox, on_progress: OnProgress) -> dict[str, Any]:
    """Build the seeded initial model. Arguments: network, network_options, seed, out. Answer: path, signature."""
    network = _seeded(arguments, toolbox)
    signature = toolbox.signature(network, arguments["network"])
    write_tensors(Path(arguments["out"]), toolbox.state_arrays(network))
    return {"path": arguments["out"], "signature": signature.to_json()}


def count_samples(arguments: Mapping[str, Any], toolbox: Toolbox, on_progress: OnProgress) -> dict[str, Any]:
    """Open and prepare the samples. Arguments: task, network, network_options, source, base.

    Answer: num_samples, signature.
    """
    network = _seeded(arguments, toolbox)
    signature = toolbox.signature(network, arguments["network"])
    return {"num_samples": len(_dataset(arguments, network)), "signature": signature.to_json()}


def describe_samples(arguments: Mapping[str, Any], toolbox: Toolbox, on_progress: OnProgress) -> dict[str, Any]:
    """Describe at most 256 of the samples. Arguments: task, kind_of, robot_id, source, base.

    Answer: tensors (lists of float), num_frames, encoder.
    """
    task = tasks.get(arguments["task"])()
    sequence = task.open(arguments["source"], Path(arguments["base"]))
    rng = np.random.default_rng(_seed("descriptor", arguments["robot_id"]))
    drawn = sorted(rng.permutation(len(sequence))[:DESCRIPTOR_FRAMES].tolist())
    try:
        images = (image for sample in _usable(task, sequence, drawn) for image in task.images(sample))
        descriptor = toolbox.describe(images, arguments["kind_of"])
    except DataError as err:
        text = f"robot {arguments['robot_id']!r} cannot describe its {len(sequence)} frame(s)"
        raise DataError(f"{text}: {err}") from err
    tensors = {name: [float(value) for value in array.ravel()] for name, array in descriptor.tensors.items()}
    return {"tensors": tensors, "num_frames": descriptor.num_frames, "encoder": descriptor.encoder}


def train_round(arguments: Mapping[str, Any], toolbox: Toolbox, on_progress: OnProgress) -> dict[str, Any]:
    """Train for one round.

    Arguments: robot_id, round, total_rounds, strategy, strategy_options, task, network, network_options, load (paths by
    key), extras (paths by key), values, own, memory and optimizer (paths or ""), seed, train, out_dir, source, base.
    Answer: weights_path, extras_path, memory_path, scalars, num_samples, loss, seconds, mask.
    """
    config = from_tree(TrainConfig, dict(arguments["train"]), "train")
    torch.set_num_threads(config.threads)
    strategy = make_strategy(arguments["strategy"], arguments["strategy_options"])
    network = _seeded(arguments, toolbox)
    signature = toolbox.signature(network, arguments["network"])
    task = tasks.get(arguments["task"])()
    dataset = _dataset_of_round(arguments, task, network)
    start = begin_round(arguments, strategy, signature, toolbox.state_arrays(network))
    toolbox.load_arrays(network, start.weights)
    device = config.torch_device()
    network.to(device)
    seed = _seed(arguments["seed"], arguments["robot_id"], arguments["round"])
    state = LocalState(
        model=network,
        start={name: tensor.detach().clone() for name, tensor in network.state_dict().items()},
        memory=start.memory,
        extras={key: open_tensors(Path(path)) for key, path in arguments["extras"].items()},
        values=arguments["values"],
        num_samples=len(dataset),
        signature=signature,
        lr=config.lr_of(arguments["round"], arguments["total_rounds"]),
        batches=lambda count, size=config.batch_size: _probe_batches(
            task, dataset, count, size, seed=seed, device=device
        ),
        forward=task.forward,
        task_loss=lambda batch, outputs: task.loss(network, batch, outputs),
    )
    outcome = train(
        task, dataset, config, strategy.local_rule(), state, seed=seed, on_progress=on_progress,
        course=config.course_of(arguments["round"], arguments["total_rounds"]),
        kept=_moments(arguments, config, strategy, signature, start),
    )  # fmt: skip
    folder = Path(arguments["out_dir"])
    paths = _write(folder, strategy, signature, toolbox.state_arrays(network), outcome.result)
    if outcome.optimizer:
        write_tensors(folder / "optimizer.safetensors", outcome.optimizer)
    return {**paths, "num_samples": len(dataset), **_figures(outcome)}


def start_weights(
    start: Mapping[str, Any], strategy: Strategy, signature: ModelSignature, built: Tensors
) -> dict[str, Array]:
    """Return the weights that a robot's round starts from: the plan's blend, merged with the robot's own.

    Args:
        start: paths of what is loaded, of the robot's own tensors and of its memory
            (:func:`fed_core.requests.starting_point`).
        strategy: blends and merges.
        signature: of the network.
        built: the initial model, which is a robot's own before its first round.
    """
    return begin_round(start, strategy, signature, built).weights


def _moments(
    arguments: Mapping[str, Any], config: TrainConfig, strategy: Strategy, signature: ModelSignature, start: Beginning
) -> Tensors:
    """Return the state of the optimiser that the round goes on with."""
    if config.optimizer_state == "reset" or start.damaged:
        return {}
    kept = read_optimizer(arguments.get("optimizer", ""), signature)
    if config.optimizer_state == "keep":
        return kept
    return own_moments(kept, strategy, signature, start.loaded, start.memory)


JOBS: Mapping[str, Callable[[Mapping[str, Any], Toolbox, OnProgress], dict[str, Any]]] = {
    "init": initial_model,
    "count": count_samples,
    "describe": describe_samples,
    "train": train_round,
}

_prepared: dict[str, Dataset] = {}


def prepared_samples(task: str, name: str, options: Mapping[str, Any], network: nn.Module, source: Any) -> Dataset:
    """Return the samples of a source in a network's size, read once per process while there is room.

    Args:
        task: name of the task.
        name: of the network.
        options: of the network.
        network: built so.
        source: an entry of a fleet file.
    """
    parts = {"task": task, "network": name, "network_options": to_tree(options), "source": to_tree(source)}
    return _dataset({**parts, "base": str(Path())}, network)


def _dataset_of_round(arguments: Mapping[str, Any], task: Task, network: nn.Module) -> Dataset:
    """Return the samples that the round trains on; where each round draws others, the last round's are dropped."""
    source, number = arguments["source"], arguments["round"]
    last, now = ({**arguments, "source": task.at_round(source, n)} for n in (max(number - 1, 1), number))
    if now["source"] != last["source"]:
        _prepared.pop(_key(last), None)
    return _dataset(now, network)


def _key(arguments: Mapping[str, Any]) -> str:
    parts = [arguments[name] for name in ("task", "network", "network_options", "source", "base")]
    return json.dumps(parts, sort_keys=True)


def _dataset(arguments: Mapping[str, Any], network: nn.Module) -> Dataset:
    """Return the prepared samples, read once per process while they fit into :data:`KEPT_BYTES`."""
    key = _key(arguments)
    dataset = _prepared.pop(key, None)
    if dataset is None:
        task = tasks.get(arguments["task"])()
        task.check_network(network, arguments["network"])
        sequence = task.open(arguments["source"], Path(arguments["base"]))
        dataset = task.prepare(_usable(task, sequence, range(len(sequence))), network)
        _make_room(dataset)
    _prepared[key] = dataset  # last = used last
    return dataset


def _make_room(dataset: Dataset) -> None:
    """Forget the samples used least lately, until those of ``dataset`` fit beside the others."""
    size = dataset.size_bytes + sum(kept.size_bytes for kept in _prepared.values())
    while _prepared and size > KEPT_BYTES:
        size -= _prepared.pop(next(iter(_prepared))).size_bytes


def _usable(task: Task, sequence: Any, indexes: Sequence[int]) -> Iterator[Any]:
    """Yield the samples that load and hold enough to learn from; how many are broken is told at the end."""
    broken: list[str] = []
    for index in indexes:
        try:
            sample = sequence[index]
        except DataError as err:
            broken.append(str(err))
            continue
        if task.usable(sample):
            yield sample
    if broken:
        text = "%d of %d samples of %s are broken and left out; the first: %s"
        _log.warning(text, len(broken), len(indexes), sequence.name, broken[0])


def _seeded(arguments: Mapping[str, Any], toolbox: Toolbox) -> nn.Module:
    with seeded(_seed(arguments.get("seed", 0), "initial model")):
        return toolbox.build(arguments["network"], arguments["network_options"])


def _seed(*parts: Any) -> int:
    """Return a seed below 2^63 from texts and numbers, the same on every machine."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _probe_batches(
    task: Any, dataset: Dataset, count: int, batch_size: int, *, seed: int, device: torch.device
) -> Iterator[Any]:
    """Yield about ``count`` of the robot's samples, without augmentation, the same for the same seed."""
    order = np.random.default_rng(seed).permutation(len(dataset))[:count].tolist()
    for start in range(0, len(order), batch_size):
        yield task.move(task.batch(dataset, order[start : start + batch_size]), device)


def _figures(outcome: TrainOutcome) -> dict[str, Any]:
    mask = outcome.result.mask
    return {
        "scalars": dict(outcome.result.scalars),
        "loss": outcome.loss,
        "seconds": outcome.seconds,
        "mask": None if mask is None else [int(unit) for unit in mask],
    }


def _write(
    folder: Path, strategy: Strategy, signature: ModelSignature, weights: Mapping[str, Array], result: Any
) -> dict[str, str]:
    """Write what travels and what stays; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    uploads = strategy.uploads(signature, result.mask)
    sent = {name: np.asarray(result.weights.get(name, weights[name])) for name in signature.names if name in uploads}
    paths = {"weights_path": str(folder / "weights.safetensors"), "extras_path": "", "memory_path": ""}
    write_tensors(Path(paths["weights_path"]), sent)
    if result.extras:
        paths["extras_path"] = str(folder / "extras.safetensors")
        write_tensors(Path(paths["extras_path"]), result.extras)
    if len(sent) < len(weights) or result.weights or type(strategy).merge is not Strategy.merge:
        write_tensors(folder / "own.safetensors", weights)
    if result.memory.tensors or result.memory.values:
        paths["memory_path"] = str(folder / "memory.safetensors")
        save_memory(folder / "memory.safetensors", result.memory)
    return paths
