"""Arithmetic of a training step: single precision, or mixed with half precision (fedcka spec 7.2)."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from fed_core.errors import TrainingError
from fed_core.types import Array

PRECISIONS = ("fp32", "fp16", "bf16")
_SCALE, _GOOD_STEPS = "scaler/scale", "scaler/good_steps"


class Precision:
    """Runs the forward pass in its precision and scales the loss where gradients could vanish (float16).

    Args:
        name: one of :data:`PRECISIONS`.
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

    def forward(self) -> AbstractContextManager[object]:
        """Return the context of forward pass and loss."""
        return nullcontext() if self._dtype is None else torch.autocast(self._device, self._dtype)

    def backward(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> bool:
        """Set the gradients of ``loss``, unscaled; tell whether the step counts: scaled ones may overflow."""
        if self._scaler is None:
            loss.backward()  # type: ignore[no-untyped-call]
            return True
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
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
