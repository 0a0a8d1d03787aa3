"""What the robot half of FedDWA with DALoss allocates beside the model (feddwa spec 2.9)."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from benchmarks.parameter_copies import extra_copies, make_countable


@pytest.fixture
def countable() -> Iterator[None]:
    try:
        make_countable()
    except (OSError, AttributeError) as err:
        pytest.skip(f"the memory of this process cannot be counted here: {err}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("countable")
@pytest.mark.parametrize("options", [{"kld_source": "running"}, {"cv_space": "update", "opt_state": "reset"}])
def test_feddwa_with_daloss_holds_four_copies_of_the_parameters_at_most(options: dict[str, Any]) -> None:
    """They are the global model, the correction by both controls (which come from files), and the sum of gradients.

    A fourth one would be a control that is copied, or a walk from the global model that is not taken bit by bit.
    """
    assert 2.9 < extra_copies(options) < 3.5
