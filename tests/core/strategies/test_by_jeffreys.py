"""Options of the Jeffreys divergence: features, moderated variances; robots send what the options need."""

import numpy as np
import pytest

from fed_core.errors import ConfigError
from fed_core.similarity import descriptors
from fed_core.similarity.jeffreys import noise_floor
from fed_core.strategies.base import RobotInfo, make_strategy
from fed_core.strategies.grouping import Grouping
from fed_core.strategies.measures import Affinity
from fed_core.strategies.moderated import LogModerated, Moderated
from tests.core.strategies.harness import Fleet, descriptor, through_disk

LOG = {"features": "log", "variance_prior": 20.0}


def few_frames(kind: str) -> dict[str, RobotInfo]:
    """Two groups of robots with four frames each; in some channels four frames happen to agree."""
    rng = np.random.default_rng(3)
    found = {}
    for number in range(10):
        rows = rng.lognormal(0.0 if number < 5 else 1.5, 1.0, size=(4, 50))
        rows[:, rng.random(50) < 0.1] = 1.0
        robot_id = f"r{number}"
        found[robot_id] = RobotInfo(robot_id, 4, descriptors.describe(kind, rows, "enc"))
    return found


@pytest.mark.parametrize("name", ["fedepth", "hard"])
def test_robots_send_logarithms_where_they_are_wanted(name: str) -> None:
    assert make_strategy(name, {}).descriptor == "gaussian"
    assert make_strategy(name, {"features": "log"}).descriptor == "log_gaussian"
    assert make_strategy(name, {"variance_prior": 5.0}).descriptor == "gaussian"


def test_without_weight_the_affinity_is_the_plain_one() -> None:
    group = descriptors.GROUPS["gaussian"].stack([descriptor(x, variance=v) for x, v in ((0, 1), (1, 2), (5, 3))])
    plain, moderated = Affinity(), Moderated()

    floor = moderated.floor(group)

    np.testing.assert_array_equal(floor, plain.floor(group))
    np.testing.assert_array_equal(moderated.pairs(group, floor), plain.pairs(group, floor))
    assert moderated.figures(group, floor, 9.0) == plain.figures(group, floor, 9.0)


def test_moderated_affinity_by_hand() -> None:
    # Variances 1 and 3 of 5 frames each: the fleet has 2; weight 4 against 4 degrees of freedom gives 1.5 and 2.5.
    group = descriptors.GROUPS["gaussian"].stack([descriptor(0, 5, 1.0), descriptor(2, 5, 3.0)])
    how = Moderated(weight=4.0)
    floor = how.floor(group)

    # 1/2 ((1.5 - 2.5)^2 + 2^2 (1.5 + 2.5)) / (1.5 x 2.5)
    expected = 0.5 * (1.0 + 4.0 * 4.0) / 3.75
    np.testing.assert_allclose(floor, [2.0])
    np.testing.assert_allclose(how.pairs(group, floor), [[0.0, expected], [expected, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(how.between(group, group, floor)[0, 1], expected, rtol=1e-6)


def test_noise_correction_and_scale_apply_to_moderated_affinities() -> None:
    group = descriptors.GROUPS["gaussian"].stack([descriptor(0, 5, 1.0), descriptor(2, 5, 3.0)])
    plain, corrected = Moderated(weight=4.0), Moderated("sum", True, weight=4.0)
    floor = plain.floor(group)

    # Half of the variance is a robot's own, so (1 + 1/4) (1/5 + 1/5) of the affinity is sampling.
    difference = plain.pairs(group, floor) - corrected.pairs(group, floor)
    assert difference[0, 1] == pytest.approx(0.5)
    assert difference[0, 1] < noise_floor(group.num_frames, group.num_frames)[0, 1]
    assert corrected.figures(group, floor, 1.0)["noise_floor"] == pytest.approx(0.5)


def test_robots_with_few_frames_are_grouped_by_logarithms_and_moderation() -> None:
    strategy = make_strategy("fedepth", {**LOG, "tau_rule": "gap"})

    run = Fleet(strategy, few_frames("log_gaussian")).begin()

    members = dict(run.last.clusters)
    assert members == {f"r{n}": (0 if n < 5 else 1,) for n in range(10)}
    grouping = Grouping.from_memory(through_disk(run.last.memory))
    assert grouping.group.kind == "log_gaussian"
    fresh = few_frames("log_gaussian")["r7"].descriptor
    choice = strategy.choose(fresh, run.last.models, run.last.serving)
    assert (choice.clusters, choice.fallback) == ((1,), False)


def test_bad_options_are_told() -> None:
    with pytest.raises(ConfigError, match=r"FeDepth\.features is 'square'; choose one of plain, log"):
        make_strategy("fedepth", {"features": "square"})
    with pytest.raises(ConfigError, match=r"Hard\.variance_prior is -1\.0; it must be at least 0"):
        make_strategy("hard", {"variance_prior": -1.0})
    assert LogModerated.kind == "log_gaussian"
