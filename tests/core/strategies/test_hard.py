"""The hard ablation and PACFL: partitions, one cluster for each sequence (fedepth spec 4.3 and 9)."""

import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError, RefusedError, StrategyError
from fed_core.strategies.base import RobotInfo
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedepth import FeDepth
from fed_core.strategies.grouping import Grouping
from fed_core.strategies.hard import Hard
from fed_core.strategies.local import Local
from fed_core.strategies.pacfl import Pacfl
from tests.core.strategies.harness import Fleet, assert_same, descriptor, line, robots, train

POSITIONS = {"r0": 0.0, "r1": 1.0, "r2": 2.0, "r3": 5.0, "r4": 6.0}
SAMPLES = {"r0": 3, "r1": 5, "r2": 7, "r3": 11, "r4": 13}


def hard(**options: object) -> Fleet:
    return Fleet(Hard(**options), robots(POSITIONS, SAMPLES)).begin()  # type: ignore[arg-type]


def pacfl(positions: dict[str, float] = POSITIONS, **options: object) -> Fleet:
    return Fleet(Pacfl(**options), robots(positions, SAMPLES, "subspace")).begin()  # type: ignore[arg-type]


def members(run: Fleet) -> list[set[str]]:
    grouping = Grouping.from_memory(run.memory)
    return [{r for r, inside in zip(grouping.robots, row, strict=True) if inside} for row in grouping.members]


@pytest.mark.parametrize("linkage", ["average", "complete"])
@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        (1.0, [{"r0", "r1"}, {"r3", "r4"}, {"r2"}]),
        (4.0, [{"r0", "r1", "r2"}, {"r3", "r4"}]),
        (9.0, [{"r0", "r1", "r2"}, {"r3", "r4"}]),
    ],
)
def test_hard_clusters_of_the_spec(linkage: str, tau: float, expected: list[set[str]]) -> None:
    assert members(hard(tau=tau, linkage=linkage)) == expected


def test_linkages_differ() -> None:
    # A third robot at 2 joins {0, 1}: nearest member 1, mean (4 + 1) / 2, farthest 4.
    assert members(hard(tau=1.0, linkage="single"))[0] == {"r0", "r1", "r2"}
    assert members(hard(tau=2.5, linkage="average"))[0] == {"r0", "r1", "r2"}
    assert members(hard(tau=2.5, linkage="complete")) == [{"r0", "r1"}, {"r3", "r4"}, {"r2"}]


def test_average_weighs_by_size_and_weighted_does_not() -> None:
    apart = {"a": 0.0, "b": 0.1, "c": 2.0, "d": 5.0}
    # {a, b} and c merge at about 3.8; d is at 25, 24.01 and 9: UPGMA 19.3, WPGMA (24.5 + 9) / 2 = 16.8
    for linkage, expected in (("average", 2), ("weighted", 1)):
        run = Fleet(Hard(tau=18.0, linkage=linkage), robots(apart)).begin()
        assert len(members(run)) == expected


def test_tau_is_fedepths() -> None:
    soft = Fleet(FeDepth(), robots(POSITIONS, SAMPLES)).begin()
    assert hard().log["tau"] == soft.log["tau"]
    assert hard(tau_rule="gap").log["tau"] == pytest.approx(30.5)
    corrected = Fleet(FeDepth(noise_correction=True, scale="sum"), robots(POSITIONS, SAMPLES)).begin()
    assert hard(noise_correction=True, scale="sum").log["tau"] == corrected.log["tau"]


def test_a_sequence_gets_the_nearest_cluster_alone() -> None:
    run = hard(tau=9.0).run(1)
    choice = run.strategy.choose(descriptor(3.3), run.last.models, run.last.serving)
    distances = (np.mean([3.3**2, 2.3**2, 1.3**2]), np.mean([1.7**2, 2.7**2]))  # 5.96 and 5.09: both within tau
    assert choice.distances == pytest.approx(distances, rel=1e-5)
    assert (choice.keys, choice.clusters, choice.fallback) == (("cluster/1",), (1,), False)
    far = run.strategy.choose(descriptor(60.0), run.last.models, run.last.serving)
    assert (far.clusters, far.fallback) == ((1,), True)


def test_ties_go_to_the_first_cluster() -> None:
    run = Fleet(Hard(tau=1.0), robots({"a": -4.0, "b": 4.0})).begin().run(1)
    assert run.strategy.choose(descriptor(0.0), run.last.models, run.last.serving).clusters == (0,)


def test_each_cluster_is_a_fedavg_of_its_own() -> None:
    run = hard(tau=4.0).run(3)
    for group in ("r0", "r1", "r2"), ("r3", "r4"):
        alone = Fleet(FedAvg(), robots({r: POSITIONS[r] for r in group}, SAMPLES)).begin().run(3)
        for robot_id in group:
            assert_same(run.start_of(robot_id), alone.start_of(robot_id))
    assert run.log["second_eigenvalue"] == pytest.approx(1.0)


@pytest.mark.parametrize("make", [hard, pacfl])
def test_extremes_are_fedavg_and_local_bit_by_bit(make: object) -> None:
    one, alone = make(tau=1e9).run(2), make(tau=1e-6).run(2)  # type: ignore[operator]
    plain = Fleet(FedAvg(), robots(POSITIONS, SAMPLES)).begin().run(2)
    local = Fleet(Local(), robots(POSITIONS, SAMPLES)).begin().run(2)
    for robot_id in POSITIONS:
        assert_same(one.start_of(robot_id), plain.start_of(robot_id))
        assert_same(alone.start_of(robot_id), local.start_of(robot_id))


def test_separated_domains_make_soft_and_hard_equal() -> None:
    apart = {"a0": 0.0, "a1": 1.0, "b0": 50.0, "b1": 51.0, "b2": 52.0}
    soft = Fleet(FeDepth(tau_rule="gap"), robots(apart)).begin().run(2)
    run = Fleet(Hard(tau_rule="gap"), robots(apart)).begin().run(2)
    assert members(run) == members(soft) == [{"b0", "b1", "b2"}, {"a0", "a1"}]
    for robot_id in apart:
        assert_same(run.start_of(robot_id), soft.start_of(robot_id))


def test_newcomers_join_one_cluster_or_open_one() -> None:
    run = hard(tau=9.0, rebuild_share=1.0).run(1)
    assert run.join(robots({"r5": 3.0})["r5"]).load == ("cluster/0",)
    run = hard(tau=9.0, rebuild_share=1.0, newcomer="singleton").run(1)
    start = run.start_of("r4")
    run.join(robots({"r6": 90.0})["r6"])
    assert_same(run.start_of("r6"), start)
    run.run(1)
    assert members(run) == [{"r0", "r1", "r2"}, {"r3", "r4"}, {"r6"}]
    assert_same(run.start_of("r6"), train("r6", start, 2))


def test_many_newcomers_cluster_anew() -> None:
    run = hard(tau=9.0).run(1)
    run.join(robots({"r5": 90.0})["r5"])
    run.run(1)
    assert run.log["rebuilt"] is True
    assert members(run) == [{"r0", "r1", "r2"}, {"r3", "r4"}, {"r5"}]


def test_everyone_alone_works_and_is_told() -> None:
    run = hard(tau=0.5)
    assert run.log["warnings"] == [
        "tau = 0.5 leaves each of the 5 robots alone in its cluster: they share nothing; raise tau or tau_quantile"
    ]
    assert sorted(run.run(2).blobs) == [f"cluster/{k}" for k in range(5)]
    assert "warnings" not in hard(tau=9.0).log
    assert "warnings" not in Fleet(Hard(tau=9.0), robots({"r0": 0.0})).begin().log  # one robot is alone in any case


def test_a_tau_below_the_sampling_noise_is_told() -> None:
    run = Fleet(Hard(tau=0.03), robots({"a": 0.0, "b": 0.1, "c": 9.0})).begin()
    (text,) = run.log["warnings"]  # type: ignore[misc]
    assert text.startswith("tau = 0.03 is not above the sampling noise of the affinities (0.04): chance decides")
    corrected = Fleet(Hard(tau=0.03, noise_correction=True), robots({"a": 0.0, "b": 0.1, "c": 9.0})).begin()
    assert "warnings" not in corrected.log


# ---- PACFL -----------------------------------------------------------------------------------------------------------


def test_pacfl_clusters_by_angle() -> None:
    run = pacfl(tau=2.0)
    assert members(run) == [{"r0", "r1", "r2"}, {"r3", "r4"}]  # r2 is at 2 and 1 degrees from r0 and r1
    assert run.log["within_cluster_max"] == pytest.approx(2.0, abs=1e-4)
    assert "noise_floor" not in run.log
    assert pacfl(tau_quantile=0.5).log["tau"] == pytest.approx(3.5, abs=1e-4)  # 1 1 1 2 3 4 4 5 5 6


def test_angles_wrap_and_have_no_sign() -> None:
    run = pacfl({"a": 1.0, "b": 90.0, "c": 179.0, "d": 271.0}, tau=3.0)
    assert members(run) == [{"a", "c"}, {"b", "d"}]


@pytest.mark.parametrize("angle", ["principal", "entrywise", "sum"])
@pytest.mark.parametrize("linkage", ["average", "weighted", "complete", "single"])
def test_pacfl_switches_work(angle: str, linkage: str) -> None:
    run = pacfl({"a": 0.0, "b": 1.0, "c": 45.0, "d": 46.0}, tau_rule="gap", angle=angle, linkage=linkage).run(1)
    assert members(run) == [{"a", "b"}, {"c", "d"}]


def test_pacfl_newcomers_and_sequences_go_to_the_smallest_mean_angle() -> None:
    run = pacfl(tau=2.0, rebuild_share=1.0).run(1)
    assert run.join(RobotInfo("r5", 9, line(3.6))).load == ("cluster/1",)  # means 2.6 and 1.9
    choice = run.strategy.choose(line(3.0), run.last.models, run.last.serving)
    assert choice.distances == pytest.approx((2.0, 2.5), abs=1e-4)
    assert choice.keys == ("cluster/0",)


def test_pacfl_needs_subspaces() -> None:
    with pytest.raises(RefusedError, match="robot 'r0' is of kind 'gaussian', this run needs 'subspace'"):
        Fleet(Pacfl(), robots(POSITIONS)).begin()
    run = pacfl(tau=2.0)
    with pytest.raises(RefusedError, match="the sequence is of kind 'gaussian', this run needs 'subspace'"):
        run.strategy.choose(descriptor(1.0), run.last.models, run.last.serving)
    with pytest.raises(StrategyError, match="pacfl chooses models by descriptor; describe the sequence first"):
        run.strategy.choose(None, run.last.models, run.last.serving)


def test_memory_of_another_kind_is_refused() -> None:
    run = hard(tau=9.0).run(1)
    run.strategy = Pacfl(rebuild_share=0.0)
    del run.robots["r4"]
    with pytest.raises((StrategyError, RefusedError), match="this run needs 'subspace'|compares 'subspace' ones"):
        run.run(1)


@pytest.mark.parametrize(
    ("cls", "options", "text"),
    [
        (Hard, {"linkage": "ward"}, "Hard.linkage is 'ward'; choose one of average, complete, single, weighted"),
        (Pacfl, {"angle": "acute"}, "Pacfl.angle is 'acute'; choose one of principal, entrywise, sum"),
    ],
)
def test_wrong_options_are_named(cls: type, options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(cls, options)
