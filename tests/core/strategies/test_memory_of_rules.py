"""What the robot half of FedDWA with DALoss allocates beside the model (feddwa spec 2.9)."""

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch

from benchmarks.parameter_copies import extra_copies, make_countable


def count(options: Mapping[str, Any]) -> float | str:
    """Return the copies, counted in this process; a text where its memory cannot be counted."""
    try:
        make_countable()
    except (OSError, AttributeError) as err:
        return f"the memory of a process cannot be counted here: {err}"
    torch.set_num_threads(1)
    return extra_copies(options)


@pytest.mark.parametrize("options", [{"kld_source": "running"}, {"cv_space": "update", "opt_state": "reset"}])
def test_feddwa_with_daloss_holds_four_copies_of_the_parameters_at_most(options: dict[str, Any]) -> None:
    """They are the global model, the correction by both controls (which come from files), and the sum of gradients.

    A fourth one would be a control that is copied, or a walk from the global model that is not taken bit by bit. A
    process of its own counts: one that ran other tests has freed memory, which it would take again unseen.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(count, options).result(timeout=100)

    if isinstance(found, str):
        pytest.skip(found)
    assert 2.9 < found < 3.5
