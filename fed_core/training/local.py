"""The one training loop, the same for every strategy: a strategy's robot half hooks in through ``LocalRule``."""

import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from fed_core.errors import TrainingError
from fed_core.strategies.base import LocalResult, LocalRule, LocalState
from fed_core.strategies.optimizer_memory import put_back, taken_out
from fed_core.tasks.base import Dataset, Task
from fed_core.training.memory import SMALLEST_PART, in_parts, is_out_of_memory
from fed_core.training.optimizer import make_optimizer, set_rate
from fed_core.training.options import TrainConfig
from fed_core.training.precision import Precision, channels_last, make_precision
from fed_core.types import Tensors

_log = logging.getLogger(__name__)

#: Called with share done [0..1], running loss [1] and samples per second.
OnProgress = Callable[[float, float, float], None]

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class TrainOutcome:
    """What local training gave.

    Attributes:
        loss: mean task loss of the last epoch.
        steps: optimiser steps.
        seconds: time they took.
        result: what the strategy's robot half adds.
        optimizer: state of the optimiser for the next round, by "kind/parameter"; empty where it is not kept.
    """

    loss: float
    steps: int
    seconds: float
    result: LocalResult
    optimizer: Tensors = field(default_factory=dict)


def train(
    task: Task,
    dataset: Dataset,
    config: TrainConfig,
    rule: LocalRule,
    state: LocalState,
    *,
    seed: int,
    course: Callable[[float], float] | None = None,
    kept: Tensors | None = None,
    on_progress: OnProgress = lambda share, loss, speed: None,
) -> TrainOutcome:
    """Train ``state.model`` in place for one round at learning rate ``state.lr``.

    Samples are drawn without replacement per epoch, or as the data set balances its classes. A last batch of one sample
    joins the batch before it, since batch normalisation needs two. Equal inputs and seed give equal bits on one device;
    the global random state is restored.

    Where memory runs out, the step begins again with its batch in two parts, or four, and so on; the gradients of the
    parts make one step, so steps and learning rates stay what they were. Later batches of the round are cut so from
    the start; the next round tries whole ones again. What a failed try did to buffers (running statistics of batch
    normalisation) and what it drew at random (augmentation, dropout) is not taken back: such a round ends as a round
    of smaller parts may, not with the same bits as one that had the memory; and parts are normalised each by its own.

    Args:
        task: makes batches and the loss.
        dataset: what is trained on.
        config: options.
        rule: the strategy's robot half.
        state: what the rule works on; its optimiser, steps and epochs are set here.
        seed: of order, augmentation and dropout.
        course: learning rate by the share of the round that is done; None = ``state.lr`` throughout.
        kept: state of the optimiser after the last round.
        on_progress: called after every step; training waits for it, and its time does not count as training's.

    Raises:
        TrainingError: the loss is not finite.
        RuntimeError: memory is out even for a part of :data:`~fed_core.training.memory.SMALLEST_PART` samples; or
            MemoryError.
    """
    device = next(state.model.parameters()).device
    rng, kept = np.random.default_rng(seed), kept or {}
    balanced = _balanced(dataset, config, seed)
    plan = _epochs([len(order) for order in balanced] or [len(dataset)] * config.local_epochs, config)
    state.num_epochs, state.num_steps = len(plan), sum(len(epoch) for epoch in plan)
    precision = make_precision(config.precision, device, kept)

    def batch_of(indexes: Sequence[int]) -> Any:
        return task.move(task.batch(dataset, indexes, rng if config.augment else None), device)

    loop = _Loop(task, rule, state, config, course=course, precision=precision, batch_of=batch_of)
    put_back(state, {entry: array for entry, array in kept.items() if not entry.startswith("scaler/")})
    meter = _Meter(state.num_steps, on_progress)
    with seeded(seed, device), channels_last(state.model, config.channels_last and precision.on_tensor_cores):
        rule.begin(state)
        for state.epoch, sizes in enumerate(plan):
            meter.losses.clear()
            state.model.train()
            rule.begin_epoch(state)
            order = balanced[state.epoch] if balanced else rng.permutation(len(dataset)).tolist()
            for indexes in _draw(order, sizes):
                meter.add(loop.step(indexes), len(indexes))
        state.model.eval()
        _check_finite(state.model)
        after = {**taken_out(state), **loop.precision.state()} if config.optimizer_state != "reset" else {}
        result = rule.finish(state)
    return TrainOutcome(meter.loss, state.step, meter.seconds, result, after)


class _Meter:
    """Keeps the losses of the running epoch and the time since the start."""

    def __init__(self, total_steps: int, on_progress: OnProgress) -> None:
        self._total_steps, self._on_progress = total_steps, on_progress
        self._start_s, self._held_s = time.monotonic(), 0.0
        self._steps = self._samples = 0
        self.losses: list[float] = []

    @property
    def loss(self) -> float:
        return float(np.mean(self.losses))

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._start_s - self._held_s, 1e-9)

    def add(self, loss: float, num_samples: int) -> None:
        self.losses.append(loss)
        self._steps += 1
        self._samples += num_samples
        speed, told_s = self._samples / self.seconds, time.monotonic()
        self._on_progress(self._steps / self._total_steps, self.loss, speed)
        self._held_s += time.monotonic() - told_s


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed PyTorch's global generators of the CPU and ``device``; put them back afterwards."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also touch GPUs that are not put back
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


def _check_finite(model: nn.Module) -> None:
    """Refuse a model that the last step broke; earlier ones show in the next loss."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise TrainingError(f"tensor {name!r} is no longer finite after training; lower the learning rate")


class _Loop:
    """One step after the other.

    Args:
        task: makes the loss.
        rule: the strategy's robot half.
        state: what it works on; gets its optimiser here.
        config: options.
        course: learning rate by the share of the round that is done, or None.
        precision: arithmetic.
        batch_of: makes a batch, on the network's device, from the numbers of its samples.
    """

    def __init__(
        self, task: Task, rule: LocalRule, state: LocalState, config: TrainConfig, *,
        course: Callable[[float], float] | None, precision: Precision, batch_of: Callable[[Sequence[int]], Any],
    ) -> None:  # fmt: skip
        self._task, self._rule, self._state, self._batch_of = task, rule, state, batch_of
        self._most = config.batch_size + 1  # the last batch may hold one more
        self._grad_clip, self._course, self.precision = config.grad_clip, course, precision
        if course is not None:
            state.lr = course(0.0)
        state.optimizer = self._optimizer = make_optimizer(state.model, config, state.lr, state.signature)

    def step(self, indexes: Sequence[int]) -> float:
        """Train on one batch; returns the task's own loss."""
        state, rule = self._state, self._rule
        if self._course is not None:
            state.lr = self._course(state.step / state.num_steps)
            set_rate(self._optimizer, state.lr)
        own = self._gradients(indexes)
        if self.precision.unscale(self._optimizer):
            rule.correct_gradient(state)
            if self._grad_clip > 0:
                nn.utils.clip_grad_norm_(state.model.parameters(), self._grad_clip)
        self.precision.step(self._optimizer)
        rule.after_step(state)
        state.step += 1
        return own

    def _gradients(self, indexes: Sequence[int]) -> float:
        """Set the gradients of a batch, in as many parts as memory asks for; returns the task's own loss."""
        while True:
            self._optimizer.zero_grad(set_to_none=True)
            self._state.sums.clear()
            parts = in_parts(indexes, self._most)
            try:
                return sum(self._add_gradients(part, len(part) / len(indexes)) for part in parts)
            except (RuntimeError, MemoryError) as err:
                largest = max(map(len, parts))
                if not is_out_of_memory(err) or largest < 2 * SMALLEST_PART:
                    raise
                self._most = largest // 2
            # Not before the error is gone: it holds what was computed so far.
            gc.collect()
            torch.cuda.empty_cache()  # does nothing where no GPU is used
            text = "out of memory with %d samples at once; this round goes on with %d at once, in the same steps"
            _log.warning(text, largest, self._most)

    def _add_gradients(self, indexes: Sequence[int], share: float) -> float:
        """Add the gradients of ``share`` of a batch; returns its part of the task's own loss."""
        state = self._state
        state.share = share
        batch = self._batch_of(indexes)
        try:
            with self.precision.forward():
                outputs = self._task.forward(state.model, batch)
                own = self._task.loss(state.model, batch, outputs)
                loss = self._rule.loss(state, batch, outputs, own)
        finally:
            state.of_batch.clear()  # it may hold a graph, which a try after this one has no memory for
        if not torch.isfinite(loss):
            raise TrainingError(f"the loss became {loss.item()} at step {state.step}; lower the learning rate")
        self.precision.backward(loss if share == 1.0 else loss * share)
        return float(own.detach()) * share


def _balanced(dataset: Dataset, config: TrainConfig, seed: int) -> list[list[int]]:
    """Return the samples of every epoch in their order, each class as often; empty where that is not asked for."""
    if not config.class_balanced:
        return []
    rng = np.random.default_rng([seed, 1])  # of its own: what augmentation draws does not depend on it
    drawn = [dataset.class_balanced(rng) for _ in range(config.local_epochs)]
    if not all(drawn):
        raise TrainingError("train.class_balanced: no sample shows any class, so there is nothing to balance")
    return [[int(order[place]) for place in rng.permutation(len(order))] for order in drawn]


def _epochs(counts: Sequence[int], config: TrainConfig) -> list[list[int]]:
    """Return batch sizes by epoch, from the number of samples in each."""
    plan, left = [], config.max_steps or sum(len(_sizes(count, config)) for count in counts)
    for count in counts:
        if left > 0:
            plan.append(_sizes(count, config)[:left])
            left -= len(plan[-1])
    return plan


def _sizes(num_samples: int, config: TrainConfig) -> list[int]:
    """Return the batch sizes of one epoch."""
    sizes = [config.batch_size] * (num_samples // config.batch_size)
    rest = num_samples % config.batch_size
    if rest == 1 and sizes:
        sizes[-1] += 1
    elif rest:
        sizes.append(rest)
    return sizes


def _draw(order: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    end = 0
    for size in sizes:
        end += size
        yield list(order[end - size : end])
