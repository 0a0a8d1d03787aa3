import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.strategies.dynamic_weights import DIRECTIONS, dynamic_weights

TOLD = {"ana": 0.1, "bob": 0.3, "cho": 0.6}
SAMPLES = {"ana": 10, "bob": 30, "cho": 20}


def test_each_direction_by_hand() -> None:
    def weights(direction: str) -> list[float]:
        return list(dynamic_weights(TOLD, SAMPLES, direction).values())

    np.testing.assert_allclose(weights("increasing"), [0.1, 0.3, 0.6])
    np.testing.assert_allclose(weights("inverse"), np.array([6, 2, 1]) / 9, rtol=1e-6)
    raw = np.exp(-np.array([0.1, 0.3, 0.6]) * 3)
    np.testing.assert_allclose(weights("softmax_neg"), raw / raw.sum())
    np.testing.assert_allclose(weights("uniform"), [1 / 3] * 3)
    np.testing.assert_allclose(weights("size"), [1 / 6, 1 / 2, 1 / 3])


@pytest.mark.parametrize("direction", ["increasing", "inverse", "softmax_neg"])
def test_equal_models_fall_back_to_uniform(direction: str) -> None:
    assert dynamic_weights(dict.fromkeys(TOLD, 0.0), SAMPLES, direction) == pytest.approx(dict.fromkeys(TOLD, 1 / 3))
    assert dynamic_weights(dict.fromkeys(TOLD, 1e-13), SAMPLES, direction) == pytest.approx(dict.fromkeys(TOLD, 1 / 3))


def test_who_told_nothing_weighs_nothing_unless_weights_are_fixed() -> None:
    assert dynamic_weights({"bob": 2.0}, SAMPLES, "increasing") == {"bob": 1.0}
    assert dynamic_weights({}, SAMPLES, "inverse") == {}
    assert dynamic_weights({}, SAMPLES, "uniform") == pytest.approx(dict.fromkeys(TOLD, 1 / 3))


def test_the_cap_gives_what_is_above_to_the_others() -> None:
    assert dynamic_weights(TOLD, SAMPLES, "increasing", w_max=0.4) == pytest.approx(
        {"ana": 0.2, "bob": 0.4, "cho": 0.4}
    )
    np.testing.assert_allclose(
        list(dynamic_weights(TOLD, SAMPLES, "increasing", w_max=0.5).values()), [0.125, 0.375, 0.5]
    )
    assert dynamic_weights(TOLD, SAMPLES, "increasing", w_max=0.2) == pytest.approx(dict.fromkeys(TOLD, 1 / 3))
    alone = {"ana": 0.0, "bob": 0.0, "cho": 1.0}
    assert dynamic_weights(alone, SAMPLES, "increasing", w_max=0.5) == pytest.approx(
        {"ana": 0.25, "bob": 0.25, "cho": 0.5}
    )


@given(
    told=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=6),
    direction=st.sampled_from(DIRECTIONS),
    w_max=st.floats(0.0, 1.0),
    order=st.randoms(),
)
def test_weights_sum_to_one_keep_the_order_and_follow_the_robots(
    told: list[float], direction: str, w_max: float, order: object
) -> None:
    ids = [f"r{i}" for i in range(len(told))]
    samples = {r: i + 1 for i, r in enumerate(ids)}
    weights = dynamic_weights(dict(zip(ids, told, strict=True)), samples, direction, w_max=w_max)
    values = np.array(list(weights.values()))
    assert values.sum() == pytest.approx(1.0) and (values >= 0).all()
    assert values.max() <= max(w_max, 1 / len(ids)) + 1e-9
    sign = {"increasing": 1, "inverse": -1, "softmax_neg": -1}.get(direction, 0)
    ranked = values[np.argsort(told, kind="stable")]
    assert (np.diff(ranked) * sign >= -1e-12).all()
    # Robots that swap their divergences (and samples) swap their weights.
    shuffled = list(ids)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    renamed = dict(zip(ids, shuffled, strict=True))
    again = dynamic_weights(
        {renamed[r]: t for r, t in zip(ids, told, strict=True)},
        {renamed[r]: n for r, n in samples.items()}, direction, w_max=w_max,
    )  # fmt: skip
    for robot_id in ids:
        assert again[renamed[robot_id]] == pytest.approx(weights[robot_id], abs=1e-12)
