"""Weights that a paper-size network starts from: a file of ours, or a folder of the hub with an encoder."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from fed_core.config import option
from fed_core.errors import ConfigError, StoreError, WireError
from fed_core.wire.codec import open_tensors
from fed_models.base import load_arrays
from fed_models.blocks.swin import SwinEncoder
from fed_models.depth import DepthOptions


@dataclass(frozen=True)
class PaperOptions(DepthOptions):
    """Options of the networks in the size of their papers; they start random where no weights are given."""

    height: int = option(480, help="height of the input", unit="px", low=32)
    width: int = option(640, help="width of the input", unit="px", low=32)
    weights: str = option("", help="file of fedperc import-checkpoint, or folder of a Swin encoder; empty: random")


def start_from(network: nn.Module, weights: str) -> None:
    """Overwrite the weights of a network; nothing happens where ``weights`` is empty.

    Args:
        network: a built network.
        weights: safetensors file with exactly its tensors, or a local folder in the format of the package
            ``transformers`` (``config.json``, ``model.safetensors``) with its Swin encoder.

    Raises:
        ConfigError: nothing can be read there, or it holds the weights of another network.
    """
    if not weights:
        return
    encoder = getattr(network, "encoder", None)
    if Path(weights).is_dir() and isinstance(encoder, SwinEncoder):
        encoder.load_folder(weights)
        return
    try:
        load_arrays(network, open_tensors(weights))
    except (StoreError, WireError) as err:
        raise ConfigError(f"weights {weights}: {err}; make such a file with fedperc import-checkpoint") from err
