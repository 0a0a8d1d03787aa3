"""A depth network and frames that train in milliseconds, and the toolbox of jobs around them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError
from fed_core.similarity.descriptors import describe
from fed_core.training.jobs import Toolbox
from fed_core.training.losses import silog
from fed_core.types import Array, DepthFrame, ModelSignature, TensorSpec


class Output(NamedTuple):
    """Attributes: depth (B, 1, H, W) float32 metres; logits (B, 2, H, W) float32 of near and far."""

    depth: Tensor
    logits: Tensor


class TinyDepth(nn.Module):
    """Two convolutions, a norm layer and dropout: everything that a training loop can get wrong."""

    d_min, d_max = 0.5, 20.0

    def __init__(self, height: int = 16, width: int = 24) -> None:
        super().__init__()
        self.input_size = (height, width)
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.drop = nn.Dropout(0.1)
        self.head = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Output:
        """Predict depth of normalised images (B, 3, H, W) float32."""
        score = self.head(self.drop(self.encoder(x)))
        depth = self.d_min + (self.d_max - self.d_min) * torch.sigmoid(score)
        return Output(depth, torch.cat([-score, score], dim=1))

    def final_layer(self) -> tuple[str, ...]:
        """Return the names of the last layer."""
        return ("head.weight", "head.bias")

    def loss(self, output: Output, depth: Tensor, mask: Tensor) -> Tensor:
        """Return the training loss, () float32."""
        return silog(output.depth, depth, mask)


def tiny(seed: int = 0, **options: Any) -> TinyDepth:
    """Return a network whose weights follow from ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TinyDepth(**options)


def frames(count: int, *, seed: int = 0, size: tuple[int, int] = (16, 24)) -> list[DepthFrame]:
    """Grey ramps whose brightness tells the depth, with noise and a few holes."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(count):
        depth = np.linspace(1.0, rng.uniform(4.0, 15.0), size[1])[None] * np.ones((size[0], 1))
        grey = np.clip(255.0 / depth + rng.normal(0.0, 4.0, size), 0, 255).astype(np.uint8)
        depth[rng.random(size) < 0.05] = np.nan
        made.append(DepthFrame(np.repeat(grey[..., None], 3, 2), depth.astype(np.float32), index, np.eye(3)))
    return made


def state_arrays(network: nn.Module) -> dict[str, Array]:
    """Return a copy of all parameters and buffers."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in network.state_dict().items()}


def signature(network: nn.Module, name: str) -> ModelSignature:
    """Return what an update of this network looks like."""
    modules, trainable = dict(network.named_modules()), {key for key, _ in network.named_parameters()}
    return ModelSignature(
        name,
        tuple(
            TensorSpec(key, array.shape, array.dtype.name, key in trainable, key.rpartition(".")[0],
                       type(modules[key.rpartition(".")[0]]).__name__)
            for key, array in state_arrays(network).items()
        ),
        {"head": cast(Any, network).final_layer(), "camera": ("encoder.0.bias",), "bev": ("encoder.1.weight",),
         "attention": ("encoder.0.weight",)},
    )  # fmt: skip


def load_arrays(network: nn.Module, tensors: Mapping[str, Array]) -> None:
    """Overwrite all parameters and buffers."""
    network.load_state_dict({name: torch.tensor(np.asarray(array)) for name, array in tensors.items()})


def build(name: str, options: Mapping[str, Any]) -> TinyDepth:
    """Return a new network; only "tiny" is known."""
    if name != "tiny":
        raise ConfigError(f"no network is called {name!r}; known: tiny")
    return TinyDepth(**options)


def toolbox() -> Toolbox:
    """Return the jobs' toolbox around this network."""

    def mean_colours(images: Any, kind: str) -> Any:
        return describe(kind, np.stack([image.mean(axis=(0, 1)) for image in images]), "mean colour")

    return Toolbox(build, signature, state_arrays, load_arrays, mean_colours)


def write_folder(folder: Path, count: int, *, seed: int = 0) -> dict[str, Any]:
    """Write frames as a folder of the generic layout and return the tree of its source."""
    import cv2

    for name in ("rgb", "depth"):
        (folder / name).mkdir(parents=True)
    for frame in frames(count, seed=seed, size=(24, 32)):
        stem = f"{frame.stamp_ns:06d}.png"
        cv2.imwrite(str(folder / "rgb" / stem), np.ascontiguousarray(frame.rgb[..., ::-1]))
        millimetres = np.nan_to_num(frame.depth_m * 1000.0, nan=0.0).astype(np.uint16)
        cv2.imwrite(str(folder / "depth" / stem), millimetres)
    (folder / "sequence.yaml").write_text("depth_unit: mm\nintrinsics: [20.0, 20.0, 16.0, 12.0]\n")
    return {"data": str(folder)}
