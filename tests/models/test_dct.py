import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dctn

from fed_models.blocks.dct import DctDownsample, block_matrix, dct_matrix, diagonals, from_coefficients, to_coefficients
from fed_models.blocks.progressive import COUNTS, ProgressiveDepth


@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_waves_are_orthonormal(size: int) -> None:
    waves = dct_matrix(size)

    torch.testing.assert_close(waves @ waves.T, torch.eye(size), atol=1e-6, rtol=0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 3))
def test_there_and_back_is_the_identity(seed: int, rows: int, columns: int) -> None:
    x = torch.randn(2, 1, 8 * rows, 8 * columns, generator=torch.Generator().manual_seed(seed))
    matrix = block_matrix(8)

    back = from_coefficients(to_coefficients(x, matrix), matrix)

    assert (back - x).abs().max() < 1e-5


def test_coefficients_are_those_of_scipy_by_row_and_column() -> None:
    block = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)

    found = to_coefficients(torch.from_numpy(block).view(1, 1, 8, 8), block_matrix(8))

    np.testing.assert_allclose(found.view(8, 8).numpy(), dctn(block, norm="ortho"), atol=1e-5)


def test_a_flat_block_has_one_coefficient() -> None:
    found = to_coefficients(torch.full((1, 1, 8, 8), 3.0), block_matrix(8)).flatten()

    assert found[0].item() == pytest.approx(24.0, rel=1e-6)  # 8 x 3
    assert found[1:].abs().max() < 1e-5


def test_channels_keep_their_frequencies_together() -> None:
    x = torch.stack([torch.full((4, 4), 1.0), torch.full((4, 4), 2.0)]).unsqueeze(0)

    found = to_coefficients(x, block_matrix(2))

    assert found.shape == (1, 8, 2, 2)
    torch.testing.assert_close(found[0, :, 0, 0], torch.tensor([2.0, 0, 0, 0, 4.0, 0, 0, 0]), atol=1e-6, rtol=0)


def test_diagonals_rise_from_coarse_to_fine() -> None:
    assert diagonals(3) == [[0], [3, 1], [6, 4, 2], [7, 5], [8]]


def test_steps_predict_the_published_numbers_of_coefficients() -> None:
    steps = ProgressiveDepth(8, 16, log_scale=4.0, keep_state=0.3, kernel=3)

    assert [conv.out_channels for conv in steps.heads.convs] == [1, 3, 6, 10, 15, 21, 36, 64, 64]
    sums = [index // 8 + index % 8 for index in steps.order.tolist()]
    assert sums == sorted(sums) and sorted(steps.order.tolist()) == list(range(64))
    # A step's set is a whole number of diagonals.
    assert [max(sums[:count]) for count in COUNTS[:8]] == [0, 1, 2, 3, 4, 5, 7, 14]


def test_each_step_touches_its_own_coefficients_only() -> None:
    torch.manual_seed(0)
    steps = ProgressiveDepth(8, 16, log_scale=4.0, keep_state=0.3, kernel=3).eval()
    with torch.no_grad():
        for conv in steps.heads.convs:
            conv.weight.zero_()
            conv.bias.fill_(0.5)

        logs, coefficients = steps(torch.zeros(1, 8, 2, 3))

    for number, (count, found) in enumerate(zip(COUNTS, coefficients, strict=True), start=1):
        assert (found != 0).sum(dim=1).eq(count).all(), number
    # The first is in all nine steps, a corner of the highest frequency in the last two.
    assert coefficients[-1][0, 0, 0, 0] == pytest.approx(4.5)
    assert coefficients[-1][0, 63, 0, 0] == pytest.approx(1.0)
    # One coefficient of 0.5: 0.5 / 8 in each pixel, times the scale.
    torch.testing.assert_close(logs[0], torch.full((1, 1, 16, 24), 0.25))


def test_only_the_step_itself_gets_the_gradient_of_its_depth() -> None:
    torch.manual_seed(0)
    steps = ProgressiveDepth(8, 16, log_scale=4.0, keep_state=0.0, kernel=3).eval()

    logs, _ = steps(torch.randn(1, 8, 2, 2))
    logs[3].sum().backward()

    touched = [i for i, conv in enumerate(steps.heads.convs) if conv.weight.grad is not None]
    assert touched == [3]


def test_shrinking_by_frequencies_gives_the_asked_channels() -> None:
    down = DctDownsample(6, 10, factor=4, reduction=4)

    assert down(torch.randn(2, 6, 16, 24)).shape == (2, 10, 4, 6)
    assert down.thin.out_channels == 24 and down.thin.groups == 6
