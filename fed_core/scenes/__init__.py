"""Made-up worlds with exact depth: three platforms drive, walk and fly through every environment.

A new environment is one new file in ``worlds/``.
"""

from fed_core.scenes.platforms import PLATFORMS
from fed_core.scenes.sequence import GeneratedSequence
from fed_core.scenes.worlds import worlds

ENVIRONMENTS = tuple(worlds.names())

__all__ = ["ENVIRONMENTS", "PLATFORMS", "GeneratedSequence"]
