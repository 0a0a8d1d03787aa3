"""The last layers of CMT: what each query says of its box, with weights of its own for each decoder layer."""

import torch
from torch import Tensor, nn

from fed_core.types import DETECTION_CLASSES

#: Outputs by branch, in the order of the code; classes last.
BRANCHES = {"center": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2, "cls_logits": len(DETECTION_CLASSES)}
_HIDDEN = 64
_NORM_EPS = 1e-6
#: Share of the usual start that the last layers get.
_START = 0.1
#: Logit of a class before anything is learned: a chance of one in ten.
CLASS_BIAS = -2.19


class Branch(nn.Sequential):
    """Linear layer, LayerNorm, ReLU, linear layer; the features are the last axis.

    Args:
        dim: features of a query.
        outputs: numbers that come out.
        start: what they are about at the start.
    """

    def __init__(self, dim: int, outputs: int, start: float) -> None:
        first, last = nn.Linear(dim, _HIDDEN, bias=False), nn.Linear(_HIDDEN, outputs)
        super().__init__(first, nn.LayerNorm(_HIDDEN, eps=_NORM_EPS), nn.ReLU(), last)
        # Kaiming's uniform start is that of PyTorch; a last layer that says little leaves centres at their references.
        nn.init.constant_(last.bias, start)
        with torch.no_grad():
            last.weight.mul_(_START)


class TaskHead(nn.Module):
    """Six branches per decoder layer.

    Args:
        dim: features of a query.
        layers: decoder layers.
    """

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        for name, outputs in BRANCHES.items():
            start = CLASS_BIAS if name == "cls_logits" else 0.0
            self.add_module(name, nn.ModuleList(Branch(dim, outputs, start) for _ in range(layers)))

    def forward(self, queries: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Map the queries (B, Q, D) of every layer to classes (L, B, Q, 10) and codes (L, B, Q, 10) float32.

        The first three numbers of a code are still to be added to the reference.
        """
        found = {name: torch.stack([b(x) for b, x in zip(m, queries, strict=True)]) for name, m in self._branches()}
        classes = found.pop("cls_logits")
        return classes, torch.cat(list(found.values()), -1)

    def _branches(self) -> list[tuple[str, nn.ModuleList]]:
        return [(name, module) for name, module in self.named_children() if isinstance(module, nn.ModuleList)]
