"""What the trainer's jobs need of this package, as one object."""

from collections.abc import Iterable

from fed_core.training.jobs import Toolbox
from fed_core.types import Array, Descriptor
from fed_models.base import build, load_arrays, signature, state_arrays
from fed_models.features import default_encoder


def toolbox() -> Toolbox:
    """Return the toolbox of the fleet: networks by name and the default frozen encoder."""
    return Toolbox(build, signature, state_arrays, load_arrays, _describe)


def _describe(images: Iterable[Array], kind: str) -> Descriptor:
    return default_encoder().describe(images, kind)
