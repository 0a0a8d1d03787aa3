"""The one training loop, the same for every strategy: a strategy's robot half hooks in through ``LocalRule``."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fed_core.config import check, option
from fed_core.errors import TrainingError
from fed_core.strategies.base import LocalResult, LocalRule, LocalState
from fed_core.tasks.base import Dataset, Task

#: Called with share done [0..1], running loss [1] and samples per second.
OnProgress = Callable[[float, float, float], None]

SCHEDULES = ("constant", "cosine", "linear", "poly", "one_cycle")
#: Power of the polynomial decay (fedepth spec 7.2).
POLY_POWER = 0.9
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class TrainConfig:
    """Options of local training."""

    lr: float = option(1e-3, help="learning rate at the first round", low=0.0, high=10.0)
    lr_final_factor: float = option(0.1, help="share of lr that the schedule ends with", low=0.0, high=1.0)
    schedule: str = option("cosine", help="course of lr over rounds", choices=SCHEDULES)
    lr_start_factor: float = option(0.04, help="one_cycle: share of lr that it starts with", low=0.0, high=1.0)
    warmup: float = option(0.3, help="one_cycle: share of the rounds in which lr rises", low=0.0, high=1.0)
    encoder_lr_scale: float = option(1.0, help="factor on the learning rate of the encoder", low=0.0, high=10.0)
    optimizer: str = option("adamw", help="optimiser, new in every round", choices=("adamw", "adam", "sgd"))
    weight_decay: float = option(0.01, help="weight decay", low=0.0, high=1.0)
    batch_size: int = option(8, help="samples per step", unit="count", low=1, high=4096)
    local_epochs: int = option(1, help="passes over the local samples per round", unit="count", low=1, high=1000)
    max_steps: int = option(0, help="most steps per round; 0 = all", unit="count", low=0)
    grad_clip: float = option(1.0, help="largest gradient norm; 0 = no clipping", low=0.0)
    augment: bool = option(True, help="flip and recolour samples")
    threads: int = option(1, help="CPU threads", unit="count", low=1, high=1024)
    device: str = option("auto", help="where it trains", choices=("auto", "cpu", "cuda"))

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)

    def lr_of(self, round_number: int, total_rounds: int) -> float:
        """Return the learning rate of a round: constant within it, scheduled over rounds (fedepth spec 12).

        Args:
            round_number: from 1.
            total_rounds: rounds of the run; the schedule is read at (round_number - 1) / total_rounds.
        """
        place = min((round_number - 1) / max(total_rounds, 1), 1.0)
        if self.schedule == "constant":
            return self.lr
        if self.schedule == "one_cycle" and place < self.warmup:
            risen = 0.5 * (1.0 - math.cos(math.pi * place / self.warmup))
            return self.lr * (self.lr_start_factor + (1.0 - self.lr_start_factor) * risen)
        left = {
            "linear": 1.0 - place,
            "poly": math.pow(1.0 - place, POLY_POWER),
            "cosine": 0.5 * (1.0 + math.cos(math.pi * place)),
            "one_cycle": 0.5 * (1.0 + math.cos(math.pi * (place - self.warmup) / max(1.0 - self.warmup, 1e-9))),
        }[self.schedule]
        return self.lr * (self.lr_final_factor + (1.0 - self.lr_final_factor) * left)

    def torch_device(self) -> torch.device:
        """Return the device; CUDA where it is there and allowed."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise TrainingError("device is cuda, but PyTorch sees no GPU; set device to auto or cpu")
        use_gpu = self.device != "cpu" and torch.cuda.is_available()
        return torch.device("cuda" if use_gpu else "cpu")


@dataclass(frozen=True)
class TrainOutcome:
    """What local training gave.

    Attributes:
        loss: mean task loss of the last epoch.
        steps: optimiser steps.
        seconds: time they took.
        result: what the strategy's robot half adds.
    """

    loss: float
    steps: int
    seconds: float
    result: LocalResult


def train(
    task: Task,
    dataset: Dataset,
    config: TrainConfig,
    rule: LocalRule,
    state: LocalState,
    *,
    seed: int,
    on_progress: OnProgress = lambda share, loss, speed: None,
) -> TrainOutcome:
    """Train ``state.model`` in place for one round at learning rate ``state.lr``.

    Samples are drawn without replacement per epoch. A last batch of one sample joins the batch before it, since batch
    normalisation needs two. Equal inputs and seed give equal bits on one device; the global random state is restored.

    Raises:
        TrainingError: the loss is not finite.
    """
    device = next(state.model.parameters()).device
    rng = np.random.default_rng(seed)
    state.optimizer = optimizer = _optimizer(state.model, config, state.lr)
    plan = _epochs(len(dataset), config)
    state.num_epochs, state.num_steps = len(plan), sum(len(epoch) for epoch in plan)
    meter = _Meter(state.num_steps, on_progress)
    with seeded(seed, device):
        rule.begin(state)
        for state.epoch, sizes in enumerate(plan):
            meter.losses.clear()
            state.model.train()
            rule.begin_epoch(state)
            for indexes in _draw(len(dataset), sizes, rng):
                batch = task.move(task.batch(dataset, indexes, rng if config.augment else None), device)
                loss = _step(task, rule, state, optimizer, batch, grad_clip=config.grad_clip)
                meter.add(loss, len(indexes))
        state.model.eval()
        _check_finite(state.model)
        result = rule.finish(state)
    return TrainOutcome(meter.loss, state.step, meter.seconds, result)


class _Meter:
    """Keeps the losses of the running epoch and the time since the start."""

    def __init__(self, total_steps: int, on_progress: OnProgress) -> None:
        self._total_steps, self._on_progress = total_steps, on_progress
        self._start_s = time.monotonic()
        self._steps = self._samples = 0
        self.losses: list[float] = []

    @property
    def loss(self) -> float:
        return float(np.mean(self.losses))

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._start_s, 1e-9)

    def add(self, loss: float, num_samples: int) -> None:
        self.losses.append(loss)
        self._steps += 1
        self._samples += num_samples
        self._on_progress(self._steps / self._total_steps, self.loss, self._samples / self.seconds)


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


def _step(
    task: Task, rule: LocalRule, state: LocalState, optimizer: torch.optim.Optimizer, batch: Any, *, grad_clip: float
) -> float:
    outputs = task.forward(state.model, batch)
    own = task.loss(state.model, batch, outputs)
    loss = rule.loss(state, batch, outputs, own)
    if not torch.isfinite(loss):
        raise TrainingError(f"the loss became {loss.item()} at step {state.step}; lower the learning rate")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    rule.correct_gradient(state)
    if grad_clip > 0:
        nn.utils.clip_grad_norm_(state.model.parameters(), grad_clip)
    optimizer.step()
    rule.after_step(state)
    state.step += 1
    return float(own.detach())


def _optimizer(model: nn.Module, config: TrainConfig, lr: float) -> torch.optim.Optimizer:
    encoder = getattr(model, "encoder", None)
    inside = {id(p) for p in encoder.parameters()} if encoder is not None else set()
    groups = [
        {"params": [p for p in model.parameters() if id(p) not in inside], "lr": lr},
        {"params": [p for p in model.parameters() if id(p) in inside], "lr": lr * config.encoder_lr_scale},
    ]
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "adamw": torch.optim.AdamW,
        "adam": torch.optim.Adam,
        "sgd": torch.optim.SGD,
    }
    return kinds[config.optimizer](groups, lr=lr, weight_decay=config.weight_decay)


def _epochs(num_samples: int, config: TrainConfig) -> list[list[int]]:
    """Return batch sizes by epoch."""
    sizes = [config.batch_size] * (num_samples // config.batch_size)
    rest = num_samples % config.batch_size
    if rest == 1 and sizes:
        sizes[-1] += 1
    elif rest:
        sizes.append(rest)
    plan, left = [], config.max_steps or len(sizes) * config.local_epochs
    for _ in range(config.local_epochs):
        if left > 0:
            plan.append(sizes[:left])
            left -= len(plan[-1])
    return plan


def _draw(num_samples: int, sizes: list[int], rng: np.random.Generator) -> Iterator[list[int]]:
    order = rng.permutation(num_samples)
    end = 0
    for size in sizes:
        end += size
        yield [int(index) for index in order[end - size : end]]
