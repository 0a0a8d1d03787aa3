"""Worlds are built once for all tests of this folder: a town takes seconds."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from fed_core.scenes import GeneratedSequence
from fed_core.scenes.lighting import Ambient, Sky
from fed_core.scenes.materials import Material
from fed_core.scenes.meshes import Mesh
from fed_core.scenes.scene import Air, Layout, Look, World, build_world
from fed_core.scenes.textures import SIZE

SEED = 5
Cell = Callable[[str, str], GeneratedSequence]


@pytest.fixture(scope="session")
def cell() -> Cell:
    """Return the sequence of a platform and an environment; those of one environment share a world."""
    built: dict[str, World] = {}

    @cache
    def make(platform: str, environment: str) -> GeneratedSequence:
        sequence = GeneratedSequence(platform, environment, seed=SEED, num_frames=120)
        if environment in built:
            sequence.__dict__["world"] = built[environment]
        built[environment] = sequence.world
        return sequence

    return make


@pytest.fixture
def bare_world() -> Callable[..., World]:
    """Return a function from meshes to a small world of them."""
    return _bare_world


def _bare_world(*meshes: Mesh) -> World:
    """Return a world of grey ``meshes`` under an even sky without sun or haze."""
    layout = Layout({"grey": Material(np.full((SIZE, SIZE, 4), 0.5) * [1, 1, 1, 0], 1.0)})
    for mesh in meshes:
        layout.add(mesh, "grey", "thing")
    sky = Sky(np.full(3, 0.5), np.full(3, 0.5), np.array([0.0, 0.0, 1.0]), np.zeros(3))
    look = Look(sky, Ambient(np.full(3, 0.2)), Air(0.0, (1, 2), (0, 1)), exposure=1.0)
    return build_world(layout, look, {})
