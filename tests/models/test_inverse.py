"""Inverses in closed form: those of LAPACK, by hand where the numbers are easy."""

import torch

from fed_models.blocks.inverse import inverse_3x3, inverse_affine


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_pinhole_matrix_by_hand() -> None:
    pinhole = torch.tensor([[50.0, 0.0, 32.0], [0.0, 40.0, 24.0], [0.0, 0.0, 1.0]])
    wanted = torch.tensor([[0.02, 0.0, -0.64], [0.0, 0.025, -0.6], [0.0, 0.0, 1.0]])
    torch.testing.assert_close(inverse_3x3(pinhole), wanted)


def test_any_3x3_matrices_as_the_library_inverts_them() -> None:
    matrices = random(5, 4, 3, 3)
    torch.testing.assert_close(inverse_3x3(matrices), torch.linalg.inv(matrices))


def test_a_projection_as_the_library_inverts_it() -> None:
    """Pixels and metres: entries differ by orders of magnitude."""
    matrices = torch.eye(4, dtype=torch.float64).repeat(3, 2, 1, 1)
    matrices[..., :3, :] = random(3, 2, 3, 4) * torch.tensor([[800.0], [800.0], [1.0]], dtype=torch.float64)
    found = inverse_affine(matrices)
    torch.testing.assert_close(found, torch.linalg.inv(matrices))
    assert torch.equal(found[..., 3, :], matrices[..., 3, :])


def test_single_precision_stays_single_and_close() -> None:
    matrices = random(64, 3, 3).float() + 3.0 * torch.eye(3)
    torch.testing.assert_close(inverse_3x3(matrices), torch.linalg.inv(matrices), rtol=1e-4, atol=1e-5)
