"""What clustered methods do with robots and memories that are at their limits, or broken."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fed_core.errors import Refusal, RefusedError, StrategyError
from fed_core.similarity import subspace
from fed_core.strategies.base import RobotInfo, make_strategy
from fed_core.strategies.grouping import Grouping
from fed_core.types import Descriptor, Memory
from tests.core.strategies.harness import Fleet, assert_same, descriptor, line, robots, train

POSITIONS = {"ana": 0.0, "bob": 0.5, "cho": 4.0, "dag": 4.5}
by_images = pytest.mark.parametrize("name", ["fedepth", "hard"])


def fleet(name: str, described: dict[str, Descriptor], **options: object) -> Fleet:
    known = {robot_id: RobotInfo(robot_id, 10, told) for robot_id, told in described.items()}
    return Fleet(make_strategy(name, options), known).begin()


def members(run: Fleet) -> list[set[str]]:
    grouping = Grouping.from_memory(run.memory)
    return [{r for r, inside in zip(grouping.robots, row, strict=True) if inside} for row in grouping.members]


@by_images
def test_a_robot_of_constant_images_is_a_cluster_of_its_own(name: str) -> None:
    constant = descriptor(0.25, variance=0.0)
    known = {r: descriptor(x) for r, x in POSITIONS.items()} | {"wall": constant}
    run = fleet(name, known, tau=1.0).run(2)
    assert members(run) == [{"ana", "bob"}, {"cho", "dag"}, {"wall"}]
    assert all(np.isfinite(value) for value in run.log["stationary_weights"].values())  # type: ignore[attr-defined]
    choice = run.strategy.choose(constant, run.last.models, run.last.serving)
    assert choice.clusters == (2,) and np.isfinite(choice.distances).all()


@by_images
def test_a_fleet_of_constant_images_only_works(name: str) -> None:
    known = {r: descriptor(x, variance=0.0) for r, x in {"ana": 0.0, "bob": 0.0, "cho": 1.0}.items()}
    run = fleet(name, known, tau=1.0).run(2)
    assert members(run) == [{"ana", "bob"}, {"cho"}]
    assert np.isfinite(run.log["model_distance_max"])  # type: ignore[call-overload]


def test_constant_images_have_an_angle_to_others() -> None:
    rng = np.random.default_rng(0)
    wall = subspace.describe(np.tile([1.0, 0.0, 0.0, 0.0], (5, 1)), "enc")
    other = subspace.describe(rng.uniform(0.1, 1.0, (30, 4)), "enc")
    run = fleet("pacfl", {"ana": wall, "bob": wall, "cho": other}, tau_rule="gap").run(1)
    assert members(run) == [{"ana", "bob"}, {"cho"}]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fedepth", descriptor(1.0, num_frames=1)),
        ("hard", descriptor(1.0, num_frames=1)),
        ("fedclust", descriptor(1.0, num_frames=1)),
        ("pacfl", line(1.0, num_frames=1)),
    ],
)
def test_a_robot_with_one_frame_is_refused_by_name(name: str, told: Descriptor) -> None:
    like = line if told.kind == "subspace" else descriptor
    text = r"descriptor of robot 'bob' comes from 1 frame\(s\); at least 2 are needed; record more, or leave"
    with pytest.raises(RefusedError, match=text) as e:
        fleet(name, {"ana": like(0.0), "bob": told})
    assert e.value.code is Refusal.WRONG_TENSORS and "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["fedepth", "hard", "pacfl"])
def test_a_sequence_of_one_frame_is_refused(name: str) -> None:
    like = line if name == "pacfl" else descriptor
    run = fleet(name, {"ana": like(0.0), "bob": like(3.0)}, tau=1.0).run(1)
    with pytest.raises(RefusedError, match=r"descriptor of the sequence comes from 1 frame\(s\)"):
        run.strategy.choose(like(0.0, num_frames=1), run.last.models, run.last.serving)
    assert run.strategy.choose(like(0.0, num_frames=2), run.last.models, run.last.serving).clusters == (0,)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: np.concatenate([m, np.zeros((1, 4), np.uint8)]), "cluster 2 has no member; remove it"),
        (lambda m: m[:1], "robot 2 is in no cluster; give it at least one"),
        (lambda m: np.concatenate([m, m[:1]]), "two clusters have the same members; remove one of them"),
        (lambda m: m[:, :3], r"memberships have shape \(2, 3\); expected \(clusters, 4\)"),
        (lambda m: m[:0], r"memberships have shape \(0, 4\); expected \(clusters, 4\)"),
    ],
)
def test_imported_memberships_are_checked(change: Callable[[np.ndarray], np.ndarray], text: str) -> None:
    run = fleet("fedepth", {r: descriptor(x) for r, x in POSITIONS.items()}, tau=1.0).run(1)
    tensors = {**run.memory.tensors, "members": change(run.memory.tensors["members"])}
    run.memory = Memory(tensors, run.memory.values)
    with pytest.raises(StrategyError, match=text):
        run.run(1)
    with pytest.raises(StrategyError, match=text):
        run.strategy.choose(descriptor(1.0), run.last.models, run.memory)


@pytest.mark.parametrize("name", ["fedepth", "hard", "pacfl"])
def test_a_tau_that_leaves_everyone_alone_works_and_is_told(name: str) -> None:
    like = line if name == "pacfl" else descriptor
    run = fleet(name, {r: like(x) for r, x in POSITIONS.items()}, tau=1e-3)
    text = "tau = 0.001 leaves each of the 4 robots alone in its cluster: they share nothing; raise tau or tau_quantile"
    assert text in run.log["warnings"]  # type: ignore[operator]
    before = {r: run.start_of(r) for r in POSITIONS}
    run.run(1)
    for robot_id in POSITIONS:
        assert_same(run.start_of(robot_id), train(robot_id, before[robot_id], 1))
    assert "warnings" not in run.log  # told with the clustering, not again in every round


def test_robots_of_different_encoders_are_told_apart_by_name() -> None:
    known = {"ana": descriptor(0.0), "bob": descriptor(1.0, encoder="other")}
    with pytest.raises(RefusedError, match="descriptor of robot 'bob' is of encoder 'other', the fleet uses 'enc'"):
        fleet("hard", known)


def test_robots_of_different_kinds_are_told_apart_by_name() -> None:
    with pytest.raises(RefusedError, match="robot 'bob' is of kind 'subspace', this run needs 'gaussian'"):
        fleet("fedclust", {"ana": descriptor(0.0), "bob": line(1.0)})


def test_a_descriptor_with_nan_is_refused_by_name() -> None:
    bad = descriptor(0.0)
    bad = replace(bad, tensors={**bad.tensors, "mean": np.array([np.nan], np.float32)})
    with pytest.raises(RefusedError, match="descriptor of robot 'bob' holds NaN, Inf or a negative variance"):
        fleet("hard", {"ana": descriptor(0.0), "bob": bad})


def test_two_robots_of_equal_images_share_a_cluster() -> None:
    run = Fleet(make_strategy("fedepth", {}), robots({"ana": 1.0, "bob": 1.0})).begin()
    assert run.log["tau"] == 0.0 and members(run) == [{"ana", "bob"}]
