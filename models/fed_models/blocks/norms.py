"""The two normalisations of the bird's eye networks, chosen by name."""

import math

from torch import nn

#: Most groups of a group normalisation (feddwa spec 2.8).
GROUPS = 8
NORMS = ("bn", "gn")


def make_norm(name: str, channels: int) -> nn.Module:
    """Return a normalisation of ``channels`` maps.

    Args:
        name: "bn", or "gn": groups know nothing of the batch, so that robots share no statistics of their images.
        channels: channels of the map.
    """
    return nn.GroupNorm(math.gcd(GROUPS, channels), channels) if name == "gn" else nn.BatchNorm2d(channels)
