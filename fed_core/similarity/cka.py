"""Linear CKA: how alike two layers represent the same inputs (Kornblith et al. 2019, arXiv:1905.00414; fedcka spec 3).

Rows are samples, columns features; columns are centred first, everything is summed up in float64:

    CKA(X, Y) = |Xc' Yc|^2 / (|Xc' Xc| |Yc' Yc|), Frobenius norms

The same value comes from the Gram matrices Xc Xc' and Yc Yc'; whichever is cheaper is formed, block by block, so that
no float64 copy of a layer is held. The biased value of independent features is far above 0 where samples are few
(:func:`random_baseline`); the debiased estimator (Song et al. 2012) has no such floor and may fall below 0.

Every function takes NumPy arrays or PyTorch tensors on any device: only what both understand is used.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fed_core.errors import ConfigError

BIASED, DEBIASED = "biased", "debiased"
ESTIMATORS = (BIASED, DEBIASED)
#: Values of one layer that are converted to float64 at once (2 MB).
_BLOCK = 2**18
#: Features whose variance is a smaller share of their square are constant up to rounding.
_CONSTANT = 1e-26

_Norms: TypeAlias = tuple[float, float, float]
_Rows: TypeAlias = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class SparseRows:
    """Active cells of a grid that is zero elsewhere.

    Attributes:
        features: (N, C) values of the active cells.
        cells: (N,) int64 flat indices of the cells in the grid, each once.
        volume: cells of the whole grid, the inactive ones included.
    """

    features: Any
    cells: Any
    volume: int


@dataclass(frozen=True)
class _Sums:
    """What both estimators need of two centred layers; r and q are the squared lengths of their rows.

    Attributes:
        xx, yy, xy: |Xc'Xc|^2, |Yc'Yc|^2, |Xc'Yc|^2.
        r, q, rr, qq, rq: sums over the rows of r, q and their products.
        n: rows.
    """

    xx: float
    yy: float
    xy: float
    r: float
    q: float
    rr: float
    qq: float
    rq: float
    n: int


def cka(x: Any, y: Any, estimator: str = BIASED, form: str = "") -> float:
    """Return the CKA of x (n, p1) and y (n, p2); NaN where it is not defined.

    Args:
        x: features of the first layer; of any floating dtype.
        y: of the second; where one has more rows, its last ones are left out.
        estimator: "biased", in [0, 1], or "debiased", at most 1.
        form: "feature" or "gram" to force one; empty takes the cheaper.
    """
    check_estimator(estimator)
    n = min(len(x), len(y))
    if n <= 1 or not x.shape[1] or not y.shape[1]:
        return math.nan
    x, y = x[:n], y[:n]
    means = _mean(x), _mean(y)
    form = form or cheaper_form(n, x.shape[1], y.shape[1])
    norms, rows = _gram_norms(x, y, means) if form == "gram" else _feature_norms(x, y, means)
    if _constant(rows[0], means[0], n) or _constant(rows[1], means[1], n):
        return math.nan
    return _value(_Sums(*norms, *rows, n), estimator)


def sparse_cka(a: SparseRows, b: SparseRows, estimator: str = BIASED) -> float:
    """Return the CKA of two grids with zeros at their inactive cells (fedcka spec 3, sparse rule).

    Args:
        a: active cells of the first layer.
        b: of the second, on a grid as large.
        estimator: "biased" or "debiased".
    """
    check_estimator(estimator)
    n = min(a.volume, b.volume)
    if n <= 1 or not len(a.cells) or not len(b.cells):
        return math.nan
    fa, fb = _wide(a.features), _wide(b.features)
    sa, sb = fa.sum(0), fb.sum(0)
    left, right = _common(a.cells, b.cells)
    common_a, common_b = fa[left], fb[right]
    norms = (
        _square(fa.T @ fa - sa[:, None] * sa[None] / n),
        _square(fb.T @ fb - sb[:, None] * sb[None] / n),
        _square(common_a.T @ common_b - sa[:, None] * sb[None] / n),
    )
    mean_a, mean_b = sa / n, sb / n
    r, q = ((fa - mean_a) ** 2).sum(1), ((fb - mean_b) ** 2).sum(1)
    r0, q0 = _square(mean_a), _square(mean_b)  # of an inactive cell
    only_a, only_b = n - len(fa), n - len(fb)
    both = float((r[left] * q[right]).sum())
    alone_a, alone_b = float(r.sum() - r[left].sum()), float(q.sum() - q[right].sum())
    neither = n - len(fa) - len(fb) + len(common_a)
    sums = _Sums(
        *norms,
        r=float(r.sum()) + only_a * r0,
        q=float(q.sum()) + only_b * q0,
        rr=_square(r) + only_a * r0**2,
        qq=_square(q) + only_b * q0**2,
        rq=both + alone_a * q0 + alone_b * r0 + neither * r0 * q0,
        n=n,
    )
    if _constant(sums.r, mean_a, n) or _constant(sums.q, mean_b, n):
        return math.nan
    return _value(sums, estimator)


def random_baseline(n: int, p1: int, p2: int) -> float:
    """Return what the biased CKA of independent features is about, for n rows of p1 and p2 isotropic columns."""
    if n <= 1:
        return math.nan
    return math.sqrt(p1 * p2 / ((n + p1) * (n + p2)))


def mean_over_frames(values: Any) -> float:
    """Return the mean of the finite values; NaN where there is none."""
    finite = [float(value) for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def cheaper_form(n: int, p1: int, p2: int) -> str:
    """Return "gram" where the (n, n) matrices cost fewer products than the (p, p) ones."""
    return "gram" if n * (p1 + p2) < p1 * p1 + p2 * p2 + p1 * p2 else "feature"


def check_estimator(estimator: str) -> None:
    """Refuse an unknown estimator with a :class:`ConfigError`."""
    if estimator not in ESTIMATORS:
        raise ConfigError(f"no CKA estimator is called {estimator!r}; known: {', '.join(ESTIMATORS)}")


def _value(sums: _Sums, estimator: str) -> float:
    n = sums.n
    if estimator == BIASED:
        cross, left, right = sums.xy, sums.xx, sums.yy
    elif n < 4:
        return math.nan
    else:
        cross = _debiased(sums.xy, sums.rq, sums.r * sums.q, n)
        left = _debiased(sums.xx, sums.rr, sums.r * sums.r, n)
        right = _debiased(sums.yy, sums.qq, sums.q * sums.q, n)
    if not (left > 0.0 and right > 0.0 and math.isfinite(left) and math.isfinite(right) and math.isfinite(cross)):
        return math.nan
    value = cross / (math.sqrt(left) * math.sqrt(right))
    return min(max(value, 0.0), 1.0) if estimator == BIASED else min(value, 1.0)


def _debiased(norm: float, products: float, totals: float, n: int) -> float:
    """Return n (n - 3) HSIC_1 of centred layers, where K1 of the matrices without diagonal is minus the diagonal."""
    return norm - products + totals / ((n - 1) * (n - 2)) - 2.0 * products / (n - 2)


def _feature_norms(x: Any, y: Any, means: tuple[Any, Any]) -> tuple[_Norms, _Rows]:
    """Return the squared norms of the (p, p) matrices, and the sums over the rows."""
    xx: Any = 0.0
    yy: Any = 0.0
    xy: Any = 0.0
    rows = np.zeros(5)
    step = max(1, _BLOCK // max(x.shape[1], y.shape[1]))
    for low in range(0, len(x), step):
        left, right = _wide(x[low : low + step]) - means[0], _wide(y[low : low + step]) - means[1]
        xx, yy, xy = xx + left.T @ left, yy + right.T @ right, xy + left.T @ right
        rows += _row_sums((left * left).sum(1), (right * right).sum(1))
    return (_square(xx), _square(yy), _square(xy)), (rows[0], rows[1], rows[2], rows[3], rows[4])


def _gram_norms(x: Any, y: Any, means: tuple[Any, Any]) -> tuple[_Norms, _Rows]:
    """Return the same from the (n, n) matrices, summed over blocks of features."""
    k, m = _gram(x, means[0]), _gram(y, means[1])
    norms = _square(k), _square(m), float((k * m).sum())
    return norms, _row_sums(k.diagonal(), m.diagonal())


def _gram(x: Any, mean: Any) -> Any:
    gram: Any = 0.0
    step = max(1, _BLOCK // len(x))
    for low in range(0, x.shape[1], step):
        block = _wide(x[:, low : low + step]) - mean[low : low + step]
        gram = gram + block @ block.T
    return gram


def _row_sums(r: Any, q: Any) -> _Rows:
    return float(r.sum()), float(q.sum()), _square(r), _square(q), float((r * q).sum())


def _mean(x: Any) -> Any:
    total: Any = 0.0
    step = max(1, _BLOCK // x.shape[1])
    for low in range(0, len(x), step):
        total = total + _wide(x[low : low + step]).sum(0)
    return total / len(x)


def _constant(rows: float, mean: Any, n: int) -> bool:
    """Tell whether the centred rows are nothing but rounding."""
    return rows <= _CONSTANT * n * _square(mean)


def _common(a: Any, b: Any) -> tuple[Any, Any]:
    """Return where the cells that both hold stand in ``a`` and in ``b``."""
    left, right = (cells.cpu().numpy() if hasattr(cells, "cpu") else cells for cells in (a, b))
    if np.array_equal(left, right):
        return slice(None), slice(None)
    _, in_left, in_right = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    return in_left, in_right


def _square(x: Any) -> float:
    return float((x * x).sum())


def _wide(x: Any) -> Any:
    return x.double() if hasattr(x, "double") else np.asarray(x, np.float64)
