"""CKA against its definition, its invariances (fedcka spec 11.1), the sparse rule (11.2) and the rules for NaN."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.errors import ConfigError
from fed_core.similarity.cka import (
    SparseRows,
    cheaper_form,
    cka,
    mean_over_frames,
    random_baseline,
    sparse_cka,
)

both = pytest.mark.parametrize("estimator", ["biased", "debiased"])


def naive(x: np.ndarray, y: np.ndarray) -> float:
    """The definition by the centring matrix."""
    n = len(x)
    h = np.eye(n) - np.ones((n, n)) / n
    k, m = h @ (x @ x.T) @ h, h @ (y @ y.T) @ h
    return float(np.trace(k @ m) / math.sqrt(np.trace(k @ k) * np.trace(m @ m)))


def naive_debiased(x: np.ndarray, y: np.ndarray) -> float:
    """HSIC_1 term by term, as the spec writes it."""
    n, one = len(x), np.ones(len(x))
    k, m = x @ x.T, y @ y.T
    np.fill_diagonal(k, 0.0)
    np.fill_diagonal(m, 0.0)

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        inner = np.trace(a @ b) + (one @ a @ one) * (one @ b @ one) / ((n - 1) * (n - 2))
        return float(inner - 2 / (n - 2) * (one @ a @ b @ one)) / (n * (n - 3))

    return hsic(k, m) / math.sqrt(hsic(k, k) * hsic(m, m))


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_by_hand() -> None:
    """Xc = (-1, 0, 1), Yc = (-1, 1, 0): |Xc'Yc|^2 = 1 over 2 times 2."""
    assert cka(np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [2.0]])) == pytest.approx(0.25, abs=1e-15)


@both
@settings(max_examples=25, deadline=None)
@given(n=st.integers(5, 40), p=st.integers(1, 30), q=st.integers(1, 30), seed=st.integers(0, 99))
def test_both_forms_are_the_definition(estimator: str, n: int, p: int, q: int, seed: int) -> None:
    x = draw(n, p, seed=seed) + 3.0
    y = x[:, :1] + draw(n, q, seed=seed + 1)
    wanted = naive(x, y) if estimator == "biased" else min(naive_debiased(x, y), 1.0)
    feature, gram = (cka(x, y, estimator, form) for form in ("feature", "gram"))
    assert feature == pytest.approx(gram, abs=1e-10)
    assert feature == pytest.approx(wanted, abs=1e-9)


@both
def test_identical_is_one_and_symmetric(estimator: str) -> None:
    x, y = draw(60, 7), draw(60, 9, seed=1)
    assert cka(x, x, estimator) == pytest.approx(1.0, abs=1e-12)
    assert cka(x, y, estimator) == pytest.approx(cka(y, x, estimator), abs=1e-14)


@both
def test_orthogonal_maps_and_scale_change_nothing_but_linear_maps_do(estimator: str) -> None:
    x, y = draw(50, 6) @ np.diag([5.0, 3, 2, 1, 1, 1]), draw(50, 6, seed=1)
    y = y + x
    turn, _ = np.linalg.qr(draw(6, 6, seed=2))
    bent = np.diag([0.01, 1.0, 1.0, 3.0, 10.0, 30.0])
    assert cka(x @ turn * 7.5 + 2.0, y, estimator) == pytest.approx(cka(x, y, estimator), abs=1e-11)
    assert abs(cka(x @ bent, y, estimator) - cka(x, y, estimator)) > 0.05


@pytest.mark.parametrize(("n", "p"), [(128, 64), (256, 300), (128, 900)])
def test_debiased_value_of_independent_features_is_zero(n: int, p: int) -> None:
    found = [cka(draw(n, p, seed=2 * i), draw(n, p, seed=2 * i + 1), "debiased") for i in range(20)]
    assert abs(np.mean(found)) < 0.02


@pytest.mark.parametrize(
    ("n", "p", "told"), [(128, 900, 0.88), (250, 2048, 0.89), (250, 512, 0.67), (1000, 256, 0.20), (900, 128, 0.13)]
)
def test_biased_value_of_independent_features_is_the_baseline(n: int, p: int, told: float) -> None:
    assert random_baseline(n, p, p) == pytest.approx(told, abs=0.01)
    assert cka(draw(n, p), draw(n, p, seed=1)) == pytest.approx(random_baseline(n, p, p), abs=0.02)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = draw(70, 11).astype(np.float32), draw(70, 5, seed=1).astype(np.float32)
    whole = [cka(x, y, form=form) for form in ("feature", "gram")]
    monkeypatch.setattr("fed_core.similarity.cka._BLOCK", 40)
    assert [cka(x, y, form=form) for form in ("feature", "gram")] == pytest.approx(whole, abs=1e-13)


def test_the_gram_form_is_taken_where_samples_are_few() -> None:
    assert cheaper_form(40, 256, 256) == "gram"
    assert cheaper_form(127, 64, 64) == "gram"
    assert cheaper_form(128, 64, 64) == "feature"


@both
def test_undefined_values_are_nan(estimator: str) -> None:
    x = draw(20, 3)
    assert math.isnan(cka(x[:1], x[:1], estimator))
    assert math.isnan(cka(np.full((20, 3), 0.1), x, estimator))
    assert math.isnan(cka(x, np.zeros((20, 2)), estimator))
    assert math.isnan(cka(np.where(np.arange(20)[:, None] == 3, np.nan, x), x, estimator))
    assert math.isnan(cka(x[:, :0], x, estimator))


def test_the_debiased_value_needs_four_samples() -> None:
    x = draw(4, 3)
    assert math.isnan(cka(x[:3], x[:3], "debiased")) and cka(x, x, "debiased") == pytest.approx(1.0)


def test_more_rows_on_one_side_are_left_out() -> None:
    x, y = draw(30, 4), draw(25, 4, seed=1)
    assert cka(x, y) == cka(x[:25], y)


def test_the_mean_leaves_out_frames_without_a_value() -> None:
    assert mean_over_frames([0.25, math.nan, 0.75]) == 0.5
    assert math.isnan(mean_over_frames([math.nan, math.nan]))


def test_an_unknown_estimator_is_refused() -> None:
    with pytest.raises(ConfigError, match="no CKA estimator is called 'best'; known: biased, debiased"):
        cka(draw(5, 2), draw(5, 2), "best")


@both
@pytest.mark.parametrize("dense", [(30, 30), (20, 25), (3, 4)])
@pytest.mark.parametrize("overlap", ["same", "some", "none"])
def test_the_sparse_rule_is_the_formula_on_a_grid_with_zeros(
    estimator: str, dense: tuple[int, int], overlap: str
) -> None:
    rng, volume = np.random.default_rng(0), 96  # 2 x 3 x 4 x 4 cells
    order = rng.permutation(volume)
    cells_a = order[: dense[0]]
    cells_b = {"same": cells_a[::-1], "some": order[2 : dense[1] + 2], "none": order[-dense[1] :]}[overlap]
    a, b = rng.normal(1.0, 1.0, (len(cells_a), 5)), rng.normal(0.5, 2.0, (len(cells_b), 7))
    grid_a, grid_b = np.zeros((volume, 5)), np.zeros((volume, 7))
    grid_a[cells_a], grid_b[cells_b] = a, b
    found = sparse_cka(SparseRows(a, cells_a, volume), SparseRows(b, cells_b, volume), estimator)
    assert found == pytest.approx(cka(grid_a, grid_b, estimator), abs=1e-12)


def test_a_grid_without_active_cells_has_no_value() -> None:
    none = SparseRows(np.zeros((0, 3)), np.zeros(0, np.int64), 50)
    some = SparseRows(draw(9, 3), np.arange(9), 50)
    assert math.isnan(sparse_cka(none, some)) and math.isnan(sparse_cka(some, none))


def test_tensors_give_what_arrays_give() -> None:
    torch = pytest.importorskip("torch")
    x, y = draw(40, 6).astype(np.float32), draw(40, 3, seed=1).astype(np.float32)
    for form in ("feature", "gram"):
        assert cka(torch.tensor(x), torch.tensor(y), form=form) == pytest.approx(cka(x, y, form=form), abs=1e-12)
    cells = np.arange(40)
    a, b = SparseRows(torch.tensor(x), torch.tensor(cells), 90), SparseRows(torch.tensor(y), torch.tensor(cells), 90)
    wanted = sparse_cka(SparseRows(x, cells, 90), SparseRows(y, cells, 90))
    assert sparse_cka(a, b) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("estimator", ["biased", "debiased"])
@pytest.mark.parametrize("lengths", [(3, 700), (5, 4), (1, 9)])
def test_parts_are_rows_one_after_the_other(lengths: tuple[int, int], estimator: str) -> None:
    rng = np.random.default_rng(0)
    maps = [rng.normal(2.0, 1.0, (lengths[0], width, lengths[1])).astype(np.float32) for width in (6, 9)]
    x, y = (each.swapaxes(1, 2) for each in maps)
    whole = [np.ascontiguousarray(each).reshape(-1, each.shape[-1]) for each in (x, y)]
    assert cka(x, y, estimator) == pytest.approx(cka(*whole, estimator), abs=1e-12)
    assert cka(x, whole[1], estimator) == pytest.approx(cka(*whole, estimator), abs=1e-12)
