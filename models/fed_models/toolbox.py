"""What the trainer's jobs need of this package, as one object."""

from fed_core.training.jobs import Toolbox
from fed_models.base import build, load_arrays, signature, state_arrays
from fed_models.features import default_encoder


def toolbox() -> Toolbox:
    """Return the toolbox of the fleet: networks by name and the default frozen encoder."""
    return Toolbox(build, signature, state_arrays, load_arrays, lambda images: default_encoder().describe(images))
