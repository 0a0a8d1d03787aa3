"""A network as other programs see it: tensors with names in, tensors with names out, by task.

What is in between is the network of the task and nothing else: images come resized and normalised, as the task's own
batches hold them.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError
from fed_core.tasks.detection.network import DetectionBatch

#: What the batch of every task is called among the sizes.
BATCH = "batch"
_NORMALISED = "RGB, (x / 255 - mean) / std with the ImageNet mean and std"

Tensors: TypeAlias = tuple[Tensor, ...]


@dataclass(frozen=True)
class Port:
    """One tensor that goes in or comes out.

    Attributes:
        name: of the tensor.
        shape: its sizes; a text names one that may change.
        meaning: axes and units, for people.
        dtype: NumPy's name of its type.
    """

    name: str
    shape: tuple[int | str, ...]
    meaning: str
    dtype: str = "float32"

    def fixed(self, tensor: Tensor) -> "Port":
        """Return the port with the sizes of a tensor."""
        return Port(self.name, tuple(tensor.shape), self.meaning, self.dtype)


class Deployed(nn.Module, ABC):
    """A network from tensors to tensors.

    Args:
        network: of the task, in eval mode.

    Attributes:
        inputs: in the order of the arguments.
        outputs: in the order of the results.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    @abstractmethod
    def forward(self, *tensors: Tensor) -> Tensors:
        """Return the outputs."""

    @abstractmethod
    def of_batch(self, batch: Any) -> Tensors:
        """Return the inputs in a batch of the task."""

    @abstractmethod
    def noise(self, generator: torch.Generator) -> Tensors:
        """Return inputs without meaning, two samples where a batch may hold as many."""

    def smaller(self, inputs: Tensors) -> Tensors:
        """Return inputs with other sizes, where they may change: one sample."""
        return tuple(tensor[:1].clone() for tensor in inputs)

    def at_fixed_size(self, inputs: Tensors) -> Tensors:
        """Return the inputs that a model of one size is made for."""
        return self.smaller(inputs)


class DeployedDepth(Deployed):
    """A depth network: image in, metres out."""

    def __init__(self, network: Any) -> None:
        super().__init__(network)
        size = tuple(network.input_size)
        self.inputs = (Port("image", (BATCH, 3, *size), f"{_NORMALISED}; resized to this height and width"),)
        self.outputs = (Port("depth", (BATCH, 1, *size), "depth along the optical axis in metres"),)

    def forward(self, *tensors: Tensor) -> Tensors:
        """Return the depth."""
        return (self.network(*tensors).depth,)

    def of_batch(self, batch: Any) -> Tensors:
        """Return the images."""
        return (batch.image,)

    def noise(self, generator: torch.Generator) -> Tensors:
        """Return two images of noise."""
        return (torch.randn(2, 3, *self.network.input_size, generator=generator),)


class DeployedBev(Deployed):
    """A bird's eye network: pictures with cameras in, a map of probabilities out.

    Args:
        network: of the task.
        cameras: of each vehicle.
    """

    def __init__(self, network: Any, cameras: int = 4) -> None:
        super().__init__(network)
        height, width = network.input_size
        each = (BATCH, cameras)
        pinhole = "pinhole matrix of each camera in pixels of the resized image"
        poses = "camera to vehicle in metres; x forward, y right, z up"
        cells = (
            f"probability of a vehicle in each cell; a side is {network.extent_m:g} m, row 0 in front, column 0 left"
        )
        self.inputs = (
            Port("images", (*each, 3, height, width), f"{_NORMALISED}; resized to this height and width"),
            Port("intrinsics", (*each, 3, 3), pinhole),
            Port("poses", (*each, 4, 4), poses),
        )
        self.outputs = (Port("probability", (BATCH, network.map_size, network.map_size), cells),)

    def forward(self, *tensors: Tensor) -> Tensors:
        """Return the map."""
        return (self.network(*tensors).logits.float().softmax(1)[:, 1],)

    def of_batch(self, batch: Any) -> Tensors:
        """Return the vehicles with as many cameras as the first."""
        return tuple(batch.views[0])

    def noise(self, generator: torch.Generator) -> Tensors:
        """Return noise of cameras that look ahead, right, left and back, and so on, from 1.5 m above the ground."""
        images = self.inputs[0].shape[1:]
        cameras, (height, width) = int(images[0]), self.network.input_size
        pinhole = torch.tensor([[width / 2, 0.0, width / 2], [0.0, width / 2, height / 2], [0.0, 0.0, 1.0]])
        poses = torch.stack([_turned(2.0 * math.pi * k / cameras) for k in range(cameras)])
        pictures = torch.randn(2, *map(int, images), generator=generator)
        return pictures, pinhole.repeat(2, cameras, 1, 1), poses.repeat(2, 1, 1, 1)


class DeployedDetector(Deployed):
    """A detector: pictures, matrices and points of one scan in, scores and codes of its queries out.

    Args:
        network: of the task; it gives logits and codes of queries, layer by layer.
        cameras: of each scan.
    """

    def __init__(self, network: Any, cameras: int = 6) -> None:
        super().__init__(network)
        height, width = network.image_size or (0, 0)
        cameras = network.num_cameras or cameras
        codes = (
            "x, y, z [m], log of length, width, height [m], sine and cosine of the yaw, velocity along x and y [m/s]"
        )
        queries = network.pts_bbox_head.reference_points.num_embeddings
        classes = "score of each of the ten nuScenes classes in [0, 1]"
        self.inputs = (
            Port("images", (1, cameras, 3, height, width), f"{_NORMALISED}; aspect kept, cropped at the top"),
            Port("lidar_to_pixel", (1, cameras, 4, 4), "LiDAR frame [m] to (u d, v d, d, 1) in pixels of the images"),
            Port("points", ("points", 5), "x, y, z [m] in the LiDAR frame, intensity, time lag [s]"),
        )
        self.outputs = (
            Port("scores", (1, queries, 10), classes),
            Port("codes", (1, queries, 10), f"{codes}; the LiDAR frame"),
        )

    def forward(self, *tensors: Tensor) -> Tensors:
        """Return scores and codes of the last layer."""
        images, matrices, points = tensors
        found = self.network(DetectionBatch(images, matrices, (points,), ()))
        return found.logits[-1].sigmoid(), found.codes[-1]

    def of_batch(self, batch: Any) -> Tensors:
        """Return the first scan."""
        return batch.images[:1], batch.lidar_to_pixel[:1], batch.points[0]

    def noise(self, generator: torch.Generator) -> Tensors:
        """Return noise of cameras all around, and 2000 points in range."""
        shape = tuple(map(int, self.inputs[0].shape))
        cameras, (height, width) = shape[1], shape[3:]
        pinhole = torch.tensor([[width / 2, 0.0, width / 2], [0.0, width / 2, height / 2], [0.0, 0.0, 1.0]])
        axes = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])  # right, down, ahead
        matrices = torch.eye(4).repeat(1, cameras, 1, 1)
        for k in range(cameras):
            matrices[0, k, :3, :3] = pinhole @ axes @ _turned(2.0 * math.pi * k / cameras)[:3, :3]
        low, high = (torch.tensor(part) for part in (self.network.point_range[:3], self.network.point_range[3:]))
        places = low + torch.rand(2000, 3, generator=generator) * (high - low)
        points = torch.cat((places, torch.rand(2000, 2, generator=generator)), 1)
        return torch.randn(*shape, generator=generator), matrices, points

    def smaller(self, inputs: Tensors) -> Tensors:
        """Return the scan with fewer points."""
        images, matrices, points = inputs
        return images, matrices, points[: max(1, len(points) // 2)].clone()

    def at_fixed_size(self, inputs: Tensors) -> Tensors:
        """Return the scan as it is."""
        return inputs


_BY_TASK: dict[str, type[Deployed]] = {"depth": DeployedDepth, "bev": DeployedBev, "detection": DeployedDetector}


def deployed(task: str, network: nn.Module, batch: Any = None) -> Deployed:
    """Return a network as other programs see it, in eval mode.

    Args:
        task: its name.
        network: of the task.
        batch: of the task, on the CPU; it tells how many cameras there are. None = as many as usual.

    Raises:
        ConfigError: the task or the network has no such form.
    """
    plain = task != "detection" or hasattr(getattr(network, "pts_bbox_head", None), "reference_points")
    if task not in _BY_TASK or not plain:
        text = f"{type(network).__name__} of the task {task!r} does not go from plain tensors to plain tensors"
        raise ConfigError(f"{text}; --format safetensors keeps its weights for PyTorch")
    kind: Any = _BY_TASK[task]
    if batch is None or task == "depth":
        found: Deployed = kind(network)
    else:
        images = batch.views[0].images if task == "bev" else batch.images
        found = kind(network, int(images.shape[1]))
    return found.eval()


def _turned(angle: float) -> Tensor:
    """Return a pose (4, 4) turned about z [rad], 1.5 m above the ground."""
    pose = torch.eye(4)
    pose[:2, :2] = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    pose[2, 3] = 1.5
    return pose
