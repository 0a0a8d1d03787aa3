"""Conformance of fedepth spec 5 and 6; acceptance tests 5 to 9 of section 15 with a toy in place of training."""

from dataclasses import replace

import numpy as np
import pytest

from fed_core.clustering.mixing import mixing_matrix
from fed_core.config import from_tree
from fed_core.errors import ConfigError, Refusal, RefusedError, StrategyError
from fed_core.strategies.base import RobotInfo
from fed_core.strategies.fedavg import FedAvg
from fed_core.strategies.fedepth import FeDepth
from fed_core.strategies.grouping import Grouping
from fed_core.strategies.local import Local
from fed_core.types import Memory
from tests.core.strategies.harness import SIGNATURE, Fleet, Weights, assert_same, descriptor, initial, robots, train

POSITIONS = {"r0": 0.0, "r1": 1.0, "r2": 2.0, "r3": 5.0, "r4": 6.0}
SAMPLES = {"r0": 3, "r1": 5, "r2": 7, "r3": 11, "r4": 13}
FLOATS = [spec.name for spec in SIGNATURE.tensors if "float" in spec.dtype]


def fleet(**options: object) -> Fleet:
    return Fleet(FeDepth(**options), robots(POSITIONS, SAMPLES)).begin()  # type: ignore[arg-type]


def members(run: Fleet) -> list[set[str]]:
    grouping = Grouping.from_memory(run.memory)
    return [{r for r, inside in zip(grouping.robots, row, strict=True) if inside} for row in grouping.members]


def idle(robot_id: str, weights: Weights, number: int) -> Weights:
    return {name: array.copy() for name, array in weights.items()}


def distinct_starts(robot_id: str, weights: Weights, number: int) -> Weights:
    """In round 1 every robot brings a model of its own, later nothing moves."""
    model = initial(ord(robot_id[1])) if number == 1 else idle(robot_id, weights, number)
    return {n: a.astype(np.float64) if "float" in a.dtype.name else a for n, a in model.items()}


DOUBLE = replace(
    SIGNATURE,
    tensors=tuple(replace(s, dtype="float64") if "float" in s.dtype else s for s in SIGNATURE.tensors),
)


def test_clusters_of_the_spec() -> None:
    assert members(fleet(tau=9.0)) == [{"r0", "r1", "r2", "r3"}, {"r2", "r3", "r4"}]
    assert members(fleet(tau=1.0, dedup="identical")) == [{"r0", "r1", "r2"}, {"r0", "r1"}, {"r1", "r2"}, {"r3", "r4"}]
    assert members(fleet(tau=9.0, method="cliques")) == [{"r0", "r1", "r2"}, {"r2", "r3"}, {"r3", "r4"}]
    assert members(fleet(tau=0.5, min_cluster=2)) == [{"r0", "r1", "r2"}, {"r3", "r4"}]


def test_tau_is_a_quantile_or_the_largest_gap_and_is_logged() -> None:
    pairs = sorted((a - b) ** 2 for a in POSITIONS.values() for b in POSITIONS.values() if a < b)
    assert fleet(tau_quantile=0.3).log["tau"] == pytest.approx(np.quantile(pairs, 0.3))
    assert fleet(tau_rule="gap").log["tau"] == pytest.approx(30.5)


def test_log_of_the_clustering() -> None:
    log = fleet(tau=9.0).log
    assert log["num_clusters"] == 2
    assert log["singletons"] == 0
    assert log["memberships_mean"] == pytest.approx(7 / 5)
    assert log["within_cluster_max"] == pytest.approx(25.0)  # a neighbourhood may hold pairs above tau
    assert log["noise_floor"] == pytest.approx(0.04)
    assert log["top_share"] == 1.0


def test_log_of_the_mixing() -> None:
    run = Fleet(FeDepth(tau=9.0), robots(POSITIONS)).begin().run(1)
    assert run.log["second_eigenvalue"] == pytest.approx(5 / 12)
    assert list(run.log["stationary_weights"].values()) == pytest.approx([1 / 7, 1 / 7, 2 / 7, 2 / 7, 1 / 7])  # type: ignore[attr-defined]
    trainable = [s.name for s in SIGNATURE.tensors if s.trainable]
    first, second = (np.concatenate([run.blobs[k][n].ravel() for n in trainable]) for k in ("cluster/0", "cluster/1"))
    expected = np.linalg.norm(first.astype(np.float64) - second)
    assert run.log["model_distance_max"] == pytest.approx(expected, rel=1e-3)
    assert run.log["model_distance_max"] == run.log["model_distance_mean"]


def test_all_start_from_the_initial_model() -> None:
    run = fleet(tau=9.0)
    assert all(plan.load == ("global",) for plan in run.plans.values())
    assert run.last.models == ("global", "global")
    choice = run.strategy.choose(descriptor(2.2), run.last.models, run.last.serving)
    assert (choice.keys, choice.clusters) == (("global",), (0, 1))


def test_cluster_models_and_starts_follow_the_matrices() -> None:
    run = fleet(tau=9.0)
    trained = {r: train(r, initial(), 1) for r in POSITIONS}
    run.run(1)
    assert run.plans["r0"].load == ("cluster/0",)
    assert run.plans["r2"].load == ("cluster/0", "cluster/1")
    grouping = Grouping.from_memory(run.memory)
    mix = mixing_matrix(grouping.members, np.array(list(SAMPLES.values())))
    for row, robot_id in zip(mix, POSITIONS, strict=True):
        start = run.start_of(robot_id)
        for name in FLOATS:
            expected = sum(p * trained[r][name].astype(np.float64) for p, r in zip(row, POSITIONS, strict=True))
            np.testing.assert_allclose(start[name], expected, rtol=2e-3 if "bias" in name else 1e-5, atol=1e-6)
    assert run.blobs["cluster/0"]["bn.num_batches_tracked"] == 2


@pytest.mark.parametrize("averaging", ["client", "server"])
def test_huge_tau_is_fedavg_bit_by_bit(averaging: str) -> None:
    soft = fleet(tau=1e9, averaging=averaging).run(2)
    plain = Fleet(FedAvg(), robots(POSITIONS, SAMPLES)).begin().run(2)
    for robot_id in POSITIONS:
        assert_same(soft.start_of(robot_id), plain.start_of(robot_id))


@pytest.mark.parametrize("bn", ["average", "moments"])
def test_tiny_tau_is_local_training_bit_by_bit(bn: str) -> None:
    soft = fleet(tau=1e-6, bn=bn).run(2)
    local = Fleet(Local(), robots(POSITIONS, SAMPLES)).begin().run(2)
    for robot_id in POSITIONS:
        assert_same(soft.start_of(robot_id), local.start_of(robot_id))
    for position in (0.4, 5.6, 99.0):
        near = soft.strategy.choose(descriptor(position), soft.last.models, soft.last.serving)
        nearest = local.strategy.choose(descriptor(position), local.last.models, local.last.serving)
        assert near.clusters == nearest.clusters and near.fallback


def test_separated_domains_are_hard_clusters() -> None:
    apart = {"a0": 0.0, "a1": 1.0, "b0": 50.0, "b1": 51.0, "b2": 52.0}
    run = Fleet(FeDepth(tau_rule="gap"), robots(apart)).begin().run(2)
    for group in ("a", "b"):
        alone = {r: x for r, x in apart.items() if r[0] == group}
        hard = Fleet(FedAvg(), robots(alone)).begin().run(2)
        for robot_id in alone:
            assert_same(run.start_of(robot_id), hard.start_of(robot_id))
    assert run.log["second_eigenvalue"] == pytest.approx(1.0)


@pytest.mark.parametrize("averaging", ["client", "server"])
def test_without_training_overlap_ends_in_the_stationary_mean(averaging: str) -> None:
    strategy = FeDepth(tau=9.0, averaging=averaging)
    run = Fleet(strategy, robots(POSITIONS), DOUBLE, distinct_starts("r0", initial(), 1), distinct_starts)
    run.begin().run(200)
    pi = dict(zip(POSITIONS, np.array([1, 1, 2, 2, 1]) / 7, strict=True))
    for name in FLOATS:
        expected = sum(pi[r] * distinct_starts(r, {}, 1)[name] for r in POSITIONS)
        for robot_id in POSITIONS:
            np.testing.assert_allclose(run.start_of(robot_id)[name], expected, rtol=1e-9, atol=1e-12)
    assert run.log["model_distance_max"] < 1e-9


@pytest.mark.parametrize("bn", ["average", "moments"])
@pytest.mark.parametrize("participants", [None, ["r0", "r4"], ["r4"]])
def test_server_and_client_averaging_agree(bn: str, participants: list[str] | None) -> None:
    client, server = (fleet(tau=9.0, averaging=a, bn=bn).run(1).run(2, participants) for a in ("client", "server"))
    for robot_id in POSITIONS:
        assert len(server.plans[robot_id].load) == 1
        assert_same(server.start_of(robot_id), client.start_of(robot_id))
    assert server.plans["r2"].load == server.plans["r3"].load == ("start/0",)  # equal columns share one start
    assert server.last.models == client.last.models


def test_absent_cluster_keeps_its_model_and_shares_grow() -> None:
    run = fleet(tau=4.0).run(1)  # {r0,r1,r2}, {r3,r4}
    before = run.blobs["cluster/1"]
    start = {r: run.start_of(r) for r in ("r0", "r2")}
    run.run(1, ["r0", "r2"])
    assert_same(run.blobs["cluster/1"], before)
    assert run.last.kept == ("cluster/1",) and run.log["stale_clusters"] == ["cluster/1"]
    trained = [train(r, start[r], 2)["attention.bias"] for r in ("r0", "r2")]
    np.testing.assert_allclose(run.blobs["cluster/0"]["attention.bias"], 0.3 * trained[0] + 0.7 * trained[1])


def test_a_cluster_absent_from_the_first_round_holds_the_initial_model() -> None:
    run = fleet(tau=4.0).run(1, ["r0"])
    assert_same(run.blobs["cluster/1"], initial())
    assert sorted(run.blobs) == ["cluster/0", "cluster/1"]


def test_the_sequence_of_the_spec() -> None:
    wide = fleet(tau=9.0).run(1)
    choice = wide.strategy.choose(descriptor(2.2), wide.last.models, wide.last.serving)
    assert choice.keys == ("cluster/0", "cluster/1") and not choice.fallback
    assert choice.distances == pytest.approx((3.54, 7.44), rel=1e-5)
    assert choice.threshold == 9.0
    tight = fleet(tau=1.0).run(1)
    choice = tight.strategy.choose(descriptor(2.2), tight.last.models, tight.last.serving)
    assert (choice.keys, choice.clusters, choice.fallback) == (("cluster/0",), (0,), True)
    assert choice.distances == pytest.approx((2.10667, 11.14), rel=1e-5)


def test_equal_distances_choose_the_first_cluster() -> None:
    run = Fleet(FeDepth(tau=1.0), robots({"a": -4.0, "b": 4.0})).begin().run(1)
    choice = run.strategy.choose(descriptor(0.0), run.last.models, run.last.serving)
    assert (choice.distances, choice.clusters, choice.fallback) == ((16.0, 16.0), (0,), True)


def test_links_and_noise_correction_change_the_distances() -> None:
    def far(**options: object) -> tuple[float, ...]:
        run = fleet(tau=9.0, **options)
        return run.strategy.choose(descriptor(2.2), run.last.models, run.last.serving).distances

    assert far(link="min") == pytest.approx((0.04, 0.04), rel=1e-4)
    assert far(link="max") == pytest.approx((7.84, 14.44), rel=1e-5)
    assert far(noise_correction=True) == pytest.approx((np.mean([4.8, 1.4, 0, 7.8]), np.mean([0, 7.8, 14.4])), rel=1e-4)


def test_a_sequence_of_another_encoder_is_refused() -> None:
    run = fleet(tau=9.0)
    with pytest.raises(RefusedError, match="the sequence is of encoder 'other', the fleet uses 'enc'") as e:
        run.strategy.choose(descriptor(1.0, encoder="other"), run.last.models, run.last.serving)
    assert e.value.code is Refusal.WRONG_ENCODER


def test_choosing_needs_a_descriptor_and_models_of_the_same_round() -> None:
    run = fleet(tau=9.0)
    with pytest.raises(StrategyError, match="fedepth chooses models by descriptor; describe the sequence first"):
        run.strategy.choose(None, run.last.models, run.last.serving)
    with pytest.raises(StrategyError, match="1 models but 2 clusters: plan and serving memory are of different rounds"):
        run.strategy.choose(descriptor(1.0), ("global",), run.last.serving)


def test_no_descriptor_at_all_is_an_error() -> None:
    with pytest.raises(StrategyError, match="none of the 1 robots sent a descriptor"):
        Fleet(FeDepth(), {"r0": RobotInfo("r0", 5)}).begin()


def test_a_robot_without_descriptor_starts_from_all_clusters() -> None:
    run = fleet(tau=4.0)
    run.robots["mute"] = RobotInfo("mute", 5)
    run.plans["mute"] = run.plans["r0"]
    run.run(1)
    assert run.plans["mute"].load == ("cluster/0", "cluster/1")
    with pytest.raises(StrategyError, match="all updates come from robots without a descriptor"):
        run.run(1, ["mute"])


def test_newcomers_join_near_clusters_or_the_nearest() -> None:
    run = fleet(tau=9.0, rebuild_share=1.0).run(1)
    near = run.join(robots({"r5": 2.2})["r5"])
    assert near.load == ("cluster/0", "cluster/1")
    far = run.join(robots({"r6": 90.0})["r6"])
    assert far.load == ("cluster/1",)
    assert run.join(run.robots["r6"]) == far  # a second time changes nothing
    run.run(1)
    assert members(run) == [{"r0", "r1", "r2", "r3", "r5"}, {"r2", "r3", "r4", "r5", "r6"}]
    assert "rebuilt" not in run.log


def test_a_far_newcomer_may_open_its_own_cluster() -> None:
    run = fleet(tau=9.0, newcomer="singleton", rebuild_share=1.0).run(1)
    assert run.join(robots({"r6": 90.0})["r6"]).load == ("cluster/1",)
    start = run.start_of("r6")
    run.run(1, ["r0", "r4"])
    assert run.plans["r6"].load == ("cluster/2",)
    assert_same(run.start_of("r6"), start)  # it did not train, so its cluster still holds the nearest one's model
    run.run(1)
    assert_same(run.start_of("r6"), train("r6", start, 3))


def test_who_leaves_takes_empty_and_contained_clusters_along() -> None:
    run = fleet(tau=9.0, rebuild_share=1.0).run(1)
    del run.robots["r4"]
    run.run(1)
    assert members(run) == [{"r0", "r1", "r2", "r3"}]  # {r2, r3} lies inside
    assert run.last.models == ("cluster/0",)
    assert sorted(run.blobs) == ["cluster/0"]


@pytest.mark.parametrize("averaging", ["client", "server"])
def test_many_changes_cluster_anew_from_warm_models(averaging: str) -> None:
    run = fleet(tau=9.0, averaging=averaging).run(1)
    run.join(RobotInfo("r5", 20, descriptor(90.0)))
    old = fleet(tau=9.0, averaging=averaging, rebuild_share=1.0).run(1)
    old.join(RobotInfo("r5", 20, descriptor(90.0)))
    run.run(1)
    old.run(1)
    assert run.log["rebuilt"] is True
    assert members(run) == [{"r0", "r1", "r2", "r3"}, {"r2", "r3", "r4"}, {"r5"}]
    assert run.last.models == ("cluster/2", "cluster/3", "cluster/4")  # numbers are never used twice
    starts = {r: old.start_of(r) for r in old.robots}
    for key, group in zip(run.last.models, members(run), strict=True):
        total = sum(run.robots[r].num_samples for r in group)
        for name in FLOATS:
            mean = sum(run.robots[r].num_samples / total * starts[r][name].astype(np.float64) for r in sorted(group))
            np.testing.assert_allclose(run.blobs[key][name], mean, rtol=2e-3 if "bias" in name else 1e-5, atol=1e-6)
    run.run(1)
    assert "rebuilt" not in run.log


def test_memory_of_another_schema_is_refused() -> None:
    run = fleet(tau=9.0)
    newer = Memory(run.memory.tensors, {**run.memory.values, "schema": 7})
    with pytest.raises(StrategyError, match="clusters are stored in schema 7, this version reads schema 1"):
        Grouping.from_memory(newer)
    with pytest.raises(StrategyError, match="schema none"):
        run.strategy.choose(descriptor(1.0), run.last.models, Memory())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "greedy"}, "FeDepth.method is 'greedy'; choose one of rows, cliques"),
        ({"tau": -1.0}, "FeDepth.tau is -1.0; it must be at least 0.0"),
        ({"tau_quantile": 2.0}, "FeDepth.tau_quantile is 2.0; it must lie between 0.0 and 1.0"),
        ({"averaging": "nobody"}, "choose one of client, server"),
        ({"min_cluster": "two"}, "FeDepth.min_cluster: expected int, got 'two'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(FeDepth, options)


def test_a_tie_of_many_robots_keeps_its_order() -> None:
    """Sorted ids, not the order of arrival, decide ties between clusters of one size."""
    run = Fleet(FeDepth(tau=1.0), robots({"z": 0.0, "a": 10.0, "m": 20.0})).begin()
    assert members(run) == [{"a"}, {"m"}, {"z"}]
