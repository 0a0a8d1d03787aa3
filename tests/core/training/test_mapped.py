"""A second network whose weights stay in the file: the same outputs, nothing copied, pages given back."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fed_core.training import mapped
from fed_core.training.mapped import mapped_copy
from fed_core.wire.codec import TensorFile, open_tensors, write_tensors


class Network(nn.Module):
    """A norm with a counter, a buffer outside of the state dict, and a weight used twice."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)
        self.tied = self.last
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.num_batches_tracked.fill_(seed)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.last(self.norm(self.first(x)))) * self.scale


def saved(network: nn.Module, path: Path) -> TensorFile:
    write_tensors(path, {name: tensor.numpy() for name, tensor in network.state_dict().items()})
    return open_tensors(path)


def lies_in(tensor: torch.Tensor, file: TensorFile, name: str) -> bool:
    return tensor.data_ptr() == file[name].__array_interface__["data"][0]


def test_a_mapped_copy_computes_what_the_other_network_does_and_holds_no_weights(tmp_path: Path) -> None:
    here, other, x = Network(1).eval(), Network(2).eval(), torch.randn(5, 4)
    before, file = copy.deepcopy(here.state_dict()), saved(other, tmp_path / "other.safetensors")

    twin = mapped_copy(here, file)

    with torch.no_grad():
        assert torch.equal(twin(x), other(x))
    for name, tensor in twin.state_dict().items():
        if tensor.is_floating_point():
            assert lies_in(tensor, file, name.replace("tied", "last")), name  # one module under two names
        else:
            assert tensor.data_ptr() == here.state_dict()[name].data_ptr() and int(tensor) == 1
    assert twin.scale is here.scale and not any(each.requires_grad for each in twin.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in here.state_dict().items())
    assert all(each.requires_grad for each in here.parameters())


def test_pages_are_given_back_as_the_pass_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(TensorFile, "release", lambda self: given.append("released"))
    monkeypatch.setattr(mapped, "KEPT", 4 * (32 + 8) + 4 * 4 * 8)  # of the first layer and the norm
    twin = mapped_copy(Network(1), saved(Network(2), tmp_path / "other.safetensors"))
    for name in ("first", "norm", "last"):
        twin.get_submodule(name).register_forward_hook(lambda *_, name=name: given.append(name))
    with torch.no_grad():
        twin(torch.randn(5, 4))
    assert given == ["first", "released", "norm", "released", "last", "released", "last"]


def test_given_back_pages_read_the_same_again(tmp_path: Path) -> None:
    file = saved(Network(2), tmp_path / "other.safetensors")
    first = file["first.weight"]
    before = first.copy()
    file.release()
    np.testing.assert_array_equal(first, before)
    np.testing.assert_array_equal(file["first.weight"], before)


def test_plain_tensors_other_types_and_missing_names() -> None:
    here, other = Network(1), Network(2)
    tensors = {name: tensor.numpy().astype(np.float64) for name, tensor in other.state_dict().items()}
    twin = mapped_copy(here, tensors)
    assert twin.first.weight.dtype == torch.float32 and torch.equal(twin.first.weight, other.first.weight)
    assert not twin.training and here.training
    del tensors["last.bias"]
    with pytest.raises(KeyError, match="last.bias"):
        mapped_copy(here, tensors)


def test_a_copy_of_a_mapped_copy_has_memory_of_its_own(tmp_path: Path) -> None:
    file = saved(Network(2), tmp_path / "other.safetensors")
    again = copy.deepcopy(mapped_copy(Network(1), file))
    assert not lies_in(again.first.weight, file, "first.weight")
    with torch.no_grad():
        again.first.weight.zero_()
        again(torch.randn(2, 4))
    assert np.any(file["first.weight"])
