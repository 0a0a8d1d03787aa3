import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fed_core.errors import ConfigError, DataError, UnknownNameError
from fed_core.training.losses import silog
from fed_models import build
from fed_models.adabins import SMALL, AdaBins, AdaBinsWidths
from fed_models.blocks.bins import bin_centres, bin_edges
from fed_models.blocks.encoders import SmallEncoder
from fed_models.blocks.mini_vit import VitWidths
from fed_models.depth import DepthOutput


def seeded(name: str, **options: object) -> AdaBins:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build(name, options)
    assert isinstance(network, AdaBins)
    return network


def frames(count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (B, 3, 96, 160) of random boxes before a slope, and their depth, 1 to 20 m; shading tells the depth."""
    generator = torch.Generator().manual_seed(1)
    depth = (1.0 + 19.0 * torch.linspace(1.0, 0.0, 96) ** 2).view(1, 1, 96, 1).repeat(count, 1, 1, 160)
    for one in depth:
        for _ in range(4):
            row, column = (int(torch.randint(0, n, (), generator=generator)) for n in (66, 120))
            one[0, row : row + 30, column : column + 40] = 1.0 + 19.0 * torch.rand((), generator=generator)
    return 1.0 / depth + 0.05 * torch.randn(count, 3, 96, 160, generator=generator), depth


@pytest.mark.parametrize(("name", "deepest"), [("adabins_s", 96), ("adabins_lite0", 320)])
@pytest.mark.parametrize("size", [(96, 160), (96, 128), (128, 160)])
def test_depth_has_the_shape_and_the_range_that_were_asked_for(name: str, deepest: int, size: tuple[int, int]) -> None:
    options = {"pretrained": False} if name == "adabins_lite0" else {}
    network = seeded(name, height=size[0], width=size[1], d_min=0.5, d_max=20.0, **options).eval()
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0))

    with torch.no_grad():
        output = network(x)

    assert (network.input_size, network.d_min, network.d_max) == (size, 0.5, 20.0)
    assert output.depth.shape == (2, 1, *size) and output.depth.dtype == torch.float32
    assert output.depth.min() > 0.5 and output.depth.max() < 20.0
    assert output.centres.shape == (2, 64)
    assert network.encode(x).shape == (2, deepest, size[0] // 32, size[1] // 32)


def test_options_default_to_the_spec() -> None:
    network = seeded("adabins_s")

    assert (network.input_size, network.d_min, network.d_max) == ((96, 160), 0.1, 80.0)
    assert network.vit.positions.shape == (60, 32)


def test_smaller_patches_take_smaller_images_and_change_no_name() -> None:
    usual, small = seeded("adabins_s"), seeded("adabins_s", height=64, width=96, patch=4).eval()

    with torch.no_grad():
        output = small(torch.randn(1, 3, 64, 96))

    assert output.depth.shape == (1, 1, 64, 96) and small.vit.positions.shape == (96, 32)
    assert list(small.state_dict()) == list(usual.state_dict())


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=64))
def test_bin_edges_rise_from_d_min_to_d_max(logits: list[float]) -> None:
    edges = bin_edges(torch.tensor([logits], dtype=torch.float32), 0.1, 80.0)[0]

    assert edges[0].item() == pytest.approx(0.1) and edges[-1].item() == pytest.approx(80.0, rel=1e-6)
    assert (edges.diff() > 0).all()


def test_bin_edges_follow_the_widths() -> None:
    # relu(y) + 0.1 = 0.1, 0.3, 0.6: shares 0.1, 0.3, 0.6 of 1..11 m
    edges = bin_edges(torch.tensor([[-5.0, 0.2, 0.5]]), 1.0, 11.0)

    torch.testing.assert_close(edges, torch.tensor([[1.0, 2.0, 5.0, 11.0]]))
    torch.testing.assert_close(bin_centres(edges), torch.tensor([[1.5, 3.5, 8.0]]))


def test_depth_is_the_mixture_of_the_centres() -> None:
    network = seeded("adabins_s").eval()
    with torch.no_grad():
        network.bin_scores.weight.zero_()
        network.bin_scores.bias.fill_(-30.0)
        network.bin_scores.bias[5] = 30.0
        output = network(torch.randn(2, 3, 96, 160))

    # All weight on bin 5, so that every pixel is at its centre.
    torch.testing.assert_close(output.depth, output.centres[:, 5].view(2, 1, 1, 1).expand(2, 1, 96, 160))


def test_the_final_layer_names_tensors_of_the_state() -> None:
    network = seeded("adabins_s")

    shapes = [tuple(network.state_dict()[n].shape) for n in network.final_layer()]
    assert shapes[:2] == [(64, 32, 1, 1), (64,)]  # bin scores
    assert shapes[2:] == [(64, network.bin_widths[-1].in_features), (64,)]  # bin widths


def test_a_step_reaches_every_parameter() -> None:
    network = seeded("adabins_s")
    x, depth = frames(2)

    network.loss(network(x), depth, depth > 0).backward()

    missed = [n for n, p in network.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert missed == []
    # Only the bin widths' first layers could be dead by chance; the ends of every path must move.
    for name in ("encoder.stem.0.weight", "vit.positions", "bin_scores.weight", "bin_widths.4.weight", "keys.weight"):
        assert network.get_parameter(name).grad.abs().sum() > 0, name


def test_images_without_known_depth_give_a_loss_of_zero_and_no_nan() -> None:
    network = seeded("adabins_s")
    x, depth = frames(2)

    loss = network.loss(network(x), torch.full_like(depth, float("nan")), torch.zeros_like(depth, dtype=torch.bool))
    loss.backward()

    assert loss.item() == 0.0
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"height": 100}, "AdaBins got images of 100x160; height and width must be multiples of 32"),
        ({"height": 64, "width": 96}, "images of 64x96 give AdaBins 24 patches, it needs at least 33"),
        ({"patch": 0}, "AdaBinsSmall.patch is 0; it must be at least 1"),
        ({"height": 0}, "AdaBinsSmall.height is 0; it must be at least 32"),
        ({"d_min": 0.0}, "0 < d_min < d_max, got d_min = 0.0 m and d_max = 80.0 m"),
        ({"d_min": 5.0, "d_max": 5.0}, "got d_min = 5.0 m and d_max = 5.0 m"),
        ({"bins": 3}, "network adabins_s: unknown key 'bins'; known: height, width, d_min, d_max, chamfer_weight"),
        ({"height": "high"}, "network adabins_s.height: expected int, got 'high'"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build("adabins_s", options)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_an_unknown_network_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="no network is called 'adabin'; known: adabins.*, newcrfs_s"):
        build("adabin", {})


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((192, 320), "give AdaBins 60 patches, it needs at least 129"),
        ((736, 1280), "920 patches, it has 500 positions"),
    ],
)
def test_the_papers_patch_limits_hold(size: tuple[int, int], words: str) -> None:
    # 16-pixel patches, 128 queries and 500 positions as in the paper, on thin channels.
    widths = AdaBinsWidths(decoder=SMALL.decoder, channels=32, vit=VitWidths(num_layers=1, feed_forward=32))

    with pytest.raises(ConfigError, match=words):
        AdaBins(SmallEncoder(), widths, size, (0.1, 80.0))


def test_the_papers_structure_takes_any_encoder_and_any_size_within_its_positions() -> None:
    vit = VitWidths(patch=4, num_layers=1, feed_forward=32)
    widths = AdaBinsWidths(decoder=(48, 32, 24, 16, 16), channels=16, num_queries=16, num_bins=32, hidden=16, vit=vit)
    network = AdaBins(SmallEncoder(), widths, (64, 96), (0.1, 80.0)).eval()

    with torch.no_grad():
        shapes = [network(torch.zeros(1, 3, *size)).depth.shape[2:] for size in ((64, 96), (96, 128))]

    assert shapes == [(64, 96), (96, 128)]


def test_images_of_another_size_are_refused_with_both_numbers() -> None:
    network = seeded("adabins_s", width=128).eval()

    with pytest.raises(DataError, match="images of 96x160 give AdaBins 60 patches, it has 48 positions"):
        network(torch.zeros(1, 3, 96, 160))


@pytest.mark.parametrize(("options", "weight"), [({}, 0.1), ({"chamfer_weight": 0.002}, 0.002)])
def test_the_loss_weighs_the_distance_of_the_bins(options: dict[str, float], weight: float) -> None:
    depth = torch.full((1, 1, 96, 160), 3.0)
    output = DepthOutput(2.0 * depth, torch.tensor([[1.0, 7.0]]))

    loss = seeded("adabins_s", **options).loss(output, depth, depth > 0)

    # To the centres 3 is 2 and 4 away: (4 + 16) / 2; the nearest centre is 2 away from every depth: 4.
    assert loss.item() == pytest.approx(2.684578 + weight * (10.0 + 4.0), rel=1e-5)


def test_the_loss_needs_bin_centres() -> None:
    depth = torch.ones(1, 1, 96, 160)

    with pytest.raises(DataError, match="AdaBins' loss needs bin centres"):
        seeded("adabins_s").loss(DepthOutput(depth), depth, depth > 0)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a minute alone, many times that on shared cores
def test_adabins_s_overfits_eight_frames() -> None:
    network = seeded("adabins_s")
    x, depth = frames()
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)

    losses: list[float] = []
    while len(losses) < 300 and not (losses and max(losses[-3:]) < min(1.5, 0.2 * losses[0])):
        output = network(x)
        losses.append(silog(output.depth, depth, depth > 0).item())
        optimizer.zero_grad()
        network.loss(output, depth, depth > 0).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.1)
        optimizer.step()

    assert len(losses) < 300, f"silog went from {losses[0]:.2f} to {losses[-1]:.2f} only"
    network.eval()
    with torch.no_grad():
        edges = network.edges(network.vit(network.decoder(network.encoder(x))))
    assert (edges.diff(dim=1) > 0).all()
    torch.testing.assert_close(edges[:, 0], torch.full((8,), 0.1))
    torch.testing.assert_close(edges[:, -1], torch.full((8,), 80.0))


@pytest.mark.gpu
def test_adabins_on_the_gpu_agrees_with_the_cpu() -> None:
    network = seeded("adabins_s").eval()
    x, depth = frames(2)
    with torch.no_grad():
        here = network(x)
        there = network.cuda()(x.cuda())

    # TF32 convolutions and another order of sums: a thousandth of the range.
    torch.testing.assert_close(there.depth.cpu(), here.depth, rtol=5e-3, atol=0.08)
    loss = network.loss(there, depth.cuda(), depth.cuda() > 0).item()
    assert loss == pytest.approx(network.loss(here, depth, depth > 0).item(), rel=1e-2)
