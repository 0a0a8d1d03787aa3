import numpy as np
import pytest
import torch

from fed_core.errors import Refusal, WireError
from fed_core.types import Array, ModelSignature
from fed_models import build, load_arrays, signature, state_arrays

SMALL = {"adabins_lite0": {"pretrained": False}}
#: The paper-size ones are hundreds of megabytes.
TRAINABLE_HERE = ["adabins_lite0", "adabins_s", "dcdepth_s", "newcrfs_s"]


def make(name: str, seed: int = 0) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(name, SMALL.get(name, {}))


@pytest.mark.parametrize("name", TRAINABLE_HERE)
def test_the_signature_tells_every_tensor_in_order(name: str) -> None:
    network = make(name)

    told = signature(network, name)

    state = network.state_dict()
    assert told.names == tuple(state) and told.architecture == name
    assert [t.shape for t in told.tensors] == [tuple(v.shape) for v in state.values()]
    assert {t.name for t in told.tensors if t.trainable} == {n for n, _ in network.named_parameters()}
    assert ModelSignature.from_json(told.to_json()) == told


def test_the_signature_tells_owners_and_module_classes() -> None:
    told = {t.name: t for t in signature(make("adabins_s"), "adabins_s").tensors}

    mean = told["encoder.stem.1.running_mean"]
    assert (mean.trainable, mean.owner, mean.module, mean.dtype) == (False, "encoder.stem.1", "BatchNorm2d", "float32")
    assert told["encoder.stem.1.num_batches_tracked"].dtype == "int64"
    assert (told["vit.positions"].module, told["bin_scores.weight"].module) == ("MiniVit", "Conv2d")


@pytest.mark.parametrize("name", TRAINABLE_HERE)
def test_states_round_trip_bit_by_bit(name: str) -> None:
    first, second = make(name, 0), make(name, 1)
    arrays = state_arrays(first)

    load_arrays(second, arrays)

    for key, array in state_arrays(second).items():
        assert array.dtype == arrays[key].dtype and np.array_equal(array, arrays[key]), key
    assert {k: (v.shape, v.dtype.name) for k, v in arrays.items()} == {
        t.name: (t.shape, t.dtype) for t in signature(first, name).tensors
    }


def test_the_same_seed_builds_the_same_network_and_leaves_the_generator_alone() -> None:
    before = torch.random.get_rng_state()

    one, two, other = (state_arrays(make("adabins_s", seed)) for seed in (3, 3, 4))

    assert all(np.array_equal(one[k], two[k]) for k in one)
    assert not np.array_equal(one["bin_scores.weight"], other["bin_scores.weight"])
    assert torch.equal(before, torch.random.get_rng_state())


def test_state_arrays_are_copies() -> None:
    network = make("adabins_s")
    arrays = state_arrays(network)

    arrays["bin_scores.bias"] += 1.0

    assert not np.array_equal(network.state_dict()["bin_scores.bias"].numpy(), arrays["bin_scores.bias"])


def broken(change: str) -> dict[str, Array]:
    arrays = state_arrays(make("adabins_s", 1))
    if change == "missing":
        del arrays["vit.positions"]
    elif change == "unknown":
        arrays["extra.weight"] = np.zeros(3, np.float32)
    elif change == "shape":
        arrays["bin_scores.bias"] = np.zeros(1, np.float32)
    else:
        arrays["bin_scores.bias"] = np.zeros(64, np.float64)
    return arrays


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("missing", "the weights lack 1 tensor(s), first 'vit.positions'; give weights of this network"),
        ("unknown", "the weights hold unknown 1 tensor(s), first 'extra.weight'"),
        ("shape", "tensor 'bin_scores.bias' is float32 (1,); this network needs float32 (64,)"),
        ("dtype", "tensor 'bin_scores.bias' is float64 (64,); this network needs float32 (64,)"),
    ],
)
def test_wrong_weights_are_refused_and_the_network_keeps_its_own(change: str, words: str) -> None:
    network = make("adabins_s", 0)
    before = state_arrays(network)

    with pytest.raises(WireError) as refused:
        load_arrays(network, broken(change))

    assert words in str(refused.value) and refused.value.code == Refusal.WRONG_TENSORS
    after = state_arrays(network)
    assert all(np.array_equal(after[k], before[k]) for k in before)
