"""How far two descriptions of one stream are apart: is what a robot sees still what its models were chosen for?"""

from fed_core.errors import DataError
from fed_core.similarity import jeffreys, subspace
from fed_core.similarity.descriptors import GROUPS, check_like
from fed_core.similarity.gaussian import Gaussians
from fed_core.similarity.subspace import Subspaces
from fed_core.types import Descriptor


def drift(first: Descriptor, second: Descriptor) -> float:
    """Return the distance of two descriptors in the measure of their kind.

    Args:
        first: descriptor of any kind.
        second: one of the same kind and encoder.

    Returns:
        Of "gaussian" and "log_gaussian" the Jeffreys divergence by feature, both variances floored as a fleet's are; of
        "subspace" the smallest principal angle in degrees.
    """
    check_like(second, first, kind=first.kind, who="the running sequence")
    group = GROUPS[first.kind].stack([first, second])
    if isinstance(group, Gaussians):
        return float(jeffreys.affinity(group, jeffreys.variance_floor(group.variance))[0, 1])
    if isinstance(group, Subspaces):
        return float(subspace.affinity(group)[0, 1])
    raise DataError(f"descriptors of kind {first.kind!r} have no measure of drift")
