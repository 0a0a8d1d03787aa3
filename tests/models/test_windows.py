import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.errors import ConfigError
from fed_models.blocks.crf import CrfBlock, CrfStage, check_widths
from fed_models.blocks.windows import HIDDEN, merge, partition, relative_index, shift_mask


def test_windows_are_cut_row_by_row() -> None:
    x = torch.arange(16.0).view(1, 4, 4, 1)

    cut = partition(x, 2)

    assert cut[..., 0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


@settings(max_examples=20)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_merging_undoes_the_cut(batch: int, window: int, rows: int, columns: int) -> None:
    x = torch.randn(batch, rows * window, columns * window, 2)

    assert torch.equal(merge(partition(x, window), window, (rows * window, columns * window)), x)


def test_wrapped_cells_are_hidden_from_their_new_neighbours() -> None:
    # One window of 2x2 over a map rolled by 1: rows 1 0, columns 1 0; no two cells are true neighbours.
    mask = shift_mask((2, 2), 2, torch.device("cpu"))

    assert mask.shape == (1, 4, 4)
    assert torch.equal(mask[0] == 0.0, torch.eye(4, dtype=torch.bool))
    # Over 4x4 the first window holds what belongs together, the last one four corners.
    wide = shift_mask((4, 4), 2, torch.device("cpu"))
    assert (wide[0] == 0.0).all()
    assert (wide[3] == HIDDEN).sum() == 12


def test_relative_places_are_counted_from_the_far_corner() -> None:
    # Offsets of cell a to cell b: (0, 0) is row 4 of the 3x3 table, one to the right is 3, one down is 1.
    assert relative_index(2).tolist() == [[4, 3, 1, 0], [5, 4, 2, 1], [7, 6, 4, 3], [8, 7, 5, 4]]


def plain_block(window: int, *, shifted: bool) -> CrfBlock:
    """A block whose attention is a plain mean over the window, without MLP."""
    block = CrfBlock(4, 1, window, shifted=shifted)
    with torch.no_grad():
        for layer in (block.attention.qk, block.mlp[2]):
            layer.weight.zero_()
            layer.bias.zero_()
        block.attention.bias_table.zero_()
        block.attention.proj.weight.copy_(torch.eye(4))
        block.attention.proj.bias.zero_()
    return block


def test_cells_outside_of_the_map_count_as_zeros() -> None:
    ones = torch.ones(1, 3, 3, 4)

    out = plain_block(4, shifted=False)(torch.zeros_like(ones), ones)

    # 9 of the 16 cells of the window lie on the map.
    torch.testing.assert_close(out, torch.full_like(ones, 9 / 16))


def test_a_shifted_block_hears_only_true_neighbours() -> None:
    v = torch.zeros(1, 4, 4, 4)
    v[0, 0, 0] = 1.0

    out = plain_block(2, shifted=True)(torch.zeros_like(v), v)[0, ..., 0].detach()

    # Windows shifted by 1 cut the corner off alone: it hears itself, and nobody across the edge hears it.
    assert out[0, 0].item() == pytest.approx(1.0)
    assert out.sum().item() == pytest.approx(1.0, abs=1e-6)


def test_the_message_is_the_prediction_weighed_by_features() -> None:
    block = plain_block(2, shifted=False)
    v = torch.arange(4.0).view(1, 2, 2, 1).expand(1, 2, 2, 4)
    with torch.no_grad():
        block.attention.bias_table[relative_index(2)[0, 3]] = 30.0  # the first cell looks at the last

    out = block(torch.zeros_like(v), v)

    assert out[0, 0, 0, 0].item() == pytest.approx(3.0)
    assert out[0, 1, 1, 0].item() == pytest.approx(1.5)


@pytest.mark.parametrize("size", [(3, 5), (4, 4), (6, 10)])
def test_a_stage_keeps_the_size_of_any_map(size: tuple[int, int]) -> None:
    stage = CrfStage(6, 3, 8, num_heads=2, window=4)

    out = stage(torch.randn(2, 6, *size), torch.randn(2, 3, *size))

    assert out.shape == (2, 8, *size)
    # LayerNorm at the end: every cell has mean 0.
    torch.testing.assert_close(out.mean(dim=1), torch.zeros(2, *size), atol=1e-5, rtol=0)


def test_fields_that_cannot_be_split_are_refused() -> None:
    check_widths((256, 48), (8, 2))
    with pytest.raises(ConfigError, match="a field of 48 channels and 5 heads cannot be; use a multiple of 4 and of"):
        check_widths((256, 48), (8, 5))
    with pytest.raises(ConfigError, match="a field of 30 channels and 2 heads"):
        check_widths((30,), (2,))
