"""Arithmetic of a training step: single precision, or mixed with half precision (fedcka spec 7.2)."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from fed_core.errors import TrainingError
from fed_core.types import Array

_SCALE, _GOOD_STEPS = "scaler/scale", "scaler/good_steps"


class Precision:
    """Runs the forward pass in its precision and scales the loss where gradients could vanish (float16).

    Args:
        name: one of :data:`fed_core.training.options.PRECISIONS`.
        device: where the network is.
        kept: what :meth:`state` returned after the last round.
    """

    def __init__(self, name: str, device: torch.device, kept: Mapping[str, Array]) -> None:
        self._dtype = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}[name]
        self._device = device.type
        self._scaler = torch.amp.GradScaler(self._device) if name == "fp16" else None
        if self._scaler is not None and _SCALE in kept and _GOOD_STEPS in kept:
            found = {**self._scaler.state_dict(), "scale": float(kept[_SCALE])}
            self._scaler.load_state_dict({**found, "_growth_tracker": int(kept[_GOOD_STEPS])})

    @property
    def on_tensor_cores(self) -> bool:
        """Whether convolutions run in half precision on a GPU."""
        return self._dtype is not None and self._device == "cuda"

    def forward(self) -> AbstractContextManager[object]:
        """Return the context of forward pass and loss."""
        return nullcontext() if self._dtype is None else torch.autocast(self._device, self._dtype)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of ``loss`` to those that are there; :meth:`unscale` follows the last one of a step."""
        scaled = loss if self._scaler is None else self._scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]

    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:
        """Take the scale out of the gradients; tell whether the step counts: scaled ones may overflow."""
        if self._scaler is None:
            return True
        self._scaler.unscale_(optimizer)
        gradients = (p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None)
        return bool(torch.stack([torch.isfinite(gradient).all() for gradient in gradients]).all())

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the optimiser step; after an overflow it stays where it is, and the scale falls."""
        if self._scaler is None:
            optimizer.step()
            return
        self._scaler.step(optimizer)
        self._scaler.update()

    def state(self) -> dict[str, Array]:
        """Return the scale of the loss for the next round; empty where none is scaled."""
        if self._scaler is None:
            return {}
        found = self._scaler.state_dict()
        return {
            _SCALE: np.array(found["scale"], np.float64),
            _GOOD_STEPS: np.array(found["_growth_tracker"], np.int64),
        }


def make_precision(name: str, device: torch.device, kept: Mapping[str, Array]) -> Precision:
    """Return the arithmetic called ``name``; float16 needs a GPU."""
    if name == "fp16" and device.type != "cuda":
        text = f"train.precision is fp16, but training runs on the {device.type.upper()}, which is no GPU"
        raise TrainingError(f"{text}; set precision to bf16 or fp32")
    return Precision(name, device, kept)


@contextmanager
def channels_last(model: nn.Module, wanted: bool) -> Iterator[None]:
    """Keep the weights of 2D convolutions in channels-last order, and with them all pictures between these.

    Tensor cores work in that order; in the other one each convolution would turn its pictures around and back. Shapes
    and names stay, so nobody else sees it. Afterwards the weights lie as they did.

    Args:
        model: network; its parameters stay the same objects.
        wanted: whether to; otherwise nothing is done.
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d)] if wanted else []
    for layer in layers:
        layer.weight.data = layer.weight.data.contiguous(memory_format=torch.channels_last)
    try:
        yield
    finally:
        for layer in layers:
            layer.weight.data = layer.weight.data.contiguous()
