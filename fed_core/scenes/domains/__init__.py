"""Made-up streets of five domains, with cameras, LiDAR and 3D boxes, written as nuScenes tables.

A stand-in for nuScenes where it cannot be had: synthetic, and never to be compared with figures on nuScenes.
"""

from fed_core.scenes.domains.dataset import GENERATED, DomainOptions, generate
from fed_core.scenes.domains.kinds import KINDS

__all__ = ["GENERATED", "KINDS", "DomainOptions", "generate"]
