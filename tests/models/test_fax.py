"""FAX: sizes of the spec, any number of cameras, windows that fit, and where the network looks."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError, DataError
from fed_core.wire.codec import write_tensors
from fed_models import build, signature, state_arrays
from fed_models.blocks.resnet import ResNetEncoder
from fed_models.fax import SMALL, TINY, Fax, FaxChoices, FaxLevel, FaxWidths


def seeded(name: str = "fax_tiny", **options: object) -> Fax:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build(name, options)
    assert isinstance(network, Fax)
    return network


def rig(cameras: int, *, batch: int = 2, side: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Return images, intrinsics and poses of cameras that look around."""
    images = torch.randn(batch, cameras, 3, side, side, generator=torch.Generator().manual_seed(1))
    focal = 0.42 * side
    k = torch.tensor([[focal, 0.0, side / 2], [0.0, focal, side / 2], [0.0, 0.0, 1.0]])
    poses = torch.stack([yawed(yaw) for yaw in (0.0, 100.0, -100.0, 180.0)[:cameras]])
    return images, k.expand(batch, cameras, 3, 3), poses.expand(batch, cameras, 4, 4)


def yawed(degrees: float) -> Tensor:
    """Return the pose of a camera 1.5 m above the vehicle's origin, turned to the right."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return torch.tensor([[c, -s, 0.0, 0.0], [s, c, 0.0, 0.0], [0.0, 0.0, 1.0, 1.5], [0.0, 0.0, 0.0, 1.0]])


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.fixture(scope="module")
def base() -> Fax:
    return seeded("fax_base")


def test_parameters_of_the_base_network(base: Fax) -> None:
    assert count(base) == 25_442_630
    assert count(base.encoder) == 21_284_672
    assert count(base.decoder) == 434_496 and count(base.head) == 578
    assert count(base) - count(base.encoder) - count(base.decoder) - count(base.head) == 3_722_884
    assert base.prior.numel() == 2_097_152


def test_named_parts_of_the_base_network(base: Fax) -> None:
    parts = dict(base.named_modules())
    weights = [parts[path].weight for path in base.attention_modules()]

    assert sum(count(parts[path]) for path in base.head_modules()) == 435_074
    assert sum(count(parts[path]) for path in base.camera_modules()) == 3_072
    assert sum(count(parts[path]) for path in base.bev_modules()) == 3 * 128
    assert len(weights) == 19 and sum(weight.numel() for weight in weights) == 344_064
    assert set(base.final_layer()) <= set(base.state_dict())


def test_parameters_of_the_smaller_networks() -> None:
    small, tiny = seeded("fax_small"), seeded()
    wide = Fax(replace(TINY, encoder=64), FaxChoices())

    assert count(small) - count(small.encoder) == 840_580
    assert round(count(small.encoder) / 1e5) == 112  # ResNet-18, 11.2 million
    assert count(wide) - count(wide.encoder) == 182_852
    assert count(tiny) - count(tiny.encoder) < 182_852 and count(tiny.encoder) < 0.71e6


@pytest.mark.parametrize("cameras", [1, 3, 4])
@pytest.mark.parametrize("norm", ["bn", "gn"])
def test_any_number_of_cameras(cameras: int, norm: str) -> None:
    network = seeded(norm=norm).eval()

    with torch.no_grad():
        logits = network(*rig(cameras)).logits

    assert logits.shape == (2, 2, 32, 32) and logits.dtype == torch.float32
    assert torch.isfinite(logits).all()
    assert not torch.equal(logits[0], logits[1])


@pytest.mark.parametrize("options", [{"geom": "reference"}, {"upsample": "nearest"}])
def test_the_other_choices_work(options: dict[str, str]) -> None:
    default, other = seeded().train(), seeded(**options).train()

    with torch.random.fork_rng(devices=[]):
        found = []
        for network in (default, other):
            torch.manual_seed(0)
            found.append(network(*rig(2)).logits.detach())

    assert torch.isfinite(found[1]).all() and not torch.allclose(found[0], found[1])
    assert signature(default, "fax").digest == signature(other, "fax").digest


def test_feature_maps_and_logits_of_the_small_network() -> None:
    network = seeded("fax_small").eval()
    with torch.no_grad():
        maps = network.encoder(torch.zeros(1, 3, 256, 256))
        logits = network(*rig(1, batch=1, side=256)).logits

    assert [tuple(m.shape) for m in maps] == [(1, 128, 32, 32), (1, 256, 16, 16), (1, 512, 8, 8)]
    assert logits.shape == (1, 2, 128, 128)


def test_shapes_inside_the_base_network(base: Fax) -> None:
    """The encoder's maps for one image, and windows as in the table of the spec."""
    with torch.no_grad():
        maps = base.encoder(torch.zeros(1, 3, 512, 512))

    assert [tuple(m.shape) for m in maps] == [(1, 128, 64, 64), (1, 256, 32, 32), (1, 512, 16, 16)]
    assert FaxWidths().maps == (128, 64, 32) and FaxWidths().features == (64, 32, 16)
    assert SMALL.maps == (64, 32, 16) and SMALL.features == (32, 16, 8)
    assert TINY.maps == (16, 8, 4) and TINY.features == (8, 4, 2)


def test_the_order_of_the_cameras_does_not_matter() -> None:
    network = seeded().eval()
    images, intrinsics, poses = rig(3)
    order = torch.tensor([2, 0, 1])

    with torch.no_grad():
        first = network(images, intrinsics, poses).logits
        again = network(images[:, order], intrinsics[:, order], poses[:, order]).logits

    torch.testing.assert_close(first, again, rtol=1e-4, atol=1e-5)


def test_where_a_camera_looks_changes_the_map() -> None:
    network = seeded()  # in train mode: fresh running statistics would flatten the maps
    network.attention.eval()
    images, intrinsics, poses = rig(1)

    with torch.no_grad():
        ahead = network(images, intrinsics, poses).logits
        behind = network(images, intrinsics, yawed(180.0).expand_as(poses)).logits

    assert (ahead - behind).abs().max() > 1e-4


def test_one_query_copy_equals_a_copy_per_camera() -> None:
    level = next(m for m in seeded().modules() if isinstance(m, FaxLevel))
    rng = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(5, n, 16, 32, generator=rng) for n in (1, 4, 4))

    with torch.no_grad():
        one = level.far(query, key, value)
        four = level.far(query.expand(5, 4, 16, 32), key, value)

    torch.testing.assert_close(one, four)


def test_sizes_that_do_not_fit_are_refused() -> None:
    told = "fax level 1: 8 cells in windows of 8, 4 features in windows of 2; both must divide into equally many"
    with pytest.raises(ConfigError, match=told):
        Fax(replace(TINY, map_windows=(4, 8, 4)), FaxChoices())
    with pytest.raises(ConfigError, match="images of 100 px and a map of 32 cells; images must be a multiple of 32"):
        build("fax_tiny", {"image": 100})
    with pytest.raises(ConfigError, match=r"fax level 0: 20 cells in windows of 5, 8 features in windows of 0"):
        Fax(replace(TINY, cells=40, map_windows=(5, 5, 5), image_windows=(0, 2, 2)), FaxChoices())


def test_other_sizes_take_larger_windows() -> None:
    network = seeded(image=128, cells=64).eval()

    with torch.no_grad():
        logits = network(*rig(2, batch=1, side=128)).logits

    assert logits.shape == (1, 2, 64, 64) and network.input_size == (128, 128)


def test_wrong_inputs_are_named() -> None:
    network, (images, intrinsics, poses) = seeded(), rig(2)

    with pytest.raises(DataError, match=r"images of shape \(2, 2, 3, 32, 64\); expected \(B, N, 3, 64, 64\)"):
        network(images[..., :32, :], intrinsics, poses)
    with pytest.raises(DataError, match=r"expected \(2, 2\) \+ \(3, 3\) and \(4, 4\)"):
        network(images, intrinsics[:, :1], poses)


def test_a_step_reaches_every_parameter() -> None:
    network = seeded()

    network(*rig(4)).logits.square().mean().backward()

    assert [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_the_state_travels_without_the_grids() -> None:
    names = signature(seeded(), "fax_tiny").names

    assert not [name for name in names if name.rpartition(".")[2] in ("map_grid", "image_grid", "index")]
    assert "running_mean" not in " ".join(signature(seeded(norm="gn"), "fax_tiny").names)


@pytest.mark.parametrize("option", [{"geom": "straight"}, {"upsample": "cubic"}, {"norm": "ln"}])
def test_unknown_choices_are_named(option: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="choose one of"):
        build("fax_tiny", option)


def test_weights_of_the_network_or_of_a_resnet(tmp_path: Path) -> None:
    whole, other = tmp_path / "whole.safetensors", tmp_path / "resnet.safetensors"
    network = seeded()
    write_tensors(whole, state_arrays(network))
    torch.manual_seed(5)
    published = state_arrays(ResNetEncoder(TINY.blocks, width=16))
    published = {name: array for name, array in published.items() if not name.endswith("tracked")}
    write_tensors(other, {**published, "fc.weight": np.zeros((10, 128), np.float32)})

    torch.manual_seed(6)
    read, mixed = build("fax_tiny", {"weights": str(whole)}), build("fax_tiny", {"weights": str(other)})

    assert all((state_arrays(read)[name] == array).all() for name, array in state_arrays(network).items())
    np.testing.assert_array_equal(
        state_arrays(mixed)["encoder.layer4.1.conv2.weight"], published["layer4.1.conv2.weight"]
    )
    with pytest.raises(ConfigError, match=r"resnet.safetensors: tensor 'conv1.weight' is float32 \(16, 3, 7, 7\)"):
        build("fax_small", {"weights": str(other)})
    with pytest.raises(ConfigError, match="give a file of this network or of its ResNet"):
        build("fax_tiny", {"weights": str(tmp_path / "nothing.safetensors")})
