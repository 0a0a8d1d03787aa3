"""What NeWCRFs and DCDepth have in common, and each one's own."""

import math
import sys

import pytest
import torch

from fed_core.errors import ConfigError, DataError
from fed_core.training.losses import silog
from fed_models import build
from fed_models.blocks import swin
from fed_models.dcdepth import Dcdepth, DcdepthWidths, LossWeights
from fed_models.depth import DepthNetwork, DepthOutput
from fed_models.newcrfs import SMALL, Newcrfs, NewcrfsWidths
from tests.models.scenes import MOST, frames, losses_of_fit

NAMES = ["newcrfs_s", "dcdepth_s"]


def seeded(name: str, **options: object) -> DepthNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build(name, {"height": 64, "width": 96, **options})
    assert isinstance(network, DepthNetwork)
    return network


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(64, 96), (64, 128), (96, 160)])
def test_depth_has_the_shape_and_the_range_that_were_asked_for(name: str, size: tuple[int, int]) -> None:
    network = seeded(name, height=size[0], width=size[1], d_min=0.5, d_max=20.0).eval()
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0))

    with torch.no_grad():
        output = network(x)

    assert (network.input_size, network.d_min, network.d_max) == (size, 0.5, 20.0)
    assert output.depth.shape == (2, 1, *size) and output.depth.dtype == torch.float32
    assert output.depth.min() > 0.0 and torch.isfinite(output.depth).all()
    assert network.encode(x).shape == (2, 256, size[0] // 32, size[1] // 32)


@pytest.mark.parametrize("name", NAMES)
def test_options_default_to_the_spec(name: str) -> None:
    network = build(name, {})

    assert isinstance(network, DepthNetwork)
    assert (network.input_size, network.d_min, network.d_max) == ((96, 160), 0.1, 80.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_reaches_every_parameter(name: str) -> None:
    network = seeded(name)
    x, depth = frames(2)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network.loss(network(x), depth, depth > 0).backward()

    missed = [n for n, p in network.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert missed == []
    first = "encoder.backbone.swin.embeddings.patch_embeddings.projection.weight"
    for key in (first, *network.final_layer()):
        assert network.get_parameter(key).grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", NAMES)
def test_images_without_known_depth_give_no_nan(name: str) -> None:
    network = seeded(name)
    x, depth = frames(2)

    loss = network.loss(network(x), torch.full_like(depth, float("nan")), torch.zeros_like(depth, dtype=torch.bool))
    loss.backward()

    assert loss.item() == 0.0
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_repeats_and_treats_images_one_by_one(name: str) -> None:
    network = seeded(name).eval()
    x, _ = frames(2)

    with torch.no_grad():
        first, second, alone = network(x).depth, network(x).depth, network(x[1:]).depth

    assert torch.equal(first, second)
    torch.testing.assert_close(alone[0], first[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_final_layer_names_tensors_of_the_state(name: str) -> None:
    network = seeded(name)

    shapes = [tuple(network.state_dict()[n].shape) for n in network.final_layer()]

    assert shapes == {"newcrfs_s": [(1, 32, 3, 3), (1,)], "dcdepth_s": [(64, 48, 3, 3), (64,)]}[name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"height": 100}, "got images of 100x96; height and width must be multiples of 32"),
        ({"height": 32, "width": 32}, "1 cell at stride 32, it needs at least 2"),
        ({"height": 0}, ".height is 0; it must be at least 32"),
        ({"d_min": 5.0, "d_max": 5.0}, "needs 0 < d_min < d_max, got d_min = 5.0 m and d_max = 5.0 m"),
        ({"bins": 3}, "unknown key 'bins'; known: height, width, d_min, d_max"),
    ],
)
def test_options_that_cannot_work_are_refused(name: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        seeded(name, **options)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_dcdepth_needs_a_range_above_a_metre() -> None:
    with pytest.raises(ConfigError, match="d_max must be above 1 m; got 0.9 m"):
        seeded("dcdepth_s", d_max=0.9)


def test_widths_that_cannot_work_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="pyramid pooling of 128 channels cannot have 256 groups; use a divisor of 128"
    ):
        NewcrfsWidths(pooling=128)
    with pytest.raises(ConfigError, match="a field of 512 channels and 15 heads cannot be"):
        NewcrfsWidths(num_heads=(32, 15, 8, 4))
    with pytest.raises(ConfigError, match="DCDepth feeds back 24 channels; the width must be a multiple of 16"):
        DcdepthWidths(feedback=24)


@pytest.mark.parametrize("name", NAMES)
def test_images_that_do_not_fit_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="got images of 60x96; height and width must be multiples of 32"):
        seeded(name)(torch.zeros(1, 3, 60, 96))


def test_newcrfs_stays_between_zero_and_the_largest_depth() -> None:
    network = seeded("newcrfs_s", d_max=20.0).eval()
    with torch.no_grad():
        low, high = (network(sign * 100.0 * torch.randn(2, 3, 64, 96)).depth for sign in (-1.0, 1.0))
        assert 0.0 < min(low.min(), high.min()) and max(low.max(), high.max()) < 20.0
        # Sigmoid of 0 is the middle.
        network.head.weight.zero_()
        network.head.bias.zero_()
        torch.testing.assert_close(network(torch.randn(1, 3, 64, 96)).depth, torch.full((1, 1, 64, 96), 10.0))


def test_newcrfs_takes_a_pyramid_of_one_cell_by_two() -> None:
    network = Newcrfs(swin.SMALL, SMALL, (32, 64), (0.1, 80.0))

    assert network(torch.randn(1, 3, 32, 64)).depth.shape == (1, 1, 32, 64)


def test_newcrfs_loss_is_silog() -> None:
    depth = torch.full((1, 1, 16, 16), 3.0)

    loss = seeded("newcrfs_s").loss(DepthOutput(2.0 * depth), depth, depth > 0)

    # 10 sqrt(0.15 ln(2)^2 + 1e-6)
    assert loss.item() == pytest.approx(10 * math.sqrt(0.15 * math.log(2) ** 2 + 1e-6), rel=1e-5)


def test_dcdepth_says_a_metre_where_all_coefficients_are_zero() -> None:
    network = seeded("dcdepth_s").eval()
    with torch.no_grad():
        for conv in network.steps.heads.convs:
            conv.weight.zero_()
        output = network(torch.randn(1, 3, 64, 96))
        torch.testing.assert_close(output.depth, torch.ones(1, 1, 64, 96))
        # The coefficient of the mean times 4 ln 80 / 8: depth 80 at 2.
        network.steps.heads.convs[0].bias.fill_(2.0)
        torch.testing.assert_close(network(torch.randn(1, 3, 64, 96)).depth, torch.full((1, 1, 64, 96), 80.0))


def test_dcdepth_weighs_late_steps_more() -> None:
    network = seeded("dcdepth_s", frequency_weight=0.0, smoothness_weight=0.0)
    x, depth = frames(1)
    output = network.eval()(x)

    loss = network.loss(output, depth, depth > 0).item()

    shares = [0.8 ** (9 - i) for i in range(1, 10)]
    each = [silog(torch.exp(log), depth, depth > 0).item() for log in output.steps.log_depths]
    assert loss == pytest.approx(sum(s * e for s, e in zip(shares, each, strict=True)) / sum(shares), rel=1e-5)


def test_dcdepth_pays_for_high_frequencies_from_the_second_step_on() -> None:
    network = seeded("dcdepth_s", frequency_weight=1.0, smoothness_weight=0.0)
    assert isinstance(network, Dcdepth)
    depth = torch.full((1, 1, 8, 8), 2.0)
    log = torch.log(depth)
    ones = torch.ones(1, 64, 1, 1)
    output = DepthOutput(
        depth,
        steps=network(torch.zeros(1, 3, 64, 96)).steps._replace(
            log_depths=(log,) * 9, coefficients=(ones,) * 9, edges=(torch.zeros(1, 1, 8, 7), torch.zeros(1, 1, 7, 8))
        ),
    )

    loss = network.loss(output, depth, depth > 0).item()

    # The costs sum to 1, so eight of nine steps pay 1, and silog is 10 sqrt(1e-6) everywhere.
    first = 0.8**8 / sum(0.8**i for i in range(9))
    assert loss == pytest.approx(0.01 + 1.0 - first, rel=1e-4)


def test_dcdepth_pays_for_roughness_where_the_image_is_flat() -> None:
    network = seeded("dcdepth_s", frequency_weight=0.0, smoothness_weight=1.0)
    log = torch.arange(8.0).expand(1, 1, 8, 8)  # rises by 1 to the right
    depth = torch.exp(log)
    none = torch.zeros(1, 64, 1, 1)

    def loss(edge: float) -> float:
        edges = (torch.full((1, 1, 8, 7), edge), torch.zeros(1, 1, 7, 8))
        steps = network(torch.zeros(1, 3, 64, 96)).steps
        steps = steps._replace(log_depths=(log,) * 9, coefficients=(none,) * 9, edges=edges)
        return float(network.loss(DepthOutput(depth, steps=steps), depth, depth > 0)) - 0.01

    # Steps 5 to 9 pay.
    share = sum(0.8**i for i in range(5)) / sum(0.8**i for i in range(9))
    assert loss(0.0) == pytest.approx(share, rel=1e-4)
    assert loss(2.0) == pytest.approx(share * math.exp(-2.0), rel=1e-4)


def test_dcdepth_loss_needs_the_steps() -> None:
    depth = torch.ones(1, 1, 64, 96)

    with pytest.raises(DataError, match="DCDepth's loss needs the steps"):
        seeded("dcdepth_s").loss(DepthOutput(depth), depth, depth > 0)
    assert LossWeights() == LossWeights(0.005, 0.005)


def test_dcdepth_keeps_the_state_of_some_samples_while_training() -> None:
    network = seeded("dcdepth_s")
    x, _ = frames(1)

    with torch.no_grad():
        drawn = {round(network(x).depth.mean().item(), 6) for _ in range(8)}

    assert len(drawn) > 1


@pytest.mark.parametrize("name", NAMES)
def test_without_transformers_one_line_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)

    with pytest.raises(ConfigError, match=r"Swin encoders need the package transformers, .*fed_perception\[depth\]"):
        seeded(name)


@pytest.mark.slow
@pytest.mark.timeout(900)  # one to two minutes alone, many times that on shared cores
@pytest.mark.parametrize(("name", "rate"), [("newcrfs_s", 1e-3), ("dcdepth_s", 3e-3)])
def test_small_networks_overfit_eight_frames(name: str, rate: float) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        losses = losses_of_fit(build(name, {"height": 64, "width": 96}), rate)

    assert len(losses) < MOST, f"silog went from {losses[0]:.2f} to {losses[-1]:.2f} only"


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_agrees_with_the_cpu(name: str) -> None:
    network = seeded(name).eval()
    x, depth = frames(2)
    with torch.no_grad():
        here = network(x)
        there = network.cuda()(x.cuda())

    torch.testing.assert_close(there.depth.cpu(), here.depth, rtol=5e-3, atol=0.08)
    loss = network.loss(there, depth.cuda(), depth.cuda() > 0).item()
    assert loss == pytest.approx(network.cpu().loss(here, depth, depth > 0).item(), rel=1e-2)
