"""The networks in the size of their papers: built without memory, except for one forward pass."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from fed_core.errors import ConfigError
from fed_models import build, state_arrays
from fed_models.blocks.swin import SwinEncoder, SwinWidths
from fed_models.depth import DepthNetwork
from fed_models.newcrfs import NewcrfsWidths
from fed_models.weights import start_from

ROOT = Path(__file__).resolve().parents[2]


def on_paper(name: str, **options: object) -> DepthNetwork:
    """A network without memory for its weights."""
    with torch.device("meta"):
        network = build(name, options)
    assert isinstance(network, DepthNetwork)
    return network


@pytest.mark.parametrize(
    ("name", "millions", "size", "final"),
    [
        ("adabins_b5", 78.2, (384, 640), (256, 128, 1, 1)),
        ("newcrfs_tiny", 88.5, (480, 640), (1, 128, 3, 3)),
        ("newcrfs_base", 140.0, (480, 640), (1, 128, 3, 3)),
        ("newcrfs_large", 270.4, (480, 640), (1, 128, 3, 3)),
        ("dcdepth_tiny", 79.7, (480, 640), (64, 192, 3, 3)),
        ("dcdepth_large", 259.5, (480, 640), (64, 192, 3, 3)),
    ],
)
def test_sizes_are_those_of_the_papers(name: str, millions: float, size: tuple[int, int], final: object) -> None:
    network = on_paper(name)

    assert sum(p.numel() for p in network.parameters()) / 1e6 == pytest.approx(millions, abs=0.1)
    assert network.input_size == size
    assert tuple(network.state_dict()[network.final_layer()[0]].shape) == final


@pytest.mark.parametrize("name", ["newcrfs_tiny", "dcdepth_tiny", "adabins_b5"])
def test_a_forward_pass_on_paper_has_the_right_shapes(name: str) -> None:
    network = on_paper(name, height=384, width=640).eval()

    with torch.device("meta"), torch.no_grad():
        output = network(torch.empty(1, 3, 384, 640))

    assert output.depth.shape == (1, 1, 384, 640)
    assert network.encode(torch.empty(1, 3, 384, 640, device="meta")).shape[1] == (768 if "tiny" in name else 2048)


def test_maps_of_efficientnet_are_those_of_the_paper() -> None:
    network = on_paper("adabins_b5").eval()

    maps = network.encoder(torch.empty(1, 3, 384, 640, device="meta"))

    assert [tuple(m.shape[1:]) for m in maps] == [
        (24, 192, 320),
        (40, 96, 160),
        (64, 48, 80),
        (176, 24, 40),
        (2048, 12, 20),
    ]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("adabins_b5", {"height": 192, "width": 320}, "give AdaBins 60 patches, it needs at least 129"),
        ("adabins_b5", {"height": 736, "width": 1280}, "give AdaBins 920 patches, it has 500 positions"),
        ("adabins_b5", {"width": 650}, "AdaBins got images of 384x650; height and width must be multiples of 32"),
        ("newcrfs_large", {"height": 470}, "NeWCRFs got images of 470x640; height and width must be multiples of 32"),
        ("dcdepth_large", {"height": 32, "width": 32}, "give DCDepth 1 cell at stride 32, it needs at least 2"),
        ("newcrfs_tiny", {"window": 1}, "NewcrfsTiny.window is 1; it must be at least 2"),
    ],
)
def test_sizes_that_cannot_work_are_refused(name: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        on_paper(name, **options)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_without_efficientnet_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_pytorch", None)

    with pytest.raises(ConfigError, match="EfficientNet-B5 needs the package efficientnet_pytorch, .*run: pip install"):
        on_paper("adabins_b5")


def test_names_are_listed_without_the_heavy_packages() -> None:
    code = (
        "import sys; import fed_models; names = fed_models.networks.names(); "
        "print('newcrfs_large' in names, sorted({'transformers', 'efficientnet_pytorch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT}/models"},
    )
    assert done.stdout == "True []\n", done.stderr


def test_a_network_starts_from_a_file(tmp_path: Path) -> None:
    options = {"height": 64, "width": 96}
    first, second = build("newcrfs_s", options), build("newcrfs_s", options)
    arrays = state_arrays(first)
    safetensors.numpy.save_file(arrays, tmp_path / "w.safetensors")

    start_from(second, str(tmp_path / "w.safetensors"))

    assert all(np.array_equal(array, arrays[name]) for name, array in state_arrays(second).items())


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    network = build("newcrfs_s", {"height": 64, "width": 96})
    safetensors.numpy.save_file({"a": np.zeros(3, np.float32)}, tmp_path / "w.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")

    for file, words in (
        ("w.safetensors", r"the weights lack \d+ tensor\(s\), first 'encoder.backbone.* make such a file with fedperc"),
        ("none.safetensors", "cannot read .*none.safetensors: No such file or directory; make such a file"),
        ("text.safetensors", "weights .*text.safetensors: "),
    ):
        with pytest.raises(ConfigError, match=words):
            start_from(network, str(tmp_path / file))


def test_an_encoder_starts_from_a_local_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers")
    small = SwinWidths(16, (1, 1, 1, 1), (1, 1, 2, 2), window=4, drop_path=0.0)
    shape = {"embed_dim": 16, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4}
    published = transformers.SwinForImageClassification(transformers.SwinConfig(**shape, num_labels=3))
    published.save_pretrained(tmp_path / "swin")
    encoder = SwinEncoder(small)
    capfd.readouterr()

    encoder.load_folder(str(tmp_path / "swin"))

    state = {k.removeprefix("backbone."): v for k, v in encoder.state_dict().items() if ".swin." in k}
    assert state and all(torch.equal(tensor, published.state_dict()[name]) for name, tensor in state.items())
    with pytest.raises(ConfigError, match="holds a Swin with embed_dim 16, .*; this network needs embed_dim 32"):
        SwinEncoder(SwinWidths(32, (1, 1, 1, 1), (1, 1, 2, 2), window=4)).load_folder(str(tmp_path / "swin"))
    (tmp_path / "swin" / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="cannot read a Swin encoder from .*model.safetensors"):
        encoder.load_folder(str(tmp_path / "swin"))
    (tmp_path / "swin" / "config.json").unlink()
    with pytest.raises(ConfigError, match="cannot read a Swin encoder from .*: there is no config.json"):
        encoder.load_folder(str(tmp_path / "swin"))
    assert capfd.readouterr() == ("", "")


def test_paper_widths_are_the_defaults() -> None:
    assert (NewcrfsWidths().crf, NewcrfsWidths().num_heads) == ((1024, 512, 256, 128), (32, 16, 8, 4))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_adabins_b5_sees_an_image() -> None:
    network = build("adabins_b5", {}).eval()

    with torch.no_grad():
        output = network(torch.randn(1, 3, 384, 640, generator=torch.Generator().manual_seed(0)))

    assert output.depth.shape == (1, 1, 384, 640) and output.centres.shape == (1, 256)
    assert output.depth.min() > 0.1 and output.depth.max() < 80.0
