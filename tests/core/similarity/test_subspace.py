"""Principal angles of fedepth spec 9 against hand-made subspaces and SciPy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from fed_core.errors import DataError, Refusal, RefusedError
from fed_core.similarity.subspace import Subspaces, affinity, angles, check, describe
from fed_core.types import Descriptor


def of(*rows: list[float], num_frames: int = 9, encoder: str = "enc") -> Descriptor:
    tensors = {f"direction{i}": np.array(row, np.float32) for i, row in enumerate(rows)}
    return Descriptor("subspace", tensors, num_frames, encoder)


def one(*rows: list[float]) -> Subspaces:
    return Subspaces.stack([of(*rows)])


def test_describe_takes_the_leading_directions_of_uncentred_unit_rows() -> None:
    pooled = np.array([[10.0, 0, 0, 0], [2.0, 0, 0, 0], [0, 5.0, 0, 0]])  # scaled, the first direction has weight 2
    out = describe(pooled, "enc")
    assert list(out.tensors) == ["direction0", "direction1"]  # two directions are all there is
    np.testing.assert_allclose(np.abs(out.tensors["direction0"]), [1, 0, 0, 0], atol=1e-7)
    np.testing.assert_allclose(np.abs(out.tensors["direction1"]), [0, 1, 0, 0], atol=1e-7)
    assert (out.kind, out.num_frames, out.encoder) == ("subspace", 3, "enc")
    check(out)


def test_describe_keeps_three_orthonormal_directions_of_many() -> None:
    out = describe(np.random.default_rng(0).uniform(0.1, 1.0, (40, 12)).astype(np.float32), "enc")
    basis = np.stack(list(out.tensors.values()))
    assert basis.shape == (3, 12) and basis.dtype == np.float32
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-6)


def test_constant_images_have_one_direction() -> None:
    pooled = np.tile(np.random.default_rng(1).uniform(0.1, 6.0, 50).astype(np.float32), (20, 1))
    pooled[::3] *= np.float32(1 + 1e-7)
    out = describe(pooled, "enc")
    assert list(out.tensors) == ["direction0"]
    check(out)


@pytest.mark.parametrize("pooled", [np.ones((1, 4)), np.ones(4)])
def test_describe_needs_two_frames(pooled: np.ndarray) -> None:
    with pytest.raises(DataError, match="needs at least 2 frames of pooled features"):
        describe(pooled, "enc")


def test_a_frame_without_features_has_no_direction() -> None:
    with pytest.raises(DataError, match="a frame's pooled features are all 0"):
        describe(np.array([[1.0, 0.0], [0.0, 0.0]]), "enc")


def test_angles_of_lines_in_the_plane() -> None:
    half = float(np.sqrt(0.5))
    for kind in ("principal", "entrywise", "sum"):
        assert angles(one([1, 0]), one([half, half]), kind)[0, 0] == pytest.approx(45.0, abs=1e-5)
        assert angles(one([1, 0]), one([-half, half]), kind)[0, 0] == pytest.approx(45.0, abs=1e-5)  # no sign
        assert angles(one([1, 0]), one([0, 1]), kind)[0, 0] == pytest.approx(90.0)


def test_the_three_angles_differ_where_bases_are_turned() -> None:
    half = float(np.sqrt(0.5))
    plane, turned = one([1, 0, 0], [0, 1, 0]), one([half, half, 0], [half, -half, 0])
    assert angles(plane, turned)[0, 0] == pytest.approx(0.0, abs=1e-3)  # the same plane
    assert angles(plane, turned, "entrywise")[0, 0] == pytest.approx(45.0, abs=1e-5)
    assert angles(plane, turned, "sum")[0, 0] == pytest.approx(90.0, abs=1e-5)
    crossing = one([1, 0, 0], [0, 0, 1])
    assert angles(plane, crossing)[0, 0] == pytest.approx(0.0)  # they share a line
    assert angles(plane, crossing, "sum")[0, 0] == pytest.approx(90.0)


def test_a_direction_that_only_one_has_counts_90_in_the_sum() -> None:
    assert angles(one([1, 0, 0]), one([1, 0, 0], [0, 1, 0]), "sum")[0, 0] == pytest.approx(90.0)
    assert angles(one([1, 0, 0]), one([1, 0, 0], [0, 1, 0]))[0, 0] == pytest.approx(0.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3))
def test_principal_is_the_smallest_angle_of_scipy_and_entrywise_no_smaller(seed: int, p: int, q: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (np.linalg.qr(rng.normal(size=(7, n)))[0] for n in (p, q))
    left, right = (one(*basis.T.tolist()) for basis in (first, second))
    found = angles(left, right)[0, 0]
    assert found == pytest.approx(np.degrees(subspace_angles(first, second).min()), abs=1e-3)
    assert angles(left, right, "entrywise")[0, 0] >= found - 1e-4
    for kind in ("principal", "entrywise", "sum"):
        np.testing.assert_allclose(angles(left, right, kind), angles(right, left, kind).T, atol=1e-5)


def test_affinity_is_symmetric_with_a_zero_diagonal_in_any_order() -> None:
    rng = np.random.default_rng(2)
    fleet = [describe(rng.uniform(0.1, 1.0, (8, 6)), "enc") for _ in range(70)]  # more than one block
    group, order = Subspaces.stack(fleet), rng.permutation(70)
    for kind in ("principal", "entrywise", "sum"):
        whole = affinity(group, kind)
        np.testing.assert_array_equal(whole, whole.T)
        np.testing.assert_array_equal(np.diag(whole), 0)
        np.testing.assert_allclose(affinity(group.take(order), kind), whole[np.ix_(order, order)], atol=1e-6)


def test_unknown_angle_is_named() -> None:
    with pytest.raises(DataError, match="angle is 'acute'; choose one of principal, entrywise, sum"):
        angles(one([1, 0]), one([1, 0]), "acute")


@pytest.mark.parametrize(
    ("descriptor", "text", "code"),
    [
        (replace(of([1.0, 0.0]), kind="gaussian"), "is of kind 'gaussian', this run needs 'subspace'", "WRONG_ENCODER"),
        (of([1.0, 0.0], encoder="other"), "of encoder 'other', the fleet uses 'enc'", "WRONG_ENCODER"),
        (of([1.0, 0.0], num_frames=1), r"comes from 1 frame\(s\); at least 2 are needed", "WRONG_TENSORS"),
        (of(), r"holds \[\]; expected direction0 to direction2 at most", "WRONG_TENSORS"),
        (of(*[[1.0, 0.0]] * 4), "expected direction0 to direction2 at most", "WRONG_TENSORS"),
        (of([1.0, 0.0, 0.0]), r"direction0 is float32 \(3,\); expected float32 \(2,\)", "WRONG_TENSORS"),
        (of([2.0, 0.0]), "direction0 has length 2; expected 1", "WRONG_TENSORS"),
        (of([0.0, 0.0]), "direction0 has length 0; expected 1", "WRONG_TENSORS"),
        (of([np.nan, 0.0]), "holds NaN or Inf", "NOT_FINITE"),
    ],
)
def test_broken_descriptors_are_refused(descriptor: Descriptor, text: str, code: str) -> None:
    with pytest.raises(RefusedError, match=text) as e:
        check(descriptor, encoder="enc", num_features=2, who="robot 'bob'")
    assert e.value.code is Refusal[code] and "robot 'bob'" in str(e.value)


def test_tensors_round_trip() -> None:
    group = Subspaces.stack([of([1.0, 0.0, 0.0]), of([0.0, 1.0, 0.0], [0.0, 0.0, 1.0])])
    back = Subspaces.from_tensors(group.to_tensors())
    np.testing.assert_array_equal(back.directions, group.directions)
    np.testing.assert_array_equal(back.append(back).take([3]).directions, group.directions[1:])
