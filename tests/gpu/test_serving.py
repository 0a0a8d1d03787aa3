"""Live networks on a GPU say what they say on the CPU."""

import numpy as np
import pytest

from fed_core.roles.messages import RunConfig
from fed_models import build
from fed_nodes.live.serving import LiveModel, ServingThread

pytestmark = pytest.mark.gpu

RUN = RunConfig("fedavg", {}, "depth", "adabins_s", {}, {}, total_rounds=1, seed=0)


def predicted(monkeypatch: pytest.MonkeyPatch, weights: dict[str, np.ndarray], device: str) -> np.ndarray:
    monkeypatch.setattr("fed_nodes.live.serving._weights", lambda model, signature: weights)
    thread = ServingThread(1, lambda result: None, lambda text: None, device=device)
    try:
        live = thread._build(LiveModel(RUN, {}))
    finally:
        thread.close()
    assert next(live.network.parameters()).device.type == device
    found: np.ndarray = live.predict(np.random.default_rng(0).integers(0, 256, (120, 160, 3), np.uint8))
    return found


def test_depth_of_a_gpu_is_that_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {name: tensor.numpy() for name, tensor in build("adabins_s", {}).state_dict().items()}
    found, expected = (predicted(monkeypatch, weights, device) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(found, expected, rtol=0.02)
