"""FAX: a bird's eye map that attends to all cameras, near and far (arXiv:2207.02202, 2304.01534; feddwa spec 4).

A ResNet shared over the cameras gives three maps; at each of three levels the running bird's eye map attends to
them, first to the same window of every image, then to a dilated grid over every whole image. Registered here:
``fax_base``, the network of the papers, ``fax_small`` and ``fax_tiny``.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fed_core.config import check, option
from fed_core.errors import ConfigError, DataError, StoreError, WireError
from fed_core.tasks.bev.loss import VEHICLE_WEIGHT
from fed_core.types import Array
from fed_core.wire.codec import open_tensors
from fed_models.base import NetworkConfig, load_arrays, networks
from fed_models.bev import BevNetwork, BevOutput
from fed_models.blocks.bev_geometry import GEOMETRIES, image_cells, map_cells, normalised, rays
from fed_models.blocks.cross_window import CrossWindowAttention, MapAttention, camera_windows
from fed_models.blocks.norms import NORMS, make_norm
from fed_models.blocks.resnet import STRIDES, Bottleneck, ResNetEncoder, without_classifier
from fed_models.blocks.windows import merge, partition

UPSAMPLINGS = ("bilinear", "nearest")
#: Vehicle or not.
NUM_CLASSES = 2


@dataclass(frozen=True)
class FaxWidths:
    """Sizes of a network; the defaults are those of the papers.

    Attributes:
        image: side of the images in pixels.
        cells: cells per side of the map that comes out.
        blocks: blocks of the ResNet's four stages.
        encoder: channels of its first stage.
        dim: channels of the map inside.
        heads: attention heads, of dim / heads channels each.
        map_windows: side of a map window at each level, in cells.
        image_windows: side of a feature window at each level, in cells.
        decoder: channels of the three decoder stages.
        bottlenecks: residual blocks after each level.
    """

    image: int = 512
    cells: int = 256
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    encoder: int = 64
    dim: int = 128
    heads: int = 4
    map_windows: tuple[int, ...] = (16, 16, 32)
    image_windows: tuple[int, ...] = (8, 8, 16)
    decoder: tuple[int, ...] = (128, 64, 32)
    bottlenecks: int = 2

    @property
    def maps(self) -> tuple[int, ...]:
        """Cells per side of the running map at each level."""
        return tuple(self.cells >> (level + 1) for level in range(len(STRIDES)))

    @property
    def features(self) -> tuple[int, ...]:
        """Cells per side of the feature map at each level."""
        return tuple(self.image // stride for stride in STRIDES)

    def resized(self, image: int, cells: int) -> "FaxWidths":
        """Return the same network for other sizes (0 = as it is); its windows grow alike, so that they still fit."""
        image, cells = image or self.image, cells or self.cells
        map_windows = tuple(side * cells // self.cells for side in self.map_windows)
        image_windows = tuple(side * image // self.image for side in self.image_windows)
        return replace(self, image=image, cells=cells, map_windows=map_windows, image_windows=image_windows)

    def check(self) -> None:
        """Raise ConfigError where sizes are no multiples, or a level has not as many map as image windows."""
        if self.image % STRIDES[-1] or self.image < STRIDES[-1] or self.cells % 8 or self.cells < 8:
            text = f"images must be a multiple of {STRIDES[-1]} and the map of 8"
            raise ConfigError(f"fax got images of {self.image} px and a map of {self.cells} cells; {text}")
        levels = zip(self.maps, self.map_windows, self.features, self.image_windows, strict=True)
        for level, (cells, window, features, image_window) in enumerate(levels):
            fits = window > 0 < image_window and cells % window == 0 == features % image_window
            if not fits or cells // window != features // image_window:
                text = f"{cells} cells in windows of {window}, {features} features in windows of {image_window}"
                raise ConfigError(f"fax level {level}: {text}; both must divide into equally many windows")


SMALL = FaxWidths(
    image=256,
    cells=128,
    blocks=(2, 2, 2, 2),
    dim=64,
    heads=2,
    map_windows=(16, 16, 16),
    image_windows=(8, 8, 8),
    decoder=(64, 32, 16),
)
TINY = FaxWidths(
    image=64,
    cells=32,
    blocks=(2, 2, 2, 2),
    encoder=16,
    dim=32,
    heads=2,
    map_windows=(4, 4, 4),
    image_windows=(2, 2, 2),
    decoder=(32, 16, 8),
    bottlenecks=1,
)


@dataclass(frozen=True)
class FaxChoices:
    """What may be done in two ways.

    Attributes:
        geom: "corrected" or "reference" geometry.
        upsample: interpolation of the decoder.
        norm: "bn" or "gn".
        extent_m: side of the map in metres.
        vehicle_weight: weight of a vehicle's cells in the loss.
    """

    geom: str = "corrected"
    upsample: str = "bilinear"
    norm: str = "bn"
    extent_m: float = 100.0
    vehicle_weight: float = VEHICLE_WEIGHT


class Mlp(nn.Sequential):
    """LayerNorm, then two linear layers with twice the channels between."""

    def __init__(self, dim: int) -> None:
        super().__init__(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))


class FaxLevel(nn.Module):
    """One level: the map takes from the cameras, locally, then globally.

    Args:
        widths: sizes of the network.
        choices: its choices.
        level: number of the level, 0 = finest.
        channels: channels of this level's features.
    """

    map_grid: Tensor
    image_grid: Tensor

    def __init__(self, widths: FaxWidths, choices: FaxChoices, level: int, channels: int) -> None:
        super().__init__()
        dim, self._geom = widths.dim, choices.geom
        self._map_window, self._image_window = widths.map_windows[level], widths.image_windows[level]
        self.camera = nn.Conv2d(4, dim, 1, bias=False)
        self.ray = nn.Conv2d(4, dim, 1, bias=False)
        self.place = nn.Conv2d(2, dim, 1) if level == 0 else None
        self.key_features = _projection(channels, dim, choices.norm)
        self.value_features = _projection(channels, dim, choices.norm)
        self.near = CrossWindowAttention(dim, widths.heads, dim // widths.heads)
        self.near_mlp = Mlp(dim)
        self.far = CrossWindowAttention(dim, widths.heads, dim // widths.heads)
        self.far_mlp = Mlp(dim)
        self.norm = nn.LayerNorm(dim)
        places = map_cells(widths.maps[level], choices.extent_m, choices.geom)
        pixels = image_cells(widths.features[level], widths.image, choices.geom)
        self.register_buffer("map_grid", places, persistent=False)
        self.register_buffer("image_grid", pixels, persistent=False)

    def forward(self, bev: Tensor, features: Tensor, intrinsics: Tensor, poses: Tensor) -> Tensor:
        """Return the new map.

        Args:
            bev: (B, D, S, S) float32 running map.
            features: (B N, C, h, w) float32 of N cameras.
            intrinsics: (B, N, 3, 3) float32.
            poses: (B, N, 4, 4) float32 camera to vehicle.
        """
        batch, cameras = poses.shape[:2]
        # No half precision here: a ray would lose the metres that tell one cell from the next.
        with torch.autocast(bev.device.type, enabled=False):
            positions = self.camera(poses.flatten(0, 1)[:, :, 3, None, None])
            directions = self.ray(rays(self.image_grid, intrinsics, poses, self._geom))
            embedded = normalised(directions - positions)
            query = bev[:, None]
            if self.place is not None:
                seen = normalised(self.place(self.map_grid[None]) - positions)
                query = query + seen.view(batch, cameras, *bev.shape[1:])
        key = (embedded + self.key_features(features)).view(batch, cameras, *embedded.shape[1:])
        value = self.value_features(features).view(batch, cameras, *embedded.shape[1:])
        queries = camera_windows(query, self._map_window, dilated=False)
        tokens = partition(bev.permute(0, 2, 3, 1).contiguous(), self._map_window)
        tokens = tokens + self.near(queries, *self._windows(key, value, dilated=False))
        tokens = tokens + self.near_mlp(tokens)
        # One copy of the query: copies for each camera would all be the same here.
        tokens = tokens + self.far(tokens[:, None], *self._windows(key, value, dilated=True))
        tokens = self.norm(tokens + self.far_mlp(tokens))
        side = (int(bev.shape[2]), int(bev.shape[3]))
        return merge(tokens, self._map_window, side).permute(0, 3, 1, 2).contiguous()

    def _windows(self, key: Tensor, value: Tensor, *, dilated: bool) -> tuple[Tensor, Tensor]:
        key_windows = camera_windows(key, self._image_window, dilated=dilated)
        return key_windows, camera_windows(value, self._image_window, dilated=dilated)


class Fax(BevNetwork):
    """ResNet, three FAX levels, self-attention, decoder.

    Args:
        widths: sizes; sizes that do not fit each other raise ConfigError.
        choices: geometry, upsampling and normalisation.
    """

    def __init__(self, widths: FaxWidths, choices: FaxChoices) -> None:
        super().__init__()
        widths.check()
        self._choices, dim, norm = choices, widths.dim, choices.norm
        self.input_size, self.map_size = (widths.image, widths.image), widths.cells
        self.extent_m, self.vehicle_weight = choices.extent_m, choices.vehicle_weight
        self.encoder = ResNetEncoder(widths.blocks, width=widths.encoder, norm=norm)
        self.prior = nn.Parameter(torch.randn(dim, widths.maps[0], widths.maps[0]))
        self.levels = nn.ModuleList(
            FaxLevel(widths, choices, level, channels) for level, channels in enumerate(self.encoder.channels)
        )
        self.refine = nn.ModuleList(
            nn.Sequential(*(Bottleneck(dim, norm=norm) for _ in range(widths.bottlenecks))) for _ in self.levels
        )
        self.halve = nn.ModuleList(_halving(dim, norm) for _ in range(len(self.levels) - 1))
        self.attention = MapAttention(dim, widths.heads, widths.maps[-1])
        inputs = (dim, *widths.decoder[:-1])
        self.decoder = nn.Sequential(
            *(_up(a, b, choices) for a, b in zip(inputs, widths.decoder, strict=True)),
        )
        self.head = nn.Conv2d(widths.decoder[-1], NUM_CLASSES, 3, padding=1)

    def forward(self, images: Tensor, intrinsics: Tensor, poses: Tensor) -> BevOutput:
        """Predict the map of normalised images (B, N, 3, H, W) float32; see the base class."""
        self._check(images, intrinsics, poses)
        bev = self.prior.expand(images.shape[0], -1, -1, -1)
        for index, features in enumerate(self.encoder(images.flatten(0, 1))):
            if index:
                bev = self.halve[index - 1](bev)
            bev = self.refine[index](self.levels[index](bev, features, intrinsics, poses))
        return BevOutput(self.head(self.decoder(self.attention(bev))).float())

    def fit_intrinsics(self, intrinsics: Array, size: tuple[int, int]) -> Array:
        """Return the matrix (3, 3) for the network's image size; ``reference`` leaves it as it is (spec 11, G3)."""
        return intrinsics if self._choices.geom == "reference" else super().fit_intrinsics(intrinsics, size)

    def head_modules(self) -> tuple[str, ...]:
        """Return decoder and head."""
        return ("decoder", "head")

    def camera_modules(self) -> tuple[str, ...]:
        """Return W_cam and W_img of every level."""
        return tuple(f"levels.{level}.{part}" for level in range(len(self.levels)) for part in ("camera", "ray"))

    def bev_modules(self) -> tuple[str, ...]:
        """Return W_bev; only the finest level has one."""
        return ("levels.0.place",)

    def attention_modules(self) -> tuple[str, ...]:
        """Return query, key and value of the six cross attentions, and the self-attention's layer of all three."""
        steps = [f"levels.{level}.{step}" for level in range(len(self.levels)) for step in ("near", "far")]
        return (*(f"{step}.{part}" for step in steps for part in ("query", "key", "value")), "attention.qkv")

    def final_layer(self) -> tuple[str, ...]:
        """Return the state-dict names of the last layer."""
        return ("head.weight", "head.bias")

    def _check(self, images: Tensor, intrinsics: Tensor, poses: Tensor) -> None:
        start, size = tuple(images.shape[:2]), tuple(images.shape[2:])
        if images.ndim != 5 or 0 in start or size != (3, *self.input_size):
            wanted = f"(B, N, 3, {self.input_size[0]}, {self.input_size[1]})"
            raise DataError(f"fax got images of shape {tuple(images.shape)}; expected {wanted}")
        if tuple(intrinsics.shape) != (*start, 3, 3) or tuple(poses.shape) != (*start, 4, 4):
            shapes = f"{tuple(intrinsics.shape)} and {tuple(poses.shape)}"
            raise DataError(f"fax got intrinsics and poses of shapes {shapes}; expected {start} + (3, 3) and (4, 4)")


def _projection(channels: int, dim: int, norm: str) -> nn.Sequential:
    return nn.Sequential(make_norm(norm, channels), nn.ReLU(), nn.Conv2d(channels, dim, 1, bias=False))


def _halving(dim: int, norm: str) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(dim, dim // 4, 3, padding=1, bias=False),
        nn.PixelUnshuffle(2),
        nn.Conv2d(dim, dim, 3, padding=1, bias=False),
        make_norm(norm, dim),
        nn.ReLU(),
        nn.Conv2d(dim, dim, 1, bias=False),
        make_norm(norm, dim),
    )


def _up(channels_in: int, channels: int, choices: FaxChoices) -> nn.Sequential:
    smooth = {"align_corners": False} if choices.upsample == "bilinear" else {}
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, padding=1),
        make_norm(choices.norm, channels),
        nn.ReLU(),
        nn.Upsample(scale_factor=2, mode=choices.upsample, **smooth),
        nn.Conv2d(channels, channels, 3, padding=1),
        make_norm(choices.norm, channels),
        nn.ReLU(),
    )


@dataclass(frozen=True)
class _FaxOptions(NetworkConfig):
    image: int = option(0, help="side of the images; 0: the variant's own", unit="px", low=0, high=4096)
    cells: int = option(0, help="cells per side of the map; 0: the variant's own", unit="count", low=0, high=2048)
    extent_m: float = option(100.0, help="side of the map", unit="m", low=1.0, high=10000.0)
    geom: str = option("corrected", help="geometry; reference repeats the published code", choices=GEOMETRIES)
    upsample: str = option("bilinear", help="interpolation of the decoder", choices=UPSAMPLINGS)
    norm: str = option("bn", help="batch or group normalisation", choices=NORMS)
    vehicle_weight: float = option(
        VEHICLE_WEIGHT, help="weight of a vehicle's cells in the loss, about their inverse share", low=1.0, high=1e4
    )
    weights: str = option("", help="safetensors file of this network or of a ResNet encoder; empty: random")

    def __post_init__(self) -> None:
        check(self)

    def build(self) -> Fax:
        """Return the network."""
        choices = FaxChoices(self.geom, self.upsample, self.norm, self.extent_m, self.vehicle_weight)
        network = Fax(self._widths().resized(self.image, self.cells), choices)
        _start_from(network, self.weights)
        return network

    def _widths(self) -> FaxWidths:
        return FaxWidths()


@networks.register("fax_base")
@dataclass(frozen=True)
class FaxBase(_FaxOptions):
    """The network of the papers: ResNet-34, images of 512, a map of 256 cells."""


@networks.register("fax_small")
@dataclass(frozen=True)
class FaxSmall(_FaxOptions):
    """ResNet-18, images of 256, a map of 128 cells."""

    def _widths(self) -> FaxWidths:
        return SMALL


@networks.register("fax_tiny")
@dataclass(frozen=True)
class FaxTiny(_FaxOptions):
    """A narrow ResNet-18, images of 64, a map of 32 cells: trains on a CPU."""

    def _widths(self) -> FaxWidths:
        return TINY


def _start_from(network: Fax, weights: str) -> None:
    """Overwrite the weights of the network, or of its encoder where the file holds those of a ResNet alone."""
    if not weights:
        return
    try:
        tensors = open_tensors(weights)
        if "conv1.weight" in tensors:
            load_arrays(network.encoder, without_classifier(network.encoder, tensors))
        else:
            load_arrays(network, tensors)
    except (StoreError, WireError) as err:
        raise ConfigError(f"weights {weights}: {err}; give a file of this network or of its ResNet") from err
