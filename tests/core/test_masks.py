"""Units partition a network (fedcka spec 11.3), and both rules keep to their arithmetic (11.5)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.errors import ConfigError, StrategyError
from fed_core.masks import DIVISIONS, Division, Layer, Percentage, Threshold, divide
from fed_core.types import ModelSignature, TensorSpec
from tests.core.strategies.harness import SIGNATURE

NAN = math.nan


def spec(
    name: str, kind: str, shape: tuple[int, ...] = (2,), dtype: str = "float32", learns: bool = True
) -> TensorSpec:
    return TensorSpec(name, shape, dtype, learns, name.rpartition(".")[0], kind)


#: Convolution and norm, attention below a container, a table of references at the root, a constant.
NETWORK = ModelSignature(
    "net",
    (
        spec("queries", "Net", (5, 3)),
        spec("stem.0.weight", "Conv2d", (4, 3)),
        spec("stem.1.weight", "BatchNorm2d", (4,)),
        spec("stem.1.running_mean", "BatchNorm2d", (4,), learns=False),
        spec("stem.1.num_batches_tracked", "BatchNorm2d", (), "int64", learns=False),
        spec("decoder.attn.in_proj_weight", "MultiheadAttention", (6, 2)),
        spec("decoder.attn.out_proj.weight", "NonDynamicallyQuantizableLinear", (2, 2)),
        spec("decoder.linear.weight", "Linear", (2, 7)),
        spec("decoder.scale.table", "Scale", (3,), learns=False),
    ),
    modules={
        "stem": "Sequential",
        "stem.0": "Conv2d",
        "stem.1": "BatchNorm2d",
        "stem.2": "ReLU",
        "decoder": "FFN",
        "decoder.attn": "MultiheadAttention",
        "decoder.attn.out_proj": "NonDynamicallyQuantizableLinear",
        "decoder.linear": "Linear",
        "decoder.scale": "Scale",
    },
)


def plain(*sizes: int) -> Division:
    """Units of these sizes, each a layer."""
    names = tuple(f"l{i}" for i in range(len(sizes)))
    layers = tuple(Layer(name, (i,)) for i, name in enumerate(names))
    return Division(names, tuple((name,) for name in names), np.array(sizes, np.int64), layers, (), 0)


def none_of(division: Division) -> np.ndarray:
    return np.zeros(len(division.units), np.bool_)


@pytest.mark.parametrize("kind", DIVISIONS)
@pytest.mark.parametrize("signature", [NETWORK, SIGNATURE], ids=["net", "toy"])
def test_units_partition_all_floating_entries(kind: str, signature: ModelSignature) -> None:
    if kind == "released" and not signature.modules:
        with pytest.raises(StrategyError, match="'released' needs the modules of the network, but 'toy' names none"):
            divide(signature, kind)
        return
    division = divide(signature, kind)
    named = [name for unit in division.units for name in unit] + list(division.unscored)
    floating = [t for t in signature.tensors if t.is_floating]
    assert sorted(named) == sorted(t.name for t in floating)
    assert division.entries + division.rest == sum(math.prod(t.shape) for t in floating)
    assert len(division.names) == len(division.units) == len(division.sizes)
    assert {unit for layer in division.layers for unit in layer.units} == set(range(len(division.units)))


def test_owner_takes_attention_as_one_and_no_container() -> None:
    division = divide(NETWORK)
    assert division.names == ("", "stem.0", "stem.1", "decoder.attn", "decoder.linear")
    assert division.units[2] == ("stem.1.weight", "stem.1.running_mean")
    assert division.units[3] == ("decoder.attn.in_proj_weight", "decoder.attn.out_proj.weight")
    assert division.unscored == ("decoder.scale.table",) and division.rest == 3
    assert division.entries == 15 + 12 + 8 + 16 + 14


def test_block_joins_a_convolution_with_the_norm_after_it() -> None:
    division = divide(NETWORK, "block")
    assert division.names == ("", "stem.0", "decoder.attn", "decoder.linear")
    assert division.units[1] == ("stem.0.weight", "stem.1.weight", "stem.1.running_mean")
    assert [layer.name for layer in division.layers] == ["", "stem.1", "decoder.attn", "decoder.linear"]


def test_released_layers_overlap_and_a_bit_is_personal_with_any_ancestor() -> None:
    division = divide(NETWORK, "released")
    assert division.names == (
        "stem.0",
        "stem.1",
        "decoder.attn",
        "decoder.attn.out_proj",
        "decoder.linear",
        "decoder.scale",
    )
    assert "queries" in division.unscored
    layers = {layer.name: layer.units for layer in division.layers}
    assert layers["decoder"] == (2, 3, 4, 5)  # an FFN is hooked by its class
    assert layers["decoder.attn"] == (2, 3) and layers["decoder.linear"] == (4,)
    assert "stem" not in layers and "stem.2" not in layers and "decoder.scale" not in layers
    scores = np.array([0.1 if layer.name == "decoder.attn" else 0.9 for layer in division.layers])
    assert Threshold(0.5).choose(scores, division, none_of(division)).tolist() == [0, 0, 1, 1, 0, 0]
    scores = np.array([0.1 if layer.name == "decoder" else 0.9 for layer in division.layers])
    assert Threshold(0.5).choose(scores, division, none_of(division)).tolist() == [0, 0, 1, 1, 1, 1]


def test_an_unknown_division_is_refused() -> None:
    with pytest.raises(ConfigError, match="layers cannot be divided by 'tensor'; known: owner, released, block"):
        divide(NETWORK, "tensor")


def test_a_threshold_is_strict_and_starts_anew_each_round() -> None:
    division, rule = plain(1, 1, 1), Threshold(0.5)
    first = rule.choose(np.array([0.49, 0.5, NAN]), division, none_of(division))
    assert first.tolist() == [True, False, False]
    assert rule.choose(np.array([0.5, 0.2, NAN]), division, first).tolist() == [False, True, False]
    assert not Threshold(0.0).choose(np.zeros(3), division, first).any()
    assert rule.first_round() == 2 and rule.wants_scores(division, first)


def test_hysteresis_keeps_a_layer_until_its_score_is_well_above() -> None:
    division, rule = plain(1), Threshold(0.5, tau_high=0.7)
    mask, course = none_of(division), []
    for score in (0.6, 0.4, 0.6, 0.7, 0.71, 0.6, NAN):
        mask = rule.choose(np.array([score]), division, mask)
        course.append(bool(mask[0]))
    assert course == [False, True, True, True, False, False, False]
    with pytest.raises(ConfigError, match="the upper threshold 0.2 is below the lower one 0.5"):
        Threshold(0.5, tau_high=0.2)


def test_a_percentage_takes_the_lowest_scores_and_whole_layers() -> None:
    """P = 100, rho = 0.4: cap 40, step 2 of 20. The first step takes 10 entries for a budget of 2."""
    division, rule = plain(10, 1, 1, 30, 58), Percentage(0.4)
    scores = np.array([0.1, 0.3, 0.2, 0.4, 0.9])
    mask = none_of(division)
    taken = []
    for _ in range(4):
        mask = rule.choose(scores, division, mask)
        taken.append(division.personal_entries(mask))
    assert taken == [10, 12, 42, 42]
    assert not rule.wants_scores(division, mask) and rule.budget(division, mask) == -2
    assert division.ratio(mask) == 0.42


def test_a_skipping_percentage_leaves_out_layers_far_over_its_budget() -> None:
    division, rule = plain(10, 4, 1, 30, 55), Percentage(0.4, fit="skip")
    scores = np.array([0.1, 0.3, 0.2, 0.4, 0.9])
    # Budget 2: 10 > 4, skipped; 1 fits, leaves 1; 4 > 2, skipped; the others, too.
    assert rule.choose(scores, division, none_of(division)).tolist() == [False, False, True, False, False]


def test_ties_keep_the_order_of_the_network_and_layers_without_a_score_are_never_taken() -> None:
    division, rule = plain(*[5] * 20), Percentage(1.0, steps=10)
    tied = np.array([0.5] * 10 + [NAN] * 10)
    mask = rule.choose(tied, division, none_of(division))
    assert np.flatnonzero(mask).tolist() == [0, 1]
    for _ in range(20):
        mask = rule.choose(tied, division, mask)
    assert np.flatnonzero(mask).tolist() == list(range(10))


def test_budgets_are_exact_where_floats_are_not() -> None:
    division = plain(100)
    assert Percentage(0.29, steps=1).budget(division, none_of(division)) == 29  # 0.29 x 100 = 28.999999999999996
    assert Percentage(0.01).budget(plain(32_690_000), none_of(division)) == 16_345  # the released 0.0005 of P


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    rho=st.sampled_from([0.01, 0.1, 0.4]),
    seed=st.integers(0, 999),
)
def test_a_percentage_only_grows_and_stops_within_a_layer_of_its_cap(sizes: list[int], rho: float, seed: int) -> None:
    division, rule, rng = plain(*sizes), Percentage(rho), np.random.default_rng(seed)
    mask = none_of(division)
    for _ in range(60):
        if not rule.wants_scores(division, mask):
            break
        grown = rule.choose(rng.random(len(sizes)), division, mask)
        before, budget = division.personal_entries(mask), rule.budget(division, mask)
        assert (grown | mask).tolist() == grown.tolist()
        assert budget <= division.personal_entries(grown) - before < budget + max(sizes)
        mask = grown
    assert division.personal_entries(mask) < rho * division.entries + max(sizes)


def test_modules_travel_with_a_signature_and_change_no_digest() -> None:
    again = ModelSignature.from_json(NETWORK.to_json())
    bare = ModelSignature(NETWORK.architecture, NETWORK.tensors)
    assert list(again.modules.items()) == list(NETWORK.modules.items())
    assert again.digest == bare.digest == NETWORK.digest and again == bare
