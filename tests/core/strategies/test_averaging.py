"""Acceptance tests 7 and 9 of fedepth spec 15, and what happens to each kind of tensor."""

import tracemalloc
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.errors import StrategyError
from fed_core.strategies.averaging import Mixer, Rule, constants, linear, rule_of
from fed_core.types import Array, ModelSignature, TensorSpec
from tests.core.strategies.harness import SIGNATURE, Weights, assert_same, initial


def spec(name: str, shape: tuple[int, ...] = (2,), dtype: str = "float32", **more: object) -> TensorSpec:
    return TensorSpec(name, shape, dtype, **more)  # type: ignore[arg-type]


def norm_signature() -> ModelSignature:
    names = ("running_mean", "running_var")
    return ModelSignature(
        "norm", tuple(TensorSpec(f"bn.{n}", (2,), "float32", False, "bn", "BatchNorm2d") for n in names)
    )


def mix(signature: ModelSignature, sources: Mapping[str, Weights], shares: list[float], **how: str) -> Weights:
    rows = Mixer(signature, **how).rows(sources, {"k": np.array(shares)})  # type: ignore[arg-type]
    return {name: row["k"] for name, row in rows}


def test_rules_follow_type_and_module_not_names() -> None:
    buffer = {"trainable": False}
    assert rule_of(spec("w")) is Rule.MEAN
    assert rule_of(spec("bn", dtype="float64", module="BatchNorm2d", **buffer)) is Rule.MEAN
    assert rule_of(spec("a", (), "int64", module="BatchNorm2d", **buffer)) is Rule.MAXIMUM
    assert rule_of(spec("steps", (), "int64", module="Ema", **buffer)) is Rule.MAXIMUM
    assert rule_of(spec("num_batches_tracked", (4,), "int64", module="Table", **buffer)) is Rule.CONSTANT
    assert rule_of(spec("mask", (), "bool", **buffer)) is Rule.CONSTANT
    assert constants(SIGNATURE) == {"attention.index"}


def test_weighted_mean_by_hand() -> None:
    signature = ModelSignature("m", (spec("w"), spec("steps", (), "int64", trainable=False)))
    light = {"w": np.array([0, 4], np.float32), "steps": np.array(7)}
    heavy = {"w": np.array([4, 0], np.float32), "steps": np.array(5)}
    out = mix(signature, {"a": light, "b": heavy}, [0.25, 0.75])
    np.testing.assert_array_equal(out["w"], np.array([3, 1], np.float32))
    assert out["steps"] == 7 and out["w"].dtype == np.float32


def test_half_precision_is_summed_in_double() -> None:
    signature = ModelSignature("m", (spec("w", (1,), "float16"),))
    sources = {str(i): {"w": np.array([2049 + (i % 2) * 3], np.float16)} for i in range(1000)}
    out = mix(signature, sources, [1e-3] * 1000)["w"]
    assert out.dtype == np.float16
    values = [float(s["w"][0]) for s in sources.values()]
    assert out[0] == np.float16(np.mean(values))


@pytest.mark.parametrize("batchnorm", ["average", "moments"])
def test_equal_models_come_back_bit_by_bit(batchnorm: str) -> None:
    model = initial(3)
    out = mix(SIGNATURE, {"a": model, "b": model, "c": model}, [0.2, 0.3, 0.5], batchnorm=batchnorm)
    assert_same(out, model)


def test_moments_are_those_of_the_pooled_samples() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.normal(3.0, 1.0, (100, 2)), rng.normal(-1.0, 2.0, (300, 2))
    sources = {
        name: {"bn.running_mean": x.mean(0).astype(np.float32), "bn.running_var": x.var(0).astype(np.float32)}
        for name, x in (("few", few), ("many", many))
    }
    pooled = np.concatenate([few, many])
    out = mix(norm_signature(), sources, [0.25, 0.75], batchnorm="moments")
    np.testing.assert_allclose(out["bn.running_mean"], pooled.mean(0), rtol=1e-5)
    np.testing.assert_allclose(out["bn.running_var"], pooled.var(0), rtol=1e-5)
    plain = mix(norm_signature(), sources, [0.25, 0.75])
    assert (plain["bn.running_var"] < 0.7 * pooled.var(0)).all()


def test_moments_by_hand() -> None:
    one, zero, two = (np.full(2, x, np.float32) for x in (1, 0, 2))
    sources = {r: {"bn.running_mean": m, "bn.running_var": one} for r, m in (("a", zero), ("b", two))}
    out = mix(norm_signature(), sources, [0.5, 0.5], batchnorm="moments")
    np.testing.assert_array_equal(out["bn.running_var"], [2, 2])  # 1/2 (1 + 0) + 1/2 (1 + 4) - 1


def test_constants_must_agree() -> None:
    other = {**initial(), "attention.index": np.array([3, 2, 1, 0])}
    with pytest.raises(StrategyError, match="tensor 'attention.index' is a constant of the network, but 'a' and 'c'"):
        mix(SIGNATURE, {"a": initial(), "b": initial(), "c": other}, [0.3, 0.3, 0.4])


def test_a_private_tensor_is_averaged_over_those_who_share_it() -> None:
    signature = ModelSignature("m", (spec("w"), spec("head")))
    ones, nines = np.ones(2, np.float32), np.full(2, 9, np.float32)
    sources = {"a": {"w": ones, "head": ones}, "b": {"w": nines}, "c": {"w": ones, "head": nines}}
    out = mix(signature, sources, [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(out["w"], [5, 5])
    np.testing.assert_array_equal(out["head"], [5, 5])


def test_a_tensor_that_nobody_shares_goes_on_as_it_was() -> None:
    signature = ModelSignature("m", (spec("w"), spec("head"), spec("gone")))
    ones = np.ones(2, np.float32)
    old = {"k": {"w": ones, "head": ones * 5}}
    rows = dict(Mixer(signature).rows({"a": {"w": ones * 2}}, {"k": np.array([1.0]), "l": np.array([1.0])}, old))
    np.testing.assert_array_equal(rows["w"]["k"], [2, 2])
    np.testing.assert_array_equal(rows["head"]["k"], [5, 5])
    assert list(rows["head"]) == ["k"] and "gone" not in rows


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    signature = ModelSignature("m", (spec("w", (50, 100)),))
    rng = np.random.default_rng(1)
    sources = {str(i): {"w": rng.normal(size=(50, 100)).astype(np.float32)} for i in range(5)}
    shares = [0.1, 0.2, 0.3, 0.2, 0.2]
    whole = mix(signature, sources, shares)
    monkeypatch.setattr("fed_core.strategies.averaging._BLOCK", 1)
    assert_same(mix(signature, sources, shares), whole)
    naive = sum(p * s["w"].astype(np.float64) for p, s in zip(shares, sources.values(), strict=True))
    np.testing.assert_allclose(whole["w"], naive, rtol=1e-6, atol=1e-7)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_linear_is_the_matrix_product(counts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = rng.normal(size=(len(counts), 7))
    shares = np.array([counts, np.eye(len(counts))[0] * 3]) / [[sum(counts)], [3]]
    out = linear(block, shares)
    np.testing.assert_allclose(out, shares @ block, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(out[1], block[0])  # a single member comes back exactly


def test_absent_members_cannot_spoil_the_sum() -> None:
    block = np.array([[1.0], [np.inf]])
    assert linear(block, np.array([[1.0, 0.0]]))[0, 0] == 1.0


class CountingTensors(Mapping[str, Array]):
    """Makes each tensor at access, as a file would."""

    def __init__(self, names: tuple[str, ...], size: int) -> None:
        self.names, self.size, self.reads = names, size, 0

    def __getitem__(self, name: str) -> Array:
        self.reads += 1
        return np.ones(self.size, np.float32)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def test_holds_one_tensor_of_each_robot_and_reads_it_once() -> None:
    size, num_robots = 200_000, 8
    signature = ModelSignature("m", tuple(spec(f"w{i}", (size,)) for i in range(20)))
    sources = {str(r): CountingTensors(signature.names, size) for r in range(num_robots)}
    shares = {f"cluster/{k}": np.full(num_robots, 1 / num_robots) for k in range(3)}
    tracemalloc.start()
    for _name, _row in Mixer(signature).rows(sources, shares):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one_tensor, whole = 4 * size, 4 * size * 20
    assert all(source.reads == 20 for source in sources.values())
    # robots x one tensor, the new ones, and two 16 MB blocks in float64; all models together would be 128 MB
    assert peak < (num_robots + 2 * 3) * one_tensor + 6 * 16e6 < num_robots * whole
