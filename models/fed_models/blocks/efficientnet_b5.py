"""EfficientNet-B5 (arXiv:1905.11946) of the package ``efficientnet_pytorch``, as an encoder of five maps.

The package is imported when a network is built, not before. Weights are random; an imported checkpoint brings its own.
"""

import importlib
from typing import Any

from torch import Tensor, nn

from fed_core.extras import needs
from fed_models.blocks.encoders import Encoder

#: Blocks of each of the seven stages.
REPEATS = (3, 5, 5, 7, 7, 9, 3)
#: Blocks after which a map is handed to the decoder; the deepest map comes after all 39 blocks.
_OUTPUTS = (2, 7, 12, 26)


class EfficientNetB5(Encoder):
    """Maps of 24, 40, 64, 176 and 2048 channels (fedepth spec 7.1).

    The deepest is the 1x1 convolution of the head before its normalisation, as in AdaBins.
    """

    channels = (24, 40, 64, 176, 2048)

    def __init__(self) -> None:
        super().__init__()
        # Without an image size the padding follows each input. The momentum is ours: at the published 0.01 a short
        # round would barely move the running statistics.
        options = {"image_size": None, "batch_norm_momentum": 0.9, "num_classes": 1}
        self.network = _library().EfficientNet.from_name("efficientnet-b5", **options)
        for unused in ("_bn1", "_avg_pooling", "_dropout", "_fc"):
            setattr(self.network, unused, nn.Identity())
        # The default swish saves memory with a backward pass in Python; the compiled one is faster.
        self.network._swish = nn.SiLU()
        for block in self.network._blocks:
            block._swish = nn.SiLU()
        self._skip_block = float(self.network._global_params.drop_connect_rate)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the five maps of images (B, 3, H, W)."""
        net = self.network
        x = net._swish(net._bn0(net._conv_stem(x)))
        maps = []
        for i, block in enumerate(net._blocks):
            x = block(x, drop_connect_rate=self._skip_block * i / len(net._blocks))
            if i in _OUTPUTS:
                maps.append(x)
        return [*maps, net._conv_head(x)]


def _library() -> Any:
    with needs("depth", "the encoder EfficientNet-B5 needs the package efficientnet_pytorch"):
        return importlib.import_module("efficientnet_pytorch")
