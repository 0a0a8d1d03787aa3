"""Real rooms and real streets form two clusters by BMR's rule, the largest gap, without being told which is which.

Nothing here knows depth: robots are described by their images alone, with the encoder that fleets use. The robots have
few frames, so variances are moderated and features are logarithms, and a robot that is far from all others joins its
nearest cluster; docs/bmr.md says what happens without.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fed_core.data.image_files import COLOUR_SUFFIXES, read_rgb
from fed_core.similarity import descriptors
from fed_core.strategies.base import Aggregate, RobotInfo, ServerState, Strategy, make_strategy
from fed_core.types import Array, Descriptor, Memory, ModelSignature
from fed_models.features import default_encoder

RULE = {"tau_rule": "gap", "features": "log", "variance_prior": 200.0, "min_cluster": 2}
ENCODER = "test"
#: Frames of a robot: as few as KITTI has here, and more.
SIZES = (3, 5, 8, 13)


@cache
def pooled(folder: Path) -> Array:
    """Return (N, D) float32 pooled features of the colour images in a folder, by name."""
    files = sorted(f for f in folder.iterdir() if f.suffix in COLOUR_SUFFIXES and ".depth." not in f.name)
    return default_encoder().gem(read_rgb(file) for file in files)


def parts(name: str, rows: Array, size: int) -> dict[str, Array]:
    return {f"{name}{n}": part for n, part in enumerate(np.array_split(rows, max(1, len(rows) // size)))}


def rooms(data: Path, size: int) -> dict[str, Array]:
    """NYU, the first 32 frames of 7-Scenes, Redwood; one camera each."""
    return {
        "nyu": pooled(data / "depth_nyu" / "rgb"),
        **parts("scenes", pooled(data / "depth_7scenes")[:32], size),
        "redwood": pooled(data / "depth_redwood" / "color"),
    }


def streets(data: Path, size: int) -> dict[str, Array]:
    """KITTI, and five of the six cameras of a car in Singapore."""
    kitti = [pooled(data / "depth_kitti" / "rgb"), pooled(data / "kitti_object" / "image_2")]
    cameras = ("FRONT", "FRONT_LEFT", "FRONT_RIGHT", "BACK", "BACK_LEFT")
    singapore = [pooled(data / "nuscenes_cams_singapore" / f"CAM_{camera}") for camera in cameras]
    return {"kitti": np.concatenate(kitti), **parts("singapore", np.concatenate(singapore), size)}


def begin(strategy: Strategy, robots: Mapping[str, Array]) -> Aggregate:
    known = {name: RobotInfo(name, len(rows), describe(strategy, rows)) for name, rows in robots.items()}
    return strategy.begin(ServerState(0, known, Memory(), {}, ModelSignature("none", ())))


def describe(strategy: Strategy, rows: Array) -> Descriptor:
    return descriptors.describe(str(strategy.descriptor), rows, ENCODER)


def assert_two(outcome: Aggregate, indoor: Mapping[str, Array], outdoor: Mapping[str, Array]) -> tuple[int, int]:
    """Check that there are two clusters, of these robots; return the clusters' numbers."""
    inside, outside = ({outcome.clusters[name] for name in group} for group in (indoor, outdoor))
    assert len(outcome.models) == 2, outcome.clusters
    assert len(inside) == len(outside) == 1, outcome.clusters
    assert inside != outside
    return inside.pop()[0], outside.pop()[0]


@pytest.mark.parametrize("size", SIZES)
def test_real_rooms_and_streets_form_exactly_two_clusters(shared_data: Path, size: int) -> None:
    indoor, outdoor = rooms(shared_data, size), streets(shared_data, size)

    outcome = begin(make_strategy("fedepth", RULE), {**indoor, **outdoor})

    assert_two(outcome, indoor, outdoor)


@pytest.mark.parametrize("size", [5, 8, 13])
def test_simulated_streets_join_the_real_ones(shared_data: Path, size: int) -> None:
    indoor = rooms(shared_data, size)
    simulated = {
        "opv2v": pooled(shared_data / "opv2v_frames"),
        "tartanair": pooled(shared_data / "depth_tartanair" / "image_lcam_front"),
    }
    outdoor = {**streets(shared_data, size), **simulated}

    outcome = begin(make_strategy("fedepth", RULE), {**indoor, **outdoor})

    assert_two(outcome, indoor, outdoor)


@pytest.mark.parametrize("size", SIZES)
def test_unseen_sequences_get_the_model_of_their_side(shared_data: Path, size: int) -> None:
    indoor, outdoor = rooms(shared_data, size), streets(shared_data, size)
    strategy = make_strategy("fedepth", RULE)
    outcome = begin(strategy, {**indoor, **outdoor})
    room, street = assert_two(outcome, indoor, outdoor)
    legged = shared_data / "m3ed_spot_rgb"
    unseen = {
        "7-Scenes, last frames": (pooled(shared_data / "depth_7scenes")[32:], room),
        "Singapore, back right": (pooled(shared_data / "nuscenes_cams_singapore" / "CAM_BACK_RIGHT"), street),
        "OPV2V": (pooled(shared_data / "opv2v_frames"), street),
        # A platform that no robot of the fleet has: a walking robot with another camera.
        "M3ED indoors": (pooled(legged / "spot_indoor_building_loop"), room),
        "M3ED skate park": (pooled(legged / "spot_outdoor_day_skatepark_1"), street),
    }

    for name, (rows, side) in unseen.items():
        choice = strategy.choose(describe(strategy, rows), outcome.models, outcome.serving)

        assert int(np.argmin(choice.distances)) == side, name
        assert side in choice.clusters, name


@pytest.mark.parametrize("size", SIZES)
def test_the_clusters_do_not_depend_on_which_frames_a_robot_got(shared_data: Path, size: int) -> None:
    indoor, outdoor = rooms(shared_data, size), streets(shared_data, size)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        drawn = [dealt_anew(group, rng) for group in (indoor, outdoor)]

        outcome = begin(make_strategy("fedepth", RULE), {**drawn[0], **drawn[1]})

        assert_two(outcome, *drawn)


def dealt_anew(group: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return the robots with their frames dealt anew among those of one recording."""
    out = dict(group)
    for prefix in ("scenes", "singapore"):
        names = [name for name in group if name.startswith(prefix)]
        if names:
            rows = rng.permutation(np.concatenate([group[name] for name in names]))
            out |= dict(zip(names, np.array_split(rows, len(names)), strict=True))
    return out
