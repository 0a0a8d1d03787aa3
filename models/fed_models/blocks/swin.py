"""Swin Transformer (arXiv:2103.14030) of the package ``transformers``, as an encoder of four maps.

The package is imported when a network is built, not before: it takes seconds.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fed_core.errors import ConfigError
from fed_core.extras import needs

_OUTPUTS = ["stage1", "stage2", "stage3", "stage4"]


@dataclass(frozen=True)
class SwinWidths:
    """Sizes of a Swin Transformer.

    Attributes:
        dim: channels of the finest map; they double from map to map.
        depths: blocks of the four stages.
        num_heads: attention heads of the four stages.
        window: side of a window in cells.
        drop_path: share of skipped blocks at the last one while training, rising from 0 at the first.
    """

    dim: int
    depths: tuple[int, int, int, int]
    num_heads: tuple[int, int, int, int]
    window: int = 7
    drop_path: float = 0.3


#: No skipped blocks: rounds are short, and eight blocks are few.
SMALL = SwinWidths(32, (2, 2, 2, 2), (1, 2, 4, 8), window=4, drop_path=0.0)
TINY = SwinWidths(96, (2, 2, 6, 2), (3, 6, 12, 24))
BASE = SwinWidths(128, (2, 2, 18, 2), (4, 8, 16, 32))
LARGE = SwinWidths(192, (2, 2, 18, 2), (6, 12, 24, 48))


class SwinEncoder(nn.Module):
    """Four normalised maps at strides 4, 8, 16 and 32.

    Args:
        widths: sizes.

    Attributes:
        channels: channels of the four maps, finest first.
    """

    def __init__(self, widths: SwinWidths) -> None:
        super().__init__()
        library = _library()
        self._shape = {
            "embed_dim": widths.dim,
            "depths": list(widths.depths),
            "num_heads": list(widths.num_heads),
            "window_size": widths.window,
        }
        config = library.SwinConfig(**self._shape, drop_path_rate=widths.drop_path, out_features=_OUTPUTS)
        self.channels = tuple(widths.dim * 2**i for i in range(4))
        self.backbone = library.SwinBackbone(config)
        # It would normalise a map that nobody reads, and its weights would travel untrained.
        self.backbone.swin.layernorm = nn.Identity()

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map images (B, 3, H, W) float32 to (B, channels[i], H / 2^(i+2), W / 2^(i+2)) float32, i = 0..3."""
        return list(self.backbone(x).feature_maps)

    def load_folder(self, folder: str) -> None:
        """Take the weights of a local folder with ``config.json`` and ``model.safetensors``; the hub is not asked.

        The norms of the four maps stay as they are unless the folder has them.

        Raises:
            ConfigError: nothing can be read there, or its Swin has other sizes.
        """
        library = _library()
        # Without it the library takes its own defaults.
        if not (Path(folder) / "config.json").is_file():
            raise ConfigError(f"cannot read a Swin encoder from {folder}: there is no config.json")
        try:
            config = library.SwinConfig.from_pretrained(folder, local_files_only=True)
            found = {name: getattr(config, name) for name in self._shape}
            if found != self._shape:
                raise ConfigError(
                    f"{folder} holds a Swin with {_words(found)}; this network needs {_words(self._shape)}"
                )
            with _quiet(library.utils.logging):
                other = library.SwinBackbone.from_pretrained(
                    folder, out_features=_OUTPUTS, local_files_only=True, use_safetensors=True
                )
        except (OSError, ValueError) as err:
            raise ConfigError(f"cannot read a Swin encoder from {folder}: {' '.join(str(err).split())}") from err
        known = self.backbone.state_dict()
        self.backbone.load_state_dict({k: v for k, v in other.state_dict().items() if k in known}, strict=True)


def _words(shape: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in shape.items())


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Keep the library from listing that a classifier was left out, and from drawing progress."""
    before, drawn = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if drawn:
            logging.enable_progress_bar()


def _library() -> Any:
    with needs("depth", "Swin encoders need the package transformers"):
        return importlib.import_module("transformers")
