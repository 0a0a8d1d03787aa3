"""The optimiser of a round: learning rates and weight decay by part of the network, moments kept over rounds."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn

from fed_core.errors import ConfigError
from fed_core.strategies.base import Strategy
from fed_core.training.options import TrainConfig
from fed_core.types import Array, Memory, ModelSignature, Tensors

#: One for each name in :data:`fed_core.training.options.OPTIMIZERS`.
KINDS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


def make_optimizer(
    model: nn.Module, config: TrainConfig, lr: float, signature: ModelSignature
) -> torch.optim.Optimizer:
    """Return a new optimiser with one group of parameters for each pair of factors; factors of nested parts multiply.

    A group's factor on the learning rate is its ``scale``.

    Raises:
        ConfigError: the network does not name a part that ``config`` has options for.
    """
    factors = _factors(model, config, signature)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {(1.0, 1.0): []}
    for name, parameter in model.named_parameters():
        groups.setdefault(factors.get(name, (1.0, 1.0)), []).append(parameter)
    rows = [
        {"params": params, "lr": lr * scale, "weight_decay": config.weight_decay * decay, "scale": scale}
        for (scale, decay), params in groups.items()
        if params
    ]
    return KINDS[config.optimizer](rows, lr=lr, weight_decay=config.weight_decay)


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Change the learning rate of every group in proportion."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group["scale"]


def _factors(model: nn.Module, config: TrainConfig, signature: ModelSignature) -> dict[str, tuple[float, float]]:
    """Return the factors on learning rate and weight decay by parameter, where they may differ from 1."""
    encoder = getattr(model, "encoder", None)
    inside = {id(p) for p in encoder.parameters()} if encoder is not None else set()
    factors = {name: (config.encoder_lr_scale, 1.0) for name, p in model.named_parameters() if id(p) in inside}
    for part, options in config.parts.items():
        if not signature.parts.get(part):
            known = ", ".join(name for name, tensors in signature.parts.items() if tensors) or "none"
            text = f"train.parts: the network {signature.architecture!r} names no part {part!r}"
            raise ConfigError(f"{text}; its parts: {known}")
        for name in signature.parts[part]:
            scale, decay = factors.get(name, (1.0, 1.0))
            factors[name] = (scale * options.lr, decay * options.weight_decay)
    return factors


def own_moments(
    kept: Tensors, strategy: Strategy, signature: ModelSignature, loaded: frozenset[str], memory: Memory
) -> dict[str, Array]:
    """Return the kept state of an optimiser without that of what the robot shared in its last round.

    A robot's own are the elements that :meth:`~fed_core.strategies.base.Strategy.merge` takes from the robot. A tensor
    with none of them starts anew altogether; the moments of its other elements are set to zero.

    Args:
        kept: tensors by "kind/parameter".
        strategy: knows what is the robot's own.
        signature: of the network.
        loaded: tensors that the robot got from the fleet.
        memory: what the strategy's robot half remembered.
    """
    own: dict[str, Array] = {}
    for spec in signature.tensors:
        ones, zeros = np.ones(spec.shape, spec.dtype), np.zeros(spec.shape, spec.dtype)
        own[spec.name] = strategy.merge(spec.name, ones, zeros if spec.name in loaded else None, memory) == 1
    left = {}
    for entry, array in kept.items():
        mask = own.get(entry.partition("/")[2])
        if mask is None or mask.all() or (mask.any() and array.shape != mask.shape):
            left[entry] = array
        elif mask.any():
            left[entry] = np.where(mask, array, np.zeros((), array.dtype))
    return left
