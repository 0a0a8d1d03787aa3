"""Linear CKA: how alike two layers represent the same inputs (Kornblith et al. 2019, arXiv:1905.00414; fedcka spec 3).

Rows are samples, columns features; columns are centred first, everything is summed up in float64:

    CKA(X, Y) = |Xc' Yc|^2 / (|Xc' Xc| |Yc' Yc|), Frobenius norms

The same value comes from the Gram matrices Xc Xc' and Yc Yc'; whichever is cheaper is formed, block by block, so that
no float64 copy of a layer is held. The biased value of independent features is far above 0 where samples are few
(:func:`random_baseline`); the debiased estimator (Song et al. 2012) has no such floor and may fall below 0.

Every function takes NumPy arrays or PyTorch tensors on any device: only what both understand is used.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fed_core.errors import ConfigError

BIASED, DEBIASED = "biased", "debiased"
ESTIMATORS = (BIASED, DEBIASED)
#: Values of one layer that are converted to float64 at once: 128 KiB, which stay in the cache of a CPU; on a GPU, where
#: every call costs, 32 MiB.
_BLOCK, _GPU_BLOCK = 2**14, 2**22
#: Features whose variance is a smaller share of their square are constant up to rounding.
_CONSTANT = 1e-26


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
        x: features of the first layer; of any floating dtype. (m, n / m, p1) stands for m parts, one after the other,
            which need not lie so in memory.
        y: of the second; where one has more rows, its last ones are left out.
        estimator: "biased", in [0, 1], or "debiased", at most 1.
        form: "feature" or "gram" to force one; empty takes the cheaper.
    """
    check_estimator(estimator)
    n = min(num_rows(x), num_rows(y))
    if n <= 1 or not x.shape[-1] or not y.shape[-1]:
        return math.nan
    form = form or cheaper_form(n, x.shape[-1], y.shape[-1])
    if form == "gram" or estimator == DEBIASED or x.shape[:-1] != y.shape[:-1]:
        x, y = (part.reshape(-1, part.shape[-1])[:n] for part in (x, y))
    norms = (_gram_norms if form == "gram" else _feature_norms)(x, y)
    if norms.constant:
        return math.nan
    if estimator == BIASED:
        return _biased(norms.xx, norms.yy, norms.xy)
    r, q = _lengths(x), _lengths(y)
    rows = float(r.sum()), float(q.sum()), _square(r), _square(q), float(r @ q)
    return _debiased(_Sums(norms.xx, norms.yy, norms.xy, *rows, n))


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
    if sums.r <= _CONSTANT * n * r0 or sums.q <= _CONSTANT * n * q0:
        return math.nan
    return _biased(sums.xx, sums.yy, sums.xy) if estimator == BIASED else _debiased(sums)


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
    """Return "gram" where the two (n, n) matrices take less work than the one of all features."""
    return "gram" if n < p1 + p2 else "feature"


def num_rows(x: Any) -> int:
    """Return n of (n, p), or of parts (m, n / m, p)."""
    return math.prod(int(size) for size in x.shape[:-1])


def check_estimator(estimator: str) -> None:
    """Refuse an unknown estimator with a :class:`ConfigError`."""
    if estimator not in ESTIMATORS:
        raise ConfigError(f"no CKA estimator is called {estimator!r}; known: {', '.join(ESTIMATORS)}")


def _biased(left: float, right: float, cross: float) -> float:
    return min(max(_ratio(left, right, cross), 0.0), 1.0)


def _debiased(sums: _Sums) -> float:
    n = sums.n
    if n < 4:
        return math.nan
    cross = _hsic(sums.xy, sums.rq, sums.r * sums.q, n)
    left, right = _hsic(sums.xx, sums.rr, sums.r**2, n), _hsic(sums.yy, sums.qq, sums.q**2, n)
    return min(_ratio(left, right, cross), 1.0)


def _hsic(norm: float, products: float, totals: float, n: int) -> float:
    """Return n (n - 3) HSIC_1 of centred layers: there K1 of the matrix without its diagonal is minus the diagonal."""
    return norm - products + totals / ((n - 1) * (n - 2)) - 2.0 * products / (n - 2)


def _ratio(left: float, right: float, cross: float) -> float:
    if not (0.0 < left < math.inf and 0.0 < right < math.inf and math.isfinite(cross)):
        return math.nan
    return cross / (math.sqrt(left) * math.sqrt(right))


class _Norms(NamedTuple):
    """|Xc'Xc|^2, |Yc'Yc|^2, |Xc'Yc|^2; and whether a layer is constant up to rounding."""

    xx: float
    yy: float
    xy: float
    constant: bool


def _feature_norms(x: Any, y: Any) -> _Norms:
    """Return the norms from the products of all features, summed over blocks of rows.

    Rows are taken from a mean of the first block, and the sums put right at the end: one pass is enough, and the loss
    of digits is at most that of as many sums as there are blocks.
    """
    n, p, width = num_rows(x), x.shape[-1], x.shape[-1] + y.shape[-1]
    step = max(1, _at_once(x) // width)
    block = _buffer(x[0] if x.ndim == 3 else x, min(n, step), width)
    products: Any = 0.0
    totals: Any = 0.0
    shift: Any = None
    for left, right in _blocks(x, y, step):
        rows = block[: len(left)]
        rows[:, :p] = left
        rows[:, p:] = right
        first = shift is None
        if first:
            shift = rows.sum(0) / len(rows)
        rows -= shift
        if n > len(rows):
            totals = totals + rows.sum(0)
        if first:
            products = rows.T @ rows
        else:
            products += rows.T @ rows
    if n > step or x.ndim == 3:
        products -= totals[:, None] * (totals / n)[None]
    mean, lengths = shift + totals / n, products.diagonal()
    constant = _constant(lengths[:p], mean[:p], n) or _constant(lengths[p:], mean[p:], n)
    return _Norms(_square(products[:p, :p]), _square(products[p:, p:]), _square(products[:p, p:]), constant)


def _blocks(x: Any, y: Any, step: int) -> Iterator[tuple[Any, Any]]:
    """Yield at most ``step`` rows of both at a time; a block lies in one part."""
    for left, right in zip(x, y, strict=True) if x.ndim == 3 else ((x, y),):
        for low in range(0, len(left), step):
            yield left[low : low + step], right[low : low + step]


def _gram_norms(x: Any, y: Any) -> _Norms:
    """Return the norms from the (n, n) matrices, summed over blocks of features."""
    (k, constant_x), (m, constant_y) = _gram(x), _gram(y)
    k, m = k.reshape(-1), m.reshape(-1)
    return _Norms(float(k @ k), float(m @ m), float(k @ m), constant_x or constant_y)


def _gram(x: Any) -> tuple[Any, bool]:
    gram: Any = 0.0
    means: Any = 0.0
    step = max(1, _at_once(x) // len(x))
    for low in range(0, x.shape[1], step):
        block = _wide(x[:, low : low + step])
        mean = block.sum(0) / len(block)
        block = block - mean
        gram = block @ block.T if low == 0 else gram + block @ block.T
        means = means + mean @ mean
    return gram, bool(gram.diagonal().sum() <= _CONSTANT * len(x) * means)


def _lengths(x: Any) -> Any:
    """Return the squared lengths (n,) of the centred rows."""
    total: Any = 0.0
    step = max(1, _at_once(x) // len(x))
    for low in range(0, x.shape[1], step):
        block = _wide(x[:, low : low + step])
        block = block - block.mean(0)
        total = total + (block * block).sum(1)
    return total


def _at_once(x: Any) -> int:
    return _GPU_BLOCK if getattr(x, "is_cuda", False) else _BLOCK


def _buffer(like: Any, rows: int, columns: int) -> Any:
    """Return an empty (rows, columns) float64 array, in memory as ``like`` lies: rows or columns together."""
    strides = like.stride() if hasattr(like, "stride") else like.strides
    turned = strides[0] < strides[1]
    shape = (columns, rows) if turned else (rows, columns)
    made = like[:0].double().new_empty(shape) if hasattr(like, "double") else np.empty(shape)
    return made.T if turned else made


def _constant(lengths: Any, mean: Any, n: int) -> bool:
    """Tell whether centred rows are nothing but rounding; ``lengths`` sum up to the square of all their values."""
    return bool(lengths.sum() <= _CONSTANT * n * (mean @ mean))


def _common(a: Any, b: Any) -> tuple[Any, Any]:
    """Return where the cells that both hold stand in ``a`` and in ``b``."""
    left, right = (cells.cpu().numpy() if hasattr(cells, "cpu") else cells for cells in (a, b))
    if np.array_equal(left, right):
        return slice(None), slice(None)
    _, in_left, in_right = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    return in_left, in_right


def _square(x: Any) -> float:
    flat = x.reshape(-1)
    return float(flat @ flat)


def _wide(x: Any) -> Any:
    return x.double() if hasattr(x, "double") else np.asarray(x, np.float64)
