"""The head of CMT: places of tokens and queries, decoder, branches (arXiv:2301.01283, fedcka spec 8.2)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fed_models.blocks import coordinates as co
from fed_models.blocks.bev_backbone import ConvNorm
from fed_models.blocks.box_code import Truth
from fed_models.blocks.denoising import Noise, make_noise
from fed_models.blocks.inverse import inverse_affine
from fed_models.blocks.query_decoder import QueryDecoder, Transformer
from fed_models.blocks.task_head import TaskHead

#: Shares are kept this far from 0 and 1 before the logarithm.
_EDGE = 1e-5
#: Steps of an even spread over the unit square (the plastic number's powers).
_EVEN = (0.7548776662466927, 0.5698402909980532)
#: Factor on the matrices of queries and keys: about half of the attention then stays within three cells.
_SHARPNESS = 2.0
#: Rays, and the steepest of them, that places of pixels are standardised over.
_RAYS = 1024
_STEEPEST = 0.4


class HeadOutput(NamedTuple):
    """What all decoder layers say of Q queries.

    Attributes:
        logits: (L, B, Q, 10) float32, classes of the normal queries.
        codes: (L, B, Q, 10) float32, boxes of the normal queries, in metres of the LiDAR frame.
        noise: denoising queries, only while training.
        noise_logits: (L, B, P, 10) float32.
        noise_codes: (L, B, P, 10) float32.
    """

    logits: Tensor
    codes: Tensor
    noise: Noise | None
    noise_logits: Tensor
    noise_codes: Tensor


class CmtHead(nn.Module):
    """Decoder over the tokens of map and pictures.

    Args:
        channels: of the map.
        dim: features D of tokens and queries.
        layers: decoder layers.
        heads: attention heads.
        hidden: features inside the decoder's linear layers.
        queries: number of normal queries.
        noise: denoising queries of a scan at most.
        cells: cells per side of the map.
        image_size: (H, W) of the pictures [pixels].
        point_range: range [m].
        momentum: of the batch normalisation.
        encoding: name of the coordinate encoding.
        near: references start evenly spread and attention near them, see :meth:`_start_near`; else both at random.
        sampled: queries start as what map and pictures show at their references; else as zeros.
    """

    cell_places: Tensor
    depths: Tensor

    def __init__(
        self,
        channels: int,
        dim: int,
        *,
        layers: int,
        heads: int,
        hidden: int,
        queries: int,
        noise: int,
        cells: int,
        image_size: tuple[int, int],
        point_range: tuple[float, ...],
        momentum: float,
        encoding: str,
        near: bool,
        sampled: bool,
    ) -> None:
        super().__init__()
        self._dim, self._noise, self._image_size = dim, noise, image_size
        self._encoding, self._sampled = encoding, sampled
        self.shared_conv = ConvNorm(nn.Conv2d(channels, dim, 3, padding=1, bias=False), momentum)
        self.transformer = Transformer(QueryDecoder(layers, dim, heads, hidden=hidden))
        self.bev_embedding = _mlp(2 * dim, dim, dim)
        self.rv_embedding = _mlp(3 * co.NUM_DEPTHS, 4 * dim, dim)
        self.reference_points = nn.Embedding(queries, 3)
        nn.init.uniform_(self.reference_points.weight)
        self.task_heads = nn.ModuleList([TaskHead(dim, layers)])
        self.space = co.PointRange(point_range)
        self.register_buffer("cell_places", co.cell_places(cells), persistent=False)
        self.register_buffer("depths", co.ray_depths(point_range[3]), persistent=False)
        if near:
            self._start_near()

    def forward(
        self, images: Tensor, bev: Tensor, lidar_to_pixel: Tensor, truth: Sequence[Truth] | None = None
    ) -> HeadOutput:
        """Return what the queries find.

        Args:
            images: (B, N, D, h, w) float32 features of N pictures.
            bev: (B, C, S, S) float32 map.
            lidar_to_pixel: (B, N, 4, 4) float32.
            truth: true boxes to make denoising queries of; None = make none.
        """
        # Metres and pixels need more digits than halves have: of the head, only the decoder runs in them (spec 7.2).
        with torch.autocast(bev.device.type, enabled=False):
            images, bev = images.float(), self.shared_conv(bev.float())
            inverse = inverse_affine(lidar_to_pixel.double()).float()
            memory, memory_places = self._memory(images, bev, inverse)
            references = self.reference_points.weight.expand(len(bev), -1, -1)
            noise = None if truth is None else make_noise(truth, self.space, references.shape[1], self._noise)
            if noise is not None:
                references = torch.cat((noise.references, references), 1)
            pixels, seen = self._pixels(references, lidar_to_pixel)
            places = self._query_places(references, pixels, seen, inverse)
            start = self._samples(images, bev, references, pixels, seen) if self._sampled else None
        found = self.transformer(places, memory, memory_places, noise and noise.mask, start)
        with torch.autocast(bev.device.type, enabled=False):
            logits, codes = self.task_heads[0]([each.float() for each in found])
            codes = torch.cat((self._centres(codes[..., :3], references), codes[..., 3:]), -1)
        count = 0 if noise is None else noise.references.shape[1]
        return HeadOutput(logits[:, :, count:], codes[:, :, count:], noise, logits[:, :, :count], codes[:, :, :count])

    @torch.no_grad()
    def _start_near(self) -> None:
        """Let queries look around their references from the first step on; only starting values change.

        Places get mean 0 and variance 1, so that they count beside the content; equal matrices for queries and keys
        then make places that are alike attend to each other.
        """
        _spread(self.reference_points.weight)
        _standardise(self.bev_embedding, co.encode_places(self.cell_places, self._dim, self._encoding))
        turn, slope = 2.0 * math.pi * torch.rand(_RAYS), _STEEPEST * (2.0 * torch.rand(_RAYS) - 1.0)
        ways = torch.stack((turn.cos(), turn.sin(), slope), -1)
        _standardise(self.rv_embedding, self.space.shares(ways[:, None] * self.depths[:, None]).flatten(1))
        for weight in self.transformer.decoder.cross_weights():
            weight[: self._dim] *= _SHARPNESS
            weight[self._dim : 2 * self._dim] = weight[: self._dim]

    def _centres(self, moves: Tensor, references: Tensor) -> Tensor:
        """Return centres (L, B, Q, 3) [m]: references moved before the sigmoid."""
        inner = references.clamp(_EDGE, 1.0 - _EDGE)
        return self.space.metres((moves + (inner / (1.0 - inner)).log()).sigmoid())

    def _memory(self, images: Tensor, bev: Tensor, inverse: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens (B, T, D) of map, then pictures, and their places (B, T, D)."""
        size = (int(images.shape[3]), int(images.shape[4]))
        pixels = co.token_pixels(size, self._image_size).to(bev.device)
        rays = self._rays(pixels.view(1, 1, -1, 2), inverse).flatten(1, 2)
        cells = self.bev_embedding(co.encode_places(self.cell_places, self._dim, self._encoding))
        tokens = torch.cat((bev.flatten(2).transpose(1, 2), images.flatten(3).transpose(2, 3).flatten(1, 2)), 1)
        return tokens, torch.cat((cells.expand(len(bev), -1, -1), rays), 1)

    def _rays(self, pixels: Tensor, inverse: Tensor) -> Tensor:
        """Return the places (B, N, T, D) of the rays of pixels (B or 1, N or 1, T, 2)."""
        points = self.space.shares(co.ray_points(pixels, inverse, self.depths))
        places: Tensor = self.rv_embedding(points.flatten(3))
        return places

    def _pixels(self, references: Tensor, lidar_to_pixel: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pixels (B, N, Q, 2) of references, and where a camera sees them, (B, N, Q) bool."""
        pixels, depth = co.project(self.space.metres(references), lidar_to_pixel)
        height, width = self._image_size
        inside = (pixels >= 0.0) & (pixels < pixels.new_tensor((width, height)))
        seen = inside.all(-1) & (depth > co.NEAREST_M)
        # Pixels of unseen points may be far off; a zero in their place keeps sums below finite.
        return torch.where(seen[..., None], pixels, torch.zeros_like(pixels)), seen

    def _query_places(self, references: Tensor, pixels: Tensor, seen: Tensor, inverse: Tensor) -> Tensor:
        """Return the places (B, Q, D): that of the cell, and of the rays in all cameras that see the reference."""
        places: Tensor = self.bev_embedding(co.encode_places(references[..., :2], self._dim, self._encoding))
        scan, camera, query = seen.nonzero(as_tuple=True)
        # Most cameras see few references; only those cost something.
        rays = self._rays(pixels[scan, camera, query].view(-1, 1, 1, 2), inverse[scan, camera].unsqueeze(1))
        return places.index_put((scan, query), rays.flatten(1), accumulate=True)

    def _samples(self, images: Tensor, bev: Tensor, references: Tensor, pixels: Tensor, seen: Tensor) -> Tensor:
        """Return what map and pictures show at the references, (B, Q, D): between the nearest four cells of each."""
        count, queries = images.shape[:2], references.shape[1]
        size = pixels.new_tensor((self._image_size[1], self._image_size[0]))
        shown = between(images.flatten(0, 1), (pixels / size).flatten(0, 1)).view(*count, queries, -1)
        return between(bev, references[..., :2]) + (shown * seen[..., None]).sum(1)


def between(maps: Tensor, places: Tensor) -> Tensor:
    """Return values (B, Q, C) of maps (B, C, H, W) at places (B, Q, 2) x and y in [0, 1], bilinear."""
    grid = 2.0 * places.unsqueeze(1) - 1.0
    found = functional.grid_sample(maps, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return found.squeeze(2).transpose(1, 2)


def _mlp(features: int, hidden: int, dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, dim))


def _standardise(mlp: nn.Sequential, inputs: Tensor) -> None:
    """Change the last layer so that its outputs over ``inputs`` (N, F) have mean 0 and variance 1."""
    found, weight, bias = mlp(inputs), mlp.get_parameter("2.weight"), mlp.get_parameter("2.bias")
    spread = found.std(0)
    weight.div_(spread[:, None])
    bias.sub_(found.mean(0)).div_(spread)


@torch.no_grad()
def _spread(references: Tensor) -> None:
    """Spread references evenly over the ground; their height is the middle of the range."""
    steps = torch.arange(1, len(references) + 1)[:, None] * torch.tensor(_EVEN, dtype=torch.float64)
    references[:, :2] = (steps % 1.0).float()
    references[:, 2] = 0.5
