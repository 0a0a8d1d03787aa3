import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.study.report.verdicts import NO_DATA, NOT_REPRODUCED, REPRODUCED, UNDECIDED, combined, judge


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.02, 0.03, 0.04], REPRODUCED),
        ([0.001, 0.002, 0.09], UNDECIDED),  # all agree, but the mean 0.031 is below the sd 0.051
        ([0.02, -0.01, 0.03], UNDECIDED),
        ([-0.02, -0.01, -0.30], NOT_REPRODUCED),
        ([0.0, 0.0, 0.0], UNDECIDED),
        ([0.5], UNDECIDED),  # one seed decides nothing
        ([-0.5], UNDECIDED),
        ([], NO_DATA),
    ],
)
def test_verdict_of_differences(differences: list[float], verdict: str) -> None:
    assert judge(dict(enumerate(differences))) == verdict


@given(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=6))
def test_a_claim_and_its_opposite_never_both_hold(values: list[float]) -> None:
    one, other = judge(dict(enumerate(values))), judge({i: -v for i, v in enumerate(values)})

    assert (one, other) != (REPRODUCED, REPRODUCED)
    assert one != REPRODUCED or other == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([REPRODUCED, REPRODUCED], REPRODUCED),
        ([REPRODUCED, UNDECIDED], UNDECIDED),
        ([REPRODUCED, NO_DATA], UNDECIDED),
        ([REPRODUCED, NOT_REPRODUCED], NOT_REPRODUCED),
        ([NO_DATA, NO_DATA], NO_DATA),
        ([], NO_DATA),
    ],
)
def test_a_claim_holds_only_where_all_comparisons_hold(verdicts: list[str], verdict: str) -> None:
    assert combined(verdicts) == verdict
