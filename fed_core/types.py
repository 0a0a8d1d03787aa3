"""The nouns that all layers share. NumPy only: a node must not import PyTorch to speak of a model.

Shape letters, here and everywhere: B batch, C channels, H W pixels, N samples, D features, L layers, R robots,
K clusters.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

PROTOCOL_VERSION = 1

Array: TypeAlias = npt.NDArray[Any]
Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
#: Normalisation that every network expects of an RGB image: (x / 255 - IMAGE_MEAN) / IMAGE_STD, from ImageNet.
IMAGE_MEAN = (0.485, 0.456, 0.406)
IMAGE_STD = (0.229, 0.224, 0.225)
#: What 3D detection tells apart, by index: the ten classes of the nuScenes detection task.
DETECTION_CLASSES = (
    "car",
    "truck",
    "construction_vehicle",
    "bus",
    "trailer",
    "barrier",
    "motorcycle",
    "bicycle",
    "pedestrian",
    "traffic_cone",
)
#: Tensors by name. Implementations may read one tensor from disk at each access, so take each once.
Tensors: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class TensorSpec:
    """One entry of a model's state.

    Attributes:
        name: key in the PyTorch state dict.
        shape: dimensions.
        dtype: NumPy name ("float32").
        trainable: parameter (True) or buffer (False).
        owner: path of the module that holds it ("decoder.up1.bn").
        module: class name of that module ("BatchNorm2d"); layers are picked by this, never by substrings.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool = True
    owner: str = ""
    module: str = ""

    @property
    def size(self) -> int:
        """Entries of the tensor."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor."""
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def is_floating(self) -> bool:
        """Whether the tensor may be averaged, and so masked."""
        return bool(np.issubdtype(np.dtype(self.dtype), np.floating))


@dataclass(frozen=True)
class ModelSignature:
    """What an update must look like: architecture name and every tensor, in state-dict order.

    Attributes:
        architecture: registered name of the network.
        tensors: every tensor.
        parts: tensors by the part of the network that they belong to ("head", "camera", "attention"), for methods that
            treat such a part in its own way; only what the network names.
        modules: class name of every module below the root by its path, in the network's order; may be empty.
    """

    architecture: str
    tensors: tuple[TensorSpec, ...]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    modules: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over the architecture and names, shapes and dtypes."""
        rows = [[t.name, list(t.shape), t.dtype] for t in self.tensors]
        return hashlib.sha256(json.dumps([self.architecture, rows]).encode()).hexdigest()

    @property
    def names(self) -> tuple[str, ...]:
        """Tensor names in order."""
        return tuple(t.name for t in self.tensors)

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors together."""
        return sum(t.size_bytes for t in self.tensors)

    def to_json(self) -> Json:
        """Return a JSON tree; :meth:`from_json` reads it."""
        rows: list[Json] = [[t.name, list(t.shape), t.dtype, t.trainable, t.owner, t.module] for t in self.tensors]
        parts: dict[str, Json] = {part: list(names) for part, names in self.parts.items()}
        return {"architecture": self.architecture, "tensors": rows, "parts": parts, "modules": {**self.modules}}

    @classmethod
    def from_json(cls, tree: Any) -> "ModelSignature":
        """Read what :meth:`to_json` wrote."""
        specs = (TensorSpec(n, tuple(s), d, bool(t), o, m) for n, s, d, t, o, m in tree["tensors"])
        parts = {part: tuple(names) for part, names in tree.get("parts", {}).items()}
        return cls(str(tree["architecture"]), tuple(specs), parts, dict(tree.get("modules", {})))


@dataclass(frozen=True)
class Memory:
    """What a strategy half remembers between rounds: small tensors and plain JSON, nothing else."""

    tensors: Tensors = field(default_factory=dict)
    values: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Descriptor:
    """What a robot (or a running sequence) tells about its images, without any image.

    Attributes:
        kind: "gaussian" (``mean`` and ``variance``, (D,) float32; "log_gaussian" the same of logarithms) or "subspace"
            (``direction0`` to ``direction2`` at most, (D,) float32 of length 1).
        tensors: the arrays of that kind.
        num_frames: frames it was computed from.
        encoder: digest of encoder weights, layer, pre-processing and pooling; only equal ones compare.
    """

    kind: str
    tensors: Tensors
    num_frames: int
    encoder: str


@dataclass(frozen=True)
class Choice:
    """Models chosen for a sequence: uniform average of ``keys``.

    Attributes:
        keys: keys of the chosen models ("global", "cluster/1").
        clusters: their cluster indices; empty where the strategy has no clusters.
        distances: (K,) distance of the sequence to every cluster.
        threshold: bound under which a cluster is chosen; NaN without clusters.
        fallback: no cluster was near enough, the nearest one was taken.
    """

    keys: tuple[str, ...]
    clusters: tuple[int, ...] = ()
    distances: tuple[float, ...] = ()
    threshold: float = float("nan")
    fallback: bool = False


@dataclass(frozen=True)
class BlobRef:
    """An immutable file, named by the SHA-256 (hex) of its bytes."""

    digest: str
    size_bytes: int


@dataclass(frozen=True)
class DepthFrame:
    """One RGB-D frame.

    Attributes:
        rgb: (H, W, 3) uint8, RGB order.
        depth_m: (H, W) float32 metres along the optical axis, NaN = unknown (REP 118).
        stamp_ns: time of the image in nanoseconds.
        intrinsics: (3, 3) float64 pinhole matrix in pixels.
        frame_id: optical frame.
    """

    rgb: npt.NDArray[np.uint8]
    depth_m: npt.NDArray[np.float32]
    stamp_ns: int
    intrinsics: npt.NDArray[np.float64]
    frame_id: str = "camera_optical_frame"


@dataclass(frozen=True)
class RigFrame:
    """The pictures of all cameras of one vehicle at one time.

    Attributes:
        cameras: N camera ids, sorted; 0 front, 1 right, 2 left, 3 back.
        images: N pictures (H, W, 3) uint8 RGB; sizes may differ between cameras.
        intrinsics: (N, 3, 3) float64 pinhole matrices in pixels of ``images``; the first pixel's centre is at 0.5.
        extrinsics: (N, 4, 4) float64 camera to vehicle in metres, both in the axes x forward, y right, z up (CARLA).
        stamp_ns: time in nanoseconds.
        vehicle: id of the vehicle that carries the cameras.
    """

    cameras: tuple[int, ...]
    images: tuple[npt.NDArray[np.uint8], ...]
    intrinsics: npt.NDArray[np.float64]
    extrinsics: npt.NDArray[np.float64]
    stamp_ns: int
    vehicle: str


@dataclass(frozen=True)
class BevFrame(RigFrame):
    """The cameras of one vehicle at one time, and which cells around it hold other vehicles.

    The map has S x S square cells with the vehicle at its centre: forward is up (row 0), right is right.

    Attributes:
        mask: (S, S) bool, True where a vehicle is.
        known: (S, S) bool, False where no camera looks; such cells count neither in the loss nor in the score.
        metres_per_cell: side of a cell [m].
    """

    mask: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_]
    metres_per_cell: float


@dataclass(frozen=True)
class Boxes3D:
    """M boxes in one frame of axes, true or predicted.

    Attributes:
        centres: (M, 3) float64 geometric centres [m].
        sizes: (M, 3) float64 length (along the heading), width, height [m].
        yaws: (M,) float64 heading about z [rad], 0 along +x, counter-clockwise.
        velocities: (M, 2) float64 along x and y [m/s], NaN = unknown.
        labels: (M,) int64 indices into :data:`DETECTION_CLASSES`.
        scores: (M,) float64 in [0, 1]; 1 for true boxes.
        num_points: (M,) int64 LiDAR points inside true boxes; 0 for predictions.
    """

    centres: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.float64]
    yaws: npt.NDArray[np.float64]
    velocities: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]
    num_points: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Return M."""
        return len(self.labels)

    def take(self, index: Array) -> "Boxes3D":
        """Return the boxes of an index array or a (M,) bool mask."""
        return Boxes3D(*(getattr(self, each.name)[index] for each in fields(self)))


@dataclass(frozen=True)
class ScanFrame:
    """What a vehicle's cameras and LiDAR see at one time; camera optical axes as in REP 103, x right, y down, z ahead.

    Attributes:
        cameras: N names ("CAM_FRONT"), in a fixed order.
        images: N pictures (H, W, 3) uint8 RGB; sizes may differ between cameras.
        intrinsics: (N, 3, 3) float64 pinhole matrices in pixels of ``images``.
        lidar_to_camera: (N, 4, 4) float64 [m], LiDAR frame at the LiDAR's time to the optical frame at the camera's
            time; the way the vehicle went in between is part of it.
        points: (P, 5) float32 x, y, z [m] in the LiDAR frame (x right, y ahead, z up), intensity, time lag [s]; the
            newest sweep first, its lag 0.
        stamp_ns: time of the newest sweep in nanoseconds.
        token: name of the frame, unique in its data set.
        lidar_to_ego: (4, 4) float64 [m], to the vehicle's base (REP 105 base_link: x ahead, y left, z up).
        ego_to_global: (4, 4) float64 [m], to the map, at the LiDAR's time.
    """

    cameras: tuple[str, ...]
    images: tuple[npt.NDArray[np.uint8], ...]
    intrinsics: npt.NDArray[np.float64]
    lidar_to_camera: npt.NDArray[np.float64]
    points: npt.NDArray[np.float32]
    stamp_ns: int
    token: str
    lidar_to_ego: npt.NDArray[np.float64]
    ego_to_global: npt.NDArray[np.float64]


@dataclass(frozen=True)
class DetectionFrame(ScanFrame):
    """A scan and the true boxes in its LiDAR frame; velocities are those over ground, in the same axes.

    Attributes:
        boxes: all boxes of the ten classes, also those without points; their order is that of the annotations.
    """

    boxes: Boxes3D
