from collections.abc import Callable

import numpy as np
import pytest

from fed_core.errors import ConfigError
from fed_core.scenes import ENVIRONMENTS, PLATFORMS, GeneratedSequence
from fed_core.scenes.sequence import CLEARANCE_M, RANGE_M, TRIES, keeps_clear

Cell = Callable[[str, str], GeneratedSequence]
SEED = 5  # of the fixture
CELLS = [(p, e) for e in ENVIRONMENTS for p in PLATFORMS]


def same_bits(one: GeneratedSequence, other: GeneratedSequence, index: int) -> bool:
    a, b = one[index], other[index]
    return (
        a.rgb.tobytes() == b.rgb.tobytes()
        and a.depth_m.tobytes() == b.depth_m.tobytes()
        and a.stamp_ns == b.stamp_ns
        and one.pose(index).tobytes() == other.pose(index).tobytes()
    )


def test_the_environments_are_known() -> None:
    assert ENVIRONMENTS == ("forest", "indoor", "urban_day", "urban_night")


@pytest.mark.parametrize("environment", ["indoor", "forest", pytest.param("urban_night", marks=pytest.mark.slow)])
def test_two_objects_give_the_same_bits_in_any_order(cell: Cell, environment: str) -> None:
    one, other = cell("legged", environment), GeneratedSequence("legged", environment, seed=SEED, num_frames=120)
    for index in (7, 0, 119, 7):
        assert same_bits(one, other, index)


def test_another_seed_is_another_world_and_another_year_is_possible() -> None:
    one, other = (GeneratedSequence("ugv", "indoor", seed=s, num_frames=3) for s in (1, 2))
    assert not np.array_equal(one[0].depth_m, other[0].depth_m)
    assert abs(one[0].stamp_ns - other[0].stamp_ns) > 1e9
    assert one.world.corners.shape != other.world.corners.shape


@pytest.mark.parametrize(("platform", "environment"), CELLS)
def test_every_cell_gives_sensible_frames(cell: Cell, platform: str, environment: str) -> None:
    sequence = cell(platform, environment)
    for index in (0, 60):
        frame = sequence[index]
        assert frame.rgb.shape == (120, 160, 3) and frame.rgb.dtype == np.uint8
        assert frame.depth_m.shape == (120, 160) and frame.depth_m.dtype == np.float32
        assert np.isfinite(frame.depth_m).mean() > 0.5
        assert np.nanmin(frame.depth_m) > 0.2 and np.nanmax(frame.depth_m) <= RANGE_M
        assert frame.rgb.std() > 15  # not an even picture
        assert frame.frame_id == "camera_optical_frame"


@pytest.mark.parametrize(("platform", "environment"), CELLS)
def test_every_pose_keeps_its_distance(cell: Cell, platform: str, environment: str) -> None:
    sequence = cell(platform, environment)
    path = np.array([sequence.pose(i)[:3, 3] for i in range(len(sequence))])
    assert sequence.world.rays.distances(path, 1.0).min() >= CLEARANCE_M
    assert np.linalg.norm(np.diff(path, axis=0), axis=1).max() < 0.6  # no jumps


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_paths_are_found_and_clear_for_many_seeds(environment: str) -> None:
    for seed in range(10, 13):
        world = None
        for platform in PLATFORMS:
            sequence = GeneratedSequence(platform, environment, seed=seed, num_frames=150)
            if world is not None:
                sequence.__dict__["world"] = world
            world = sequence.world
            path = np.array([sequence.pose(i)[:3, 3] for i in range(150)])
            assert keeps_clear(world.rays, path, CLEARANCE_M)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_indoor_paths_are_found_and_clear(platform: str, seed: int) -> None:
    sequence = GeneratedSequence(platform, "indoor", seed=seed, num_frames=200)
    path = np.array([sequence.pose(i)[:3, 3] for i in range(200)])
    assert keeps_clear(sequence.world.rays, path, CLEARANCE_M)


def test_depth_tells_the_environments_apart(cell: Cell) -> None:
    far = {e: np.nanpercentile(cell("ugv", e)[0].depth_m, 95) for e in ENVIRONMENTS}
    assert far["indoor"] < 12 < far["forest"]
    assert far["urban_day"] > 25 and far["urban_night"] > 25
    near = {p: np.nanpercentile(cell(p, "urban_day")[0].depth_m, 5) for p in PLATFORMS}
    assert near["legged"] < near["ugv"] < near["uav"]


def test_night_is_darker_than_day(cell: Cell) -> None:
    light = np.array(
        [[cell(p, f"urban_{t}")[i].rgb.mean() for i in (0, 60)] for t in ("day", "night") for p in PLATFORMS]
    )
    day, night = light.mean(1).reshape(2, len(PLATFORMS))
    assert (night < day).all() and night.mean() < 0.8 * day.mean()


def test_stamps_follow_the_rate() -> None:
    sequence = GeneratedSequence("ugv", "indoor", seed=1, num_frames=4, rate_hz=5.0)
    stamps = [sequence._stamp_ns(i) for i in range(4)]
    np.testing.assert_array_equal(np.diff(stamps), 200_000_000)


def test_intrinsics_follow_the_size_and_the_platform() -> None:
    small = GeneratedSequence("legged", "indoor", seed=1, num_frames=1, width=32, height=24, name="tiny")
    frame = small[0]
    # 90 degrees across 32 pixels: f = 16 / tan 45.
    np.testing.assert_allclose(frame.intrinsics, [[16, 0, 15.5], [0, 16, 11.5], [0, 0, 1]])
    assert frame.rgb.shape == (24, 32, 3) and small.name == "tiny" and small.source == "generated"
    assert GeneratedSequence("uav", "forest", seed=3, num_frames=1).name == "uav_forest_3"


def test_an_index_past_the_end_is_refused_before_anything_is_built() -> None:
    sequence = GeneratedSequence("ugv", "urban_day", seed=1, num_frames=2)
    for index in (2, -1):
        with pytest.raises(IndexError, match=f"frame {index} of ugv_urban_day_1, which has 2"):
            sequence[index]
    assert "world" not in sequence.__dict__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"environment": "moon"}, "no environment is called 'moon'; known: forest, indoor, urban_day, urban_night"),
        ({"platform": "boat"}, "no platform is called 'boat'; known: uav, ugv, legged"),
        ({"seed": -1}, "seed of a generated sequence is -1; it must be 0 or more"),
        ({"num_frames": 0}, "num_frames of a generated sequence is 0; it must be 1 or more"),
        ({"width": 4}, "width of a generated sequence is 4; it must be 8 or more"),
        ({"rate_hz": 0.0}, "rate_hz of a generated sequence is 0.0; it must be above 0"),
    ],
)
def test_bad_arguments_end_in_one_line(change: dict[str, object], message: str) -> None:
    wanted: dict[str, object] = {"platform": "ugv", "environment": "indoor", "seed": 1, "num_frames": 5, **change}
    platform, environment = wanted.pop("platform"), wanted.pop("environment")
    with pytest.raises(ConfigError) as err:
        GeneratedSequence(platform, environment, **wanted)  # type: ignore[arg-type]
    assert str(err.value) == message


def test_a_world_without_a_free_path_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("fed_core.scenes.sequence.keeps_clear", lambda *_: bool(asked.append(1)))
    with pytest.raises(ConfigError, match="ugv_indoor_1 finds no free path in its world; take another seed than 1"):
        GeneratedSequence("ugv", "indoor", seed=1, num_frames=2).pose(0)
    assert len(asked) == TRIES
