"""Environments: one file each, that registers a function from a random generator to a finished world."""

from collections.abc import Callable

import numpy as np

from fed_core.registry import Registry
from fed_core.scenes.scene import World

worlds: Registry[Callable[[np.random.Generator], World]] = Registry("environment", "fed_core.scenes.worlds")
