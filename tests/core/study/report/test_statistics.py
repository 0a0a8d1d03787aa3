import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.study.report.statistics import (
    late_deviation,
    paired,
    rounds_to_best,
    rounds_to_level,
    spread,
)

CURVE = [(1, 0.8), (2, 0.5), (3, 0.42), (4, 0.40), (5, 0.44), (6, 0.41)]
ERRORS = st.floats(0.01, 10.0)


def test_spread_uses_the_sample_standard_deviation() -> None:
    found = spread([0.30, 0.32, 0.34])

    assert found.mean == pytest.approx(0.32)
    assert found.sd == pytest.approx(0.02)
    assert found.text() == "0.320 ± 0.020"


def test_one_seed_has_no_spread_and_none_has_no_mean() -> None:
    assert spread([0.25]).text() == "0.250"
    assert spread([]).text() == "–"
    assert math.isnan(spread([]).mean)


def test_short_text_drops_a_spread_of_zero_only() -> None:
    assert spread([6.0, 6.0]).short(1) == "6.0"
    assert spread([6.0, 6.0]).text(1) == "6.0 ± 0.0"
    assert spread([5.0, 7.0]).short(1) == "6.0 ± 1.4"


def test_large_figures_keep_five_places_and_zero_has_no_sign() -> None:
    assert spread([1232.529, 1232.529]).text() == "1232.5 ± 0.0"
    assert spread([12.3456]).text() == "12.346"
    assert spread([123456.7]).text() == "123457"
    assert spread([-0.0001]).text() == "0.000"
    assert spread([-0.0001]).rounded() == 0.0


@given(st.lists(ERRORS, min_size=2, max_size=8))
def test_spread_agrees_with_the_standard_library(values: list[float]) -> None:
    found = spread(values)

    assert found.mean == pytest.approx(statistics.mean(values))
    assert found.sd == pytest.approx(statistics.stdev(values), abs=1e-9)


def test_differences_are_of_seeds_that_both_have() -> None:
    assert paired({0: 0.5, 1: 0.7, 3: 0.1}, {0: 0.25, 1: 0.2, 2: 0.9}) == pytest.approx({0: 0.25, 1: 0.5})
    assert paired({0: 1.0}, {1: 1.0}) == {}


def test_round_near_the_own_best() -> None:
    # Best 0.40, so the bound is 0.42.
    assert rounds_to_best(CURVE) == 3
    assert rounds_to_best(CURVE, share=0.0) == 4
    assert rounds_to_best([]) is None


def test_round_at_a_level_and_never() -> None:
    assert rounds_to_level(CURVE, 0.5) == 2
    assert rounds_to_level(CURVE, 0.1) == 7
    assert rounds_to_level([], 0.1) is None


def test_late_deviation_is_of_the_last_third() -> None:
    # The last two of six rounds: 0.44 and 0.41, sd = 0.03 / sqrt(2).
    assert late_deviation(CURVE) == pytest.approx(0.03 / math.sqrt(2))
    # Seven rounds: a third rounded up is three.
    assert late_deviation([*CURVE, (7, 0.38)]) == pytest.approx(0.03)
    # Of fewer than six at least two.
    assert late_deviation(CURVE[:3]) == pytest.approx(0.08 / math.sqrt(2))
    assert late_deviation(CURVE[:1]) is None


@given(st.lists(ERRORS, min_size=1, max_size=20))
def test_a_curve_reaches_its_own_best_within_its_rounds(values: list[float]) -> None:
    curve = list(enumerate(values, 1))

    found = rounds_to_best(curve)

    assert found is not None and 1 <= found <= len(values)
    assert rounds_to_level(curve, min(values)) == values.index(min(values)) + 1
