"""Robust rules around strategies: who counts, masks, clusters, too few updates, dtypes, order and threads."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError
from fed_core.strategies.base import GLOBAL, RobotInfo, RobotPlan, ServerState, Update
from fed_core.strategies.robust import Robust
from fed_core.strategies.walks import norms, squared_distances
from fed_core.types import Array, Json, Memory, ModelSignature, TensorSpec
from tests.core.strategies.harness import Fleet, Weights, robots

A, B = TensorSpec("a", (2,), "float32", True, "a", "Linear"), TensorSpec("b", (1,), "float32", True, "b", "Linear")
PAIR = ModelSignature("pair", (A, B))
NAMES = "ana bob cho dag eva fay gus".split()


def state(start: Mapping[str, Array], names: Sequence[str], signature: ModelSignature = PAIR) -> ServerState:
    infos = {name: RobotInfo(name, 10) for name in names}
    plans = {name: RobotPlan((GLOBAL,)) for name in names}
    return ServerState(1, infos, Memory(), {GLOBAL: start}, signature, plans)


def pair(a: tuple[float, float], b: float | None) -> Weights:
    held = {"a": np.array(a, np.float32)}
    return held if b is None else {**held, "b": np.array([b], np.float32)}


def updates(weights: Sequence[Weights], samples: int = 1) -> list[Update]:
    return [Update(name, samples * 10**n, each) for n, (name, each) in enumerate(zip(NAMES, weights, strict=False))]


def aggregated(options: Mapping[str, Any], sent: Sequence[Update]) -> tuple[Weights, Mapping[str, Json]]:
    start = pair((0.0, 0.0), 7.0)
    outcome = Robust(**options).aggregate(sent, state(start, [u.robot_id for u in sent]))
    rows = {name: row[GLOBAL] for name, row in outcome.rows}
    return rows, outcome.log


def tight(count: int, outliers: int = 1, b: float | None = 1.0) -> list[Weights]:
    """Updates at 1, 2, 3 ... and outliers, far beyond, that claim the most samples."""
    points = [float(n + 1) for n in range(count - outliers)] + [1e6] * outliers
    return [pair((x, -x), b) for x in points]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rule": "median"}, 4.0),
        ({"rule": "trimmed_mean"}, 4.0),
        ({"rule": "trimmed_mean", "trim": 0.2}, 4.0),  # of 7 updates 2 at each end: 3, 4, 5
        ({"rule": "krum"}, 3.0),  # of six on a line 3 and 4 score alike
        ({"rule": "multi_krum"}, 3.5),  # 2, 3, 4, 5: 1 and 6 are farther out
        ({"rule": "bulyan"}, 3.0),
    ],
)
def test_each_rule_by_hand_whatever_samples_are_claimed(options: dict[str, Any], expected: float) -> None:
    new, _ = aggregated(options, updates(tight(7)))
    np.testing.assert_allclose(new["a"], [expected, -expected], rtol=1e-6)
    np.testing.assert_array_equal(new["b"], [1.0])


def test_clipping_shortens_what_is_too_long_and_leaves_the_rest() -> None:
    """Norms 5, 5 and 500: the third goes a hundredth of its way; b starts at 7 and stays."""
    sent = updates([pair((3.0, 4.0), 7.0), pair((-3.0, -4.0), 7.0), pair((300.0, 400.0), 7.0)])
    for options in ({"rule": "clip"}, {"rule": "clip", "max_norm": 5.0}):
        new, log = aggregated(options, sent)
        np.testing.assert_allclose(new["a"], [1.0, 4.0 / 3.0], rtol=1e-6)
        np.testing.assert_array_equal(new["b"], [7.0])
        assert log["norms"] == {"ana": 5.0, "bob": 5.0, "cho": 500.0} and log["max_norm"] == 5.0


def test_distances_are_of_walks_over_entries_that_both_share() -> None:
    sent = updates([pair((1.0, 2.0), 9.0), pair((4.0, 6.0), None), pair((1.0, 2.0), 12.0)])
    found = squared_distances(sent, state(pair((0.0, 0.0), 7.0), NAMES[:3]))
    np.testing.assert_allclose(found, [[0.0, 12.5, 3.0], [12.5, 0.0, 12.5], [3.0, 12.5, 0.0]])
    np.testing.assert_allclose(norms(sent, state(pair((0.0, 0.0), 7.0), NAMES[:3])), [3.0, 52.0**0.5, 30.0**0.5])


def test_walks_begin_where_each_robot_began() -> None:
    """Two robots of different clusters that walk alike are not apart; several models are averaged."""
    sent = updates([pair((1.0, 1.0), 1.0), pair((11.0, 11.0), 11.0), pair((6.0, 6.0), 6.0)])
    far = {"x": pair((0.0, 0.0), 0.0), "y": pair((10.0, 10.0), 10.0)}
    plans = {"ana": RobotPlan(("x",)), "bob": RobotPlan(("y",)), "cho": RobotPlan(("x", "y"))}
    where = ServerState(1, {}, Memory(), far, PAIR, plans)
    np.testing.assert_array_equal(squared_distances(sent, where), np.zeros((3, 3)))


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "krum", "multi_krum"])
def test_masks_let_only_sharers_count_and_what_nobody_shares_stays(rule: str) -> None:
    sent = updates([pair((1.0, 1.0), None)] * 5 + [pair((2.0, 2.0), None), pair((1e9, 1e9), None)])
    new, _ = aggregated({"rule": rule}, sent)
    np.testing.assert_array_equal(new["b"], [7.0])
    np.testing.assert_allclose(new["a"], [1.0, 1.0], atol=0.5)
    some = updates([pair((1.0, 1.0), None), *[pair((1.0, 1.0), 2.0)] * 5, pair((1.0, 1.0), 1e9)])
    np.testing.assert_array_equal(aggregated({"rule": rule}, some)[0]["b"], [2.0])


def test_too_few_updates_are_told_and_the_median_or_the_model_of_before_goes_on() -> None:
    new, log = aggregated({"rule": "krum"}, updates(tight(4)))
    np.testing.assert_array_equal(new["a"], [2.5, -2.5])
    told = "robust: too few updates for krum, which needs 5 against 1 attackers: "
    assert log["warnings"] == [told + "the median took its place for global (updates: 4, tensors: 2)"]

    new, log = aggregated({"rule": "krum"}, updates(tight(2)))
    np.testing.assert_array_equal(new["a"], [0.0, 0.0])
    kept = "no rule could hold for global (updates: 2, tensors: 2), which stayed as before"
    assert log["warnings"] == [told + kept]

    log = aggregated({"rule": "trimmed_mean", "trim": 0.2}, updates(tight(2)))[1]
    assert log["warnings"] == ["robust: too few updates for trimmed_mean with trim 0.2: " + kept]
    assert "warnings" not in aggregated({"rule": "krum"}, updates(tight(5)))[1]


def test_the_log_names_whom_krum_chose() -> None:
    assert aggregated({"rule": "krum"}, updates(tight(7)))[1]["chosen"] == {GLOBAL: ["cho"]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rule": "mode"}, "mode"),
        ({"inner": "robust"}, "robust cannot wrap itself; set inner to another strategy"),
        ({"inner": "scaffold"}, "robust cannot guard scaffold: not all that its robots send goes through the rule"),
        ({"inner": "pcgrad"}, "robust cannot guard pcgrad"),
        ({"inner": "daloss", "inner_options": {"inner": "robust"}}, "robust cannot guard daloss"),
        ({"inner": "daloss", "inner_options": {"inner": "feddwa"}}, "robust cannot guard daloss"),
        ({"trim": 0.1}, "robust: trim is 0.1 with rule median; it belongs to trimmed_mean"),
        ({"rule": "trimmed_mean", "trim": 0.5}, "leaves nothing from 0.5 on"),
        ({"max_norm": 1.0}, "robust: max_norm belongs to the rule clip, but the rule is median"),
        ({"attackers": -1}, "attackers"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        from_tree(Robust, options)


@pytest.mark.parametrize(("rule", "need"), [("trimmed_mean", 3), ("krum", 5), ("multi_krum", 5), ("bulyan", 7)])
def test_a_fleet_too_small_for_the_rule_does_not_start(rule: str, need: int) -> None:
    strategy = Robust(rule=rule)
    text = f"robust: rule {rule} with attackers 1 needs {need} robots, but {need - 1} registered; lower attackers, "
    with pytest.raises(ConfigError, match=text):
        strategy.begin(state(pair((0.0, 0.0), 0.0), NAMES[: need - 1]))
    strategy.begin(state(pair((0.0, 0.0), 0.0), NAMES[:need]))


def poisoned(robot_id: str, weights: Weights, number: int) -> Weights:
    """Honest robots walk a little, the attacker far."""
    step = 1e6 if robot_id == "bad" else 0.1 + 0.01 * (ord(robot_id[0]) - ord("a"))
    return {n: (a + a.dtype.type(step) if n.startswith("a") or n == "b" else a) for n, a in weights.items()}


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "krum", "multi_krum"])
@pytest.mark.parametrize("inner", ["fedavg", "fedepth"])
def test_one_attacker_moves_no_model_of_a_cluster(rule: str, inner: str) -> None:
    """Two clusters of five; the attacker is in one of them."""
    places = {**{name: 0.1 * n for n, name in enumerate(NAMES[:5])}, "bad": 0.2}
    places |= {f"z{n}": 50.0 + 0.1 * n for n in range(5)}
    options = {"tau": 4.0} if inner == "fedepth" else {}
    strategy = Robust(rule=rule, inner=inner, inner_options=options)
    run = Fleet(strategy, robots(places), PAIR, pair((0.0, 0.0), 0.0), poisoned).begin().run(2)
    assert len(run.last.models) == (2 if inner == "fedepth" else 1)
    for key in run.last.models:
        assert np.abs(run.blobs[key]["a"]).max() < 2.0
    plain = Fleet(Robust(rule="clip", inner=inner, inner_options=options, max_norm=1e12), robots(places), PAIR,
                  pair((0.0, 0.0), 0.0), poisoned).begin().run(2)  # fmt: skip
    assert max(np.abs(plain.blobs[key]["a"]).max() for key in plain.last.models) > 1e4


DTYPES = ("float16", "float32", "float64", "int8", "int64", "uint8", "bool")
#: Integers are counters of a norm layer, the others parameters and a constant.
MODULES = {name: "BatchNorm1d" if "int" in name else "Linear" for name in DTYPES}
EVERY_DTYPE = ModelSignature(
    "types", tuple(TensorSpec(name, (5,), name, name.startswith("float"), name, MODULES[name]) for name in DTYPES)
)


def of_every_dtype(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    made = {name: rng.uniform(0.0, 50.0, 5).astype(name) for name in DTYPES}
    return {**made, "bool": np.array([True, False, True, True, False])}


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "krum", "multi_krum", "bulyan", "clip"])
def test_every_dtype_comes_back_and_no_order_of_arrival_changes_a_bit(rule: str) -> None:
    sent = [Update(name, 1, of_every_dtype(n + 1)) for n, name in enumerate(NAMES)]
    where = state(of_every_dtype(0), NAMES, EVERY_DTYPE)
    forth, back = ({n: r[GLOBAL] for n, r in Robust(rule=rule).aggregate(s, where).rows} for s in (sent, sent[::-1]))
    for name in DTYPES:
        assert forth[name].dtype == np.dtype(name) and forth[name].tobytes() == back[name].tobytes()


THREADS = """
import hashlib, numpy as np
from fed_core.strategies.robust import Robust
from fed_core.strategies.base import *
from fed_core.types import Memory, ModelSignature, TensorSpec
spec = TensorSpec("w", (400, 700), "float32")
draw = lambda n: {"w": np.random.default_rng(n).standard_normal(spec.shape).astype(np.float32)}
names = [f"r{n}" for n in range(7)]
plans = {n: RobotPlan(("global",)) for n in names}
state = ServerState(1, {n: RobotInfo(n, 1) for n in names}, Memory(), {"global": draw(99)},
                    ModelSignature("w", (spec,)), plans)
sent = [Update(name, 1, draw(n)) for n, name in enumerate(names)]
for rule in ("median", "trimmed_mean", "krum", "multi_krum", "bulyan", "clip"):
    for _, row in Robust(rule=rule).aggregate(sent, state).rows:
        print(rule, hashlib.sha256(row["global"].tobytes()).hexdigest())
"""


def test_no_number_of_threads_changes_a_bit() -> None:
    found = []
    for count in ("1", "2"):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count)
        done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60, check=True,
                              env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **threads})  # fmt: skip
        found.append(done.stdout)
    assert found[0] == found[1] and len(found[0].splitlines()) == 6
