"""Blocks of CMT against numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.types import Boxes3D
from fed_models.blocks import coordinates as co
from fed_models.blocks.bev_backbone import Second, SecondFpn
from fed_models.blocks.box_code import CODE_WEIGHTS, Truth, decode_boxes, encode_boxes
from fed_models.blocks.cmt_head import CmtHead, between
from fed_models.blocks.denoising import make_noise, noise_mask
from fed_models.blocks.pillars import Pillars, pillar_features
from fed_models.blocks.query_decoder import DecoderLayer, QueryAttention, QueryDecoder
from fed_models.blocks.set_loss import box_loss, focal_loss, match, noise_loss, query_loss
from fed_models.blocks.task_head import TaskHead

RANGE = (-8.0, -8.0, -5.0, 8.0, 8.0, 3.0)
CPU = torch.device("cpu")


def two_boxes() -> Boxes3D:
    return Boxes3D(
        centres=np.array([[1.0, 2.0, -1.0], [-3.0, 4.0, 0.0]]),
        sizes=np.array([[4.0, 2.0, 1.5], [1.0, 1.0, 2.0]]),
        yaws=np.array([np.pi / 2.0, 0.0]),
        velocities=np.array([[0.0, 3.0], [np.nan, np.nan]]),
        labels=np.array([0, 8]),
        scores=np.ones(2),
        num_points=np.array([5, 7]),
    )


def test_divisors_of_the_sines_are_those_of_the_paper() -> None:
    """With 4 features the divisors are 1, 1, 1.5, 1.5: p = 0.25 gives a quarter and a sixth of a turn."""
    expected = [1.0, 0.0, math.sin(math.pi / 3.0), math.cos(math.pi / 3.0)]

    torch.testing.assert_close(co.sine_encoding(torch.tensor([0.25]), 4), torch.tensor([expected]), atol=1e-6, rtol=0)


def test_the_encoding_of_a_place_is_that_of_y_then_that_of_x() -> None:
    found = co.encode_places(torch.tensor([0.25, 0.5]), 4)

    y, x = (co.sine_encoding(torch.tensor(value), 4) for value in (0.5, 0.25))
    assert found.shape == (8,) and torch.equal(found, torch.cat((y, x)))


def test_octaves_run_from_twice_the_range_to_a_sixteenth() -> None:
    found = co.sine_encoding(torch.tensor(1.0 / 16.0), 4, "octaves")

    expected = [math.sin(math.pi / 16.0), math.cos(math.pi / 16.0), 0.0, 1.0]
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-6, rtol=0)


def test_cells_go_row_by_row_along_y() -> None:
    assert co.cell_places(2).tolist() == [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]


def test_tokens_lie_at_the_upper_left_of_what_they_see() -> None:
    assert co.token_pixels((1, 2), (16, 32)).tolist() == [[0.0, 0.0], [16.0, 0.0]]


def test_depths_of_a_ray() -> None:
    depths = co.ray_depths(54.0)

    assert len(depths) == 64 and depths[0] == 1.0
    assert depths[1].item() == pytest.approx(1.0 + 53.0 / 64.0)


def test_points_of_a_ray_project_to_its_pixel() -> None:
    matrix = torch.eye(4, dtype=torch.float64)
    matrix[:3] = torch.tensor([[40.0, 30.0, 0.0, 2.0], [0.0, 20.0, -40.0, 1.0], [0.0, 1.0, 0.0, 0.3]])
    pixel = torch.tensor([[12.5, 7.0]], dtype=torch.float64)

    rays = co.ray_points(
        pixel.view(1, 1, 1, 2), torch.linalg.inv(matrix).view(1, 1, 4, 4), co.ray_depths(20.0).double()
    )
    pixels, depth = co.project(rays.view(1, -1, 3), matrix.view(1, 1, 4, 4))

    torch.testing.assert_close(pixels[0, 0], pixel.expand(64, -1))
    torch.testing.assert_close(depth[0, 0], co.ray_depths(20.0).double())


def test_features_of_a_point_by_hand() -> None:
    """Two points of the pillar [0, 1) x [0, 1); range 16 x 16 x 8 m."""
    points = torch.tensor([[0.2, 0.4, -1.0, 51.0, 0.1], [0.6, 0.8, 1.0, 0.0, 0.0]])
    pillar = torch.full((2,), 8 * 16 + 8)

    found = pillar_features(points, pillar, RANGE, 16)

    first = [0.2 / 8.0, 0.4 / 8.0, -0.25, 0.2, 0.1, -0.2, -0.2, -1.0, -0.3, -0.1]
    torch.testing.assert_close(found[0], torch.tensor(first))


def test_a_pillar_is_the_maximum_of_its_points_and_lies_at_its_cell() -> None:
    pillars = Pillars(3, 16, RANGE, 0.1).eval()
    nn.init.ones_(pillars.linear.weight)
    inside, outside = torch.tensor([[2.5, -4.5, 0.0, 255.0, 0.0]]), torch.tensor([[9.0, 0.0, 0.0, 0.0, 0.0]])
    weaker = inside - torch.tensor([0.0, 0.0, 0.0, 200.0, 0.0])

    found = pillars([torch.cat((weaker, inside, outside)), outside])

    assert found.shape == (2, 3, 16, 16)
    assert found[0].count_nonzero() == 3 and found[1].count_nonzero() == 0
    # x = 2.5 is column 10, y = -4.5 row 3; features 2.5 / 8, -4.5 / 8, 1 add up.
    expected = (2.5 / 8.0 - 4.5 / 8.0 + 1.0) / math.sqrt(1.0 + 1e-3)
    assert found[0, 0, 3, 10].item() == pytest.approx(expected, rel=1e-5)


def test_points_out_of_range_are_in_no_statistics() -> None:
    inside, outside = torch.tensor([[2.5, -4.5, 0.0, 255.0, 0.0], [1.0, 1.0, 1.0, 9.0, 0.0]]), torch.ones(3, 5) * 99.0
    with_them, without = (Pillars(3, 16, RANGE, 0.1) for _ in range(2))
    with_them.load_state_dict(without.state_dict())
    assert torch.equal(with_them([inside, outside]), without([inside, inside[:0]]))
    assert torch.equal(with_them.norm.running_mean, without.norm.running_mean)
    assert without.norm.running_mean.count_nonzero() == 3


def test_maps_of_all_stages_come_to_one_size() -> None:
    backbone, neck = Second(4, (6, 8, 10), 1, 0.1), SecondFpn((6, 8, 10), 5, 1, 0.1)

    maps = backbone(torch.randn(2, 4, 32, 32))

    assert [tuple(m.shape[1:]) for m in maps] == [(6, 16, 16), (8, 8, 8), (10, 4, 4)]
    assert neck(maps).shape == (2, 15, 8, 8) and neck.channels == 15


def test_our_attention_is_that_of_pytorch() -> None:
    torch.manual_seed(0)
    ours, theirs = QueryAttention(8, 2, 0.0), nn.MultiheadAttention(8, 2, batch_first=True)
    nn.init.xavier_uniform_(ours.in_proj_weight)
    theirs.load_state_dict(ours.state_dict())
    query, key, value = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    mask = torch.rand(1, 3, 5) > 0.4
    mask[..., 0] = True

    expected = theirs(query, key, value, attn_mask=~mask[0])[0]

    torch.testing.assert_close(ours(query, key, value, mask), expected)


def test_places_steer_attention_and_nothing_else() -> None:
    """Post-norm wiring, written out: places enter queries and keys, never values."""
    torch.manual_seed(0)
    layer = DecoderLayer(8, 2, 16, 0.0)
    for attention in (layer.self_attention, layer.cross_attention):
        nn.init.xavier_uniform_(attention.in_proj_weight)
    x, place, memory, where = torch.randn(1, 3, 8), torch.randn(1, 3, 8), torch.randn(1, 5, 8), torch.randn(1, 5, 8)

    once = layer.norm1(x + layer.self_attention(x + place, x + place, x))
    twice = layer.norm2(once + layer.cross_attention(once + place, memory + where, memory))
    expected = layer.norm3(twice + layer.ffn(twice))

    torch.testing.assert_close(layer(x, place, memory, where, None), expected)


def test_queries_start_as_zeros_and_one_more_norm_is_shared() -> None:
    decoder = QueryDecoder(2, 8, 2, hidden=16).eval()
    place, memory, where = torch.randn(1, 3, 8), torch.randn(1, 5, 8), torch.randn(1, 5, 8)
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.3)

    first, second = decoder(place, memory, where, None)

    inner = decoder.layers[0](torch.zeros(1, 3, 8), place, memory, where, None)
    torch.testing.assert_close(first, decoder.post_norm(inner))
    torch.testing.assert_close(second, decoder.post_norm(decoder.layers[1](inner, place, memory, where, None)))


def test_every_layer_has_branches_of_its_own_with_the_features_last() -> None:
    head = TaskHead(8, 2)
    x = torch.randn(1, 3, 8)

    classes, codes = head([x, x])

    assert classes.shape == codes.shape == (2, 1, 3, 10)
    assert not torch.allclose(classes[0], classes[1])
    assert all(type(m).__name__ != "Conv1d" for m in head.modules())
    assert head.cls_logits[0][-1].bias.tolist() == pytest.approx([-2.19] * 10)
    assert head.center[0][1].eps == 1e-6 and head.center[0][0].bias is None


def test_boxes_survive_their_code_in_the_order_of_our_own() -> None:
    truth = encode_boxes(two_boxes(), CPU)

    first = [1.0, 2.0, -1.0, math.log(4.0), math.log(2.0), math.log(1.5), 1.0, 0.0, 0.0, 3.0]
    torch.testing.assert_close(truth.codes[0], torch.tensor(first), atol=1e-6, rtol=0)
    logits = torch.full((1, 2, 10), -9.0)
    logits[0, 0, 0], logits[0, 1, 8] = 1.0, 2.0
    found = decode_boxes(logits, torch.nan_to_num(truth.codes)[None])[0].take(np.array([1, 0]))
    for name in ("centres", "sizes", "yaws", "labels"):
        np.testing.assert_allclose(getattr(found, name), getattr(two_boxes(), name), atol=1e-6)
    assert found.scores.tolist() == pytest.approx([1.0 / (1.0 + math.exp(-1.0)), 1.0 / (1.0 + math.exp(-2.0))])


def test_the_best_300_pairs_are_decoded_best_first_and_far_ones_dropped() -> None:
    logits, codes = torch.randn(1, 40, 10), torch.zeros(1, 40, 10)
    codes[0, :10, 0] = 61.3
    codes[0, 10:20, 2] = -10.1

    found = decode_boxes(logits, codes)[0]

    best = logits[0].flatten().topk(300).indices // 10
    assert len(found) == int((best >= 20).sum())
    assert (np.diff(found.scores) <= 0.0).all()


def test_focal_loss_by_hand() -> None:
    """At a probability of 1/2: 0.25 (1/2)^2 log 2 for a true class, 0.75 (1/2)^2 log 2 for a false one."""
    found = focal_loss(torch.zeros(2), torch.tensor([1.0, 0.0]))

    expected = torch.tensor([0.25, 0.75]) * 0.25 * math.log(2.0)
    torch.testing.assert_close(found, expected)


def queries(truth: Truth) -> tuple[Tensor, Tensor]:
    """Return logits and codes of three queries; the second has found box 1, the third box 0."""
    logits = torch.full((3, 10), -3.0)
    logits[1, 8] = logits[2, 0] = 3.0
    known = torch.nan_to_num(truth.codes)
    return logits, torch.stack((known.mean(0) + 5.0, known[1], known[0]))


def test_queries_are_matched_with_the_boxes_that_they_found() -> None:
    truth = encode_boxes(two_boxes(), CPU)
    logits, codes = queries(truth)
    codes[0, 3] = torch.nan

    found = match(logits, codes, truth)

    assert [part.tolist() for part in found] == [[1, 2], [1, 0]]


def test_loss_of_a_set_by_hand() -> None:
    truth = encode_boxes(two_boxes(), CPU)
    logits, codes = queries(truth)
    codes[1, 0] += 0.5  # twice 0.5 m
    codes[1, 8] += 9.0  # its velocity is not known

    loss = query_loss(logits[None], codes[None], [truth])

    near, far = 1.0 / (1.0 + math.exp(-3.0)), 1.0 / (1.0 + math.exp(3.0))
    hit, miss = -0.25 * far**2 * math.log(near), -0.75 * far**2 * math.log(near)
    classes = (2 * hit + 28 * miss) / (2 + 0.1 * 1)
    assert loss.item() == pytest.approx(2.0 * classes + 0.25 * (2.0 * 0.5) / 2, rel=1e-5)


def test_weights_of_the_code_and_unknown_velocities() -> None:
    wanted = torch.zeros(1, 10)
    wanted[0, 8] = torch.nan

    found = torch.ones(1, 10, requires_grad=True)
    loss = box_loss(found, wanted)
    loss.backward()  # type: ignore[no-untyped-call]

    assert loss.item() == pytest.approx(sum(CODE_WEIGHTS) - 0.2)
    assert found.grad is not None and found.grad[0, 8] == 0.0 and torch.isfinite(found.grad).all()


def test_a_scan_without_boxes_has_a_loss() -> None:
    nothing = encode_boxes(two_boxes().take(np.zeros(2, bool)), CPU)

    loss = query_loss(torch.zeros(1, 4, 10), torch.zeros(1, 4, 10), [nothing])

    # 40 logits that say one half, over max(1, 0.1 * 4).
    assert loss.item() == pytest.approx(2.0 * 40 * 0.75 * 0.25 * math.log(2.0))


def test_denoising_copies_every_box_and_marks_far_ones_as_background() -> None:
    torch.manual_seed(0)
    truth = encode_boxes(two_boxes(), CPU)
    space = co.PointRange(RANGE)

    noise = make_noise([truth, Truth(truth.labels[:1], truth.codes[:1])], space, num_queries=4, budget=9)

    assert noise is not None and noise.references.shape == (2, 8, 3)  # 9 // 2 groups of 2
    assert noise.real.tolist() == [[True] * 8, [True, False] * 4]
    moved = (space.metres(noise.references) - noise.codes[..., :3]) / (noise.codes[..., 3:6].exp() / 2.0)
    assert (moved[noise.real].abs() <= 1.0 + 1e-5).all()
    far = moved.norm(dim=-1) > 0.75
    assert 0 < far[noise.real].sum() < noise.real.sum()
    assert torch.equal(noise.labels[0], torch.where(far[0], -1, torch.tensor([0, 8] * 4)))


@pytest.mark.parametrize(("boxes", "budget"), [(0, 9), (2, 1)])
def test_no_denoising_without_boxes_or_with_too_many(boxes: int, budget: int) -> None:
    truth = encode_boxes(two_boxes().take(np.arange(boxes)), CPU)

    assert make_noise([truth], co.PointRange(RANGE), num_queries=4, budget=budget) is None


def test_loss_of_denoising_by_hand() -> None:
    torch.manual_seed(1)
    truth = encode_boxes(two_boxes(), CPU)
    noise = make_noise([truth], co.PointRange(RANGE), num_queries=4, budget=20)
    assert noise is not None and noise.real.sum() == 20
    codes = torch.nan_to_num(noise.codes)
    codes[..., 2] += 1.0

    loss = noise_loss(torch.zeros(1, 20, 10), codes, noise)

    true = int((noise.labels >= 0).sum())
    each = 0.25 * math.log(2.0)
    classes = each * (0.25 * true + 0.75 * (200 - true)) / (20 * math.pi / 6.0 * 0.75**3)
    assert loss.item() == pytest.approx(2.0 * classes + 0.25 * 1.0, rel=1e-5)


def test_who_looks_at_whom() -> None:
    """Two groups of two, the last of each filled up; two normal queries."""
    mask = noise_mask(torch.tensor([[True, False, True, False]]), 2, 2)[0].int().tolist()

    assert mask == [
        [1, 0, 0, 0, 1, 1],
        [1, 0, 0, 0, 1, 1],
        [0, 0, 1, 0, 1, 1],
        [0, 0, 1, 0, 1, 1],
        [0, 0, 0, 0, 1, 1],
        [0, 0, 0, 0, 1, 1],
    ]


def test_normal_queries_and_other_groups_do_not_see_a_denoising_group() -> None:
    torch.manual_seed(0)
    decoder = QueryDecoder(2, 8, 2, hidden=16).eval()
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    mask = noise_mask(torch.ones(1, 4, dtype=torch.bool), 2, 3)
    place, memory, where = torch.randn(1, 7, 8), torch.randn(1, 5, 8), torch.randn(1, 5, 8)
    other = place.clone()
    other[:, :2] += 1.0  # the first group

    found, changed = (decoder(each, memory, where, mask)[-1] for each in (place, other))

    assert torch.equal(found[:, 2:], changed[:, 2:]) and not torch.allclose(found[:, :2], changed[:, :2])


def test_a_field_of_offsets_is_read_between_its_cells() -> None:
    """A map that holds the place of its cells gives the place that is asked for."""
    field = co.cell_places(8).view(1, 8, 8, 2).permute(0, 3, 1, 2)
    places = torch.tensor([[[0.3, 0.7], [0.5, 0.11]]])

    torch.testing.assert_close(between(field, places), places)


def test_a_query_takes_the_rays_of_all_cameras_that_see_it_and_of_no_other() -> None:
    torch.manual_seed(0)
    head = seeded_head()
    ahead = torch.eye(4)
    ahead[:3] = torch.tensor([[16.0, 16.0, 0.0, 0.0], [0.0, 16.0, -16.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    back = ahead @ torch.diag(torch.tensor([-1.0, -1.0, 1.0, 1.0]))
    references = torch.tensor([[[0.5, 0.9, 5.0 / 8.0], [0.5, 0.9, 5.0 / 8.0]]])  # (0, 6.4, 0) m
    matrices = torch.stack((ahead, ahead, back))[None]
    inverse = torch.linalg.inv(matrices)

    pixels, seen = head._pixels(references, matrices)
    found = head._query_places(references, pixels, seen, inverse)

    assert seen[0, :, 0].tolist() == [True, True, False] and pixels[0, 0, 0].tolist() == [16.0, 16.0]
    cell = head.bev_embedding(co.encode_places(references[..., :2], 8))
    ray = head.rv_embedding(head.space.shares(co.ray_points(pixels[:, :1], inverse[:, :1], head.depths)).flatten(3))
    torch.testing.assert_close(found, cell + 2.0 * ray[:, 0])


def seeded_head() -> CmtHead:
    return CmtHead(
        4,
        8,
        layers=1,
        heads=2,
        hidden=8,
        queries=3,
        noise=3,
        cells=4,
        image_size=(32, 32),
        point_range=RANGE,
        momentum=0.1,
        encoding="cmt",
        near=False,
        sampled=False,
    )
