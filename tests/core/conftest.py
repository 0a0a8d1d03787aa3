"""What tests of jobs share: each finds the process as if it were new."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def fresh_process() -> Iterator[None]:
    import torch

    from fed_core.training import jobs

    threads = torch.get_num_threads()
    jobs._prepared.clear()
    yield
    jobs._prepared.clear()
    torch.set_num_threads(threads)
