"""Published checkpoints to weights of ours, with an account of every key.

A checkpoint is read without running code from it. Each family's module tells how the published names map to ours; the
facts come from the authors' public repositories.
"""

from collections.abc import Callable, Mapping

from fed_core.errors import ConfigError
from fed_models.blocks import swin
from fed_models.checkpoints import adabins, dcdepth, newcrfs
from fed_models.checkpoints.names import NameMap

#: The networks whose authors published weights.
PUBLISHED: Mapping[str, Callable[[], NameMap]] = {
    "adabins_b5": adabins.published_names,
    "newcrfs_tiny": lambda: newcrfs.published_names(swin.TINY.depths),
    "newcrfs_base": lambda: newcrfs.published_names(swin.BASE.depths),
    "newcrfs_large": lambda: newcrfs.published_names(swin.LARGE.depths),
    "dcdepth_tiny": lambda: dcdepth.published_names(swin.TINY.depths),
    "dcdepth_large": lambda: dcdepth.published_names(swin.LARGE.depths),
}


def published_names(network: str) -> NameMap:
    """Return how the published names of a network map to ours.

    Args:
        network: registered name; one without published weights raises ConfigError.
    """
    if network not in PUBLISHED:
        raise ConfigError(
            f"no published weights of network {network!r} are known; choose one of {', '.join(PUBLISHED)}"
        )
    return PUBLISHED[network]()
