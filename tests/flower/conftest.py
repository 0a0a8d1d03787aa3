"""What tests of the Flower bridge share: they need flwr, and each finds the process as if it were new."""

from collections.abc import Iterator

import pytest

try:
    import flwr
except ImportError:  # Python 3.10, or installed without the extra
    flwr = None  # type: ignore[assignment]
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    import torch

    from fed_core.training import jobs

    threads = torch.get_num_threads()
    jobs._prepared.clear()
    yield
    jobs._prepared.clear()
    torch.set_num_threads(threads)
