"""Options of local training, without PyTorch: the aggregator checks them before any robot trains."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fed_core.config import check, option
from fed_core.errors import TrainingError

if TYPE_CHECKING:
    import torch

OPTIMIZERS = ("adamw", "adam", "sgd")
PRECISIONS = ("fp32", "fp16", "bf16")
SCHEDULES = ("constant", "cosine", "linear", "poly", "one_cycle", "cyclic")
#: Power of the polynomial decay (fedepth spec 7.2).
POLY_POWER = 0.9
#: The cyclic schedule: multiples of lr at its peak and at its end, and where the peak is (fedcka spec 7.2).
CYCLIC_PEAK, CYCLIC_END, CYCLIC_RISE = 6.0, 1e-4, 0.4


@dataclass(frozen=True)
class PartOptions:
    """How the training of one part of the network differs from that of the rest."""

    lr: float = option(1.0, help="factor on the learning rate", low=0.0, high=1e3)
    weight_decay: float = option(1.0, help="factor on the weight decay", low=0.0, high=1e3)

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)


@dataclass(frozen=True)
class TrainConfig:
    """Options of local training."""

    lr: float = option(1e-3, help="learning rate at the first round", low=0.0, high=10.0)
    lr_final_factor: float = option(0.1, help="share of lr that the schedule ends with", low=0.0, high=1.0)
    schedule: str = option("cosine", help="course of lr over rounds; cyclic: over their steps", choices=SCHEDULES)
    lr_start_factor: float = option(0.04, help="one_cycle: share of lr that it starts with", low=0.0, high=1.0)
    warmup: float = option(0.3, help="one_cycle: share of the rounds in which lr rises", low=0.0, high=1.0)
    encoder_lr_scale: float = option(1.0, help="factor on the learning rate of the encoder", low=0.0, high=10.0)
    parts: Mapping[str, PartOptions] = field(
        default_factory=dict, metadata={"help": "factors on learning rate and weight decay by part of the network"}
    )
    optimizer: str = option("adamw", help="optimiser", choices=OPTIMIZERS)
    optimizer_state: str = option(
        "reset", help="its moments over rounds: new in every round, kept, or kept of what the robot does not share",
        choices=("reset", "keep", "reset_shared"),
    )  # fmt: skip
    precision: str = option("fp32", help="arithmetic; fp16 needs a GPU", choices=PRECISIONS)
    channels_last: bool = option(True, help="on a GPU in half precision: convolutions in channels-last order")
    weight_decay: float = option(0.01, help="weight decay", low=0.0, high=1.0)
    batch_size: int = option(8, help="samples per step", unit="count", low=1, high=4096)
    local_epochs: int = option(1, help="passes over the local samples per round", unit="count", low=1, high=1000)
    max_steps: int = option(0, help="most steps per round; 0 = all", unit="count", low=0)
    grad_clip: float = option(1.0, help="largest gradient norm; 0 = no clipping", low=0.0)
    class_balanced: bool = option(False, help="draw each epoch so that rare classes come as often as common ones")
    augment: bool = option(True, help="flip and recolour samples")
    threads: int = option(1, help="CPU threads", unit="count", low=1, high=1024)
    device: str = option("auto", help="where it trains", choices=("auto", "cpu", "cuda"))

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)

    def lr_of(self, round_number: int, total_rounds: int) -> float:
        """Return the learning rate at the start of a round, scheduled over rounds (fedepth spec 12).

        Args:
            round_number: from 1.
            total_rounds: rounds of the run; the schedule is read at (round_number - 1) / total_rounds.
        """
        return self.lr_at((round_number - 1) / max(total_rounds, 1))

    def course_of(self, round_number: int, total_rounds: int) -> Callable[[float], float] | None:
        """Return the learning rate by the share of the round that is done, or None where it stays that of its start."""
        if self.schedule != "cyclic":
            return None
        return lambda done: self.lr_at((round_number - 1 + done) / max(total_rounds, 1))

    def lr_at(self, place: float) -> float:
        """Return the learning rate at a place of the run, 0 = start, 1 = end."""
        place = min(place, 1.0)
        if self.schedule == "constant":
            return self.lr
        if self.schedule == "cyclic":
            if place < CYCLIC_RISE:
                return self.lr * _between(1.0, CYCLIC_PEAK, place / CYCLIC_RISE)
            return self.lr * _between(CYCLIC_PEAK, CYCLIC_END, (place - CYCLIC_RISE) / (1.0 - CYCLIC_RISE))
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

    def torch_device(self) -> "torch.device":
        """Return the device; CUDA where it is there and allowed."""
        import torch

        if self.device == "cuda" and not torch.cuda.is_available():
            raise TrainingError("device is cuda, but PyTorch sees no GPU; set device to auto or cpu")
        use_gpu = self.device != "cpu" and torch.cuda.is_available()
        return torch.device("cuda" if use_gpu else "cpu")


def _between(start: float, end: float, share: float) -> float:
    """Return the value on half a cosine from ``start`` to ``end``."""
    return end + 0.5 * (start - end) * (1.0 + math.cos(math.pi * share))
