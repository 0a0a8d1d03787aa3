"""Networks as files for other programs: the same outputs after they are opened again, or one line and no file."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fed_core.errors import ConfigError, FedError
from fed_models import build, export
from fed_models.depth import DepthOutput
from fed_models.export import ExportError, check_format, compare, write_graph, write_weights
from fed_models.ports import Port, deployed
from tests.models.one_layer import Tiny


class OneSize(Tiny):
    """A tracer takes the number of images for a constant."""

    def forward(self, x: torch.Tensor) -> DepthOutput:
        return DepthOutput(self.layer(x).exp() + torch.zeros(int(x.shape[0]), 1, 32, 48))


class Deaf(Tiny):
    """A tracer takes what it saw for a constant."""

    def forward(self, x: torch.Tensor) -> DepthOutput:
        return DepthOutput(self.layer(x).exp() * float(torch.rand(())))


class Opaque(Tiny):
    """No tracer gets through."""

    def forward(self, x: torch.Tensor) -> DepthOutput:
        if isinstance(self.layer.weight, nn.Parameter) and torch.jit.is_tracing():
            raise NotImplementedError("no such\noperator")
        return super().forward(x)


def written(network: Any, name: str, folder: Path, task: str = "depth") -> export.Exported:
    found = deployed(task, network.eval())
    return write_graph(found, name, found.noise(torch.Generator().manual_seed(0)), folder)


def onnx_session(path: Path) -> Any:
    return pytest.importorskip("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", ["torchscript", "onnx"])
def test_a_file_gives_the_same_depth_for_any_number_of_images(name: str, tmp_path: Path) -> None:
    if name == "onnx":
        pytest.importorskip("onnxscript")
    network = Tiny().eval()
    exported = written(network, name, tmp_path)
    assert [port.shape for port in exported.inputs] == [("batch", 3, 32, 48)]
    assert [(port.name, port.shape) for port in exported.outputs] == [("depth", ("batch", 1, 32, 48))]
    assert exported.relative < 1e-6 and exported.size_bytes == (tmp_path / exported.file).stat().st_size
    images = torch.randn(3, 3, 32, 48, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        wanted = network(images).depth.numpy()
    if name == "onnx":
        found = onnx_session(tmp_path / "model.onnx").run(["depth"], {"image": images.numpy()})[0]
        assert exported.opset >= 18
    else:
        found = torch.jit.load(str(tmp_path / "model.pt"))(images)[0].detach().numpy()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_network_of_one_size_is_written_for_that_size(tmp_path: Path) -> None:
    exported = written(OneSize(), "torchscript", tmp_path)
    assert exported.inputs[0].shape == (1, 3, 32, 48) and exported.outputs[0].shape == (1, 1, 32, 48)


def test_a_network_that_no_tracer_follows_is_one_line_that_offers_safetensors(tmp_path: Path) -> None:
    text = (
        r"Opaque cannot be written as torchscript \(NotImplementedError: no such operator\); "
        "--format safetensors keeps its weights for PyTorch"
    )
    with pytest.raises(ExportError, match=f"^{text}$"):
        written(Opaque(), "torchscript", tmp_path)


def test_a_file_that_gives_something_else_is_refused(tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = (
        r"Deaf: the written model gives another depth than PyTorch: [\d.]+ of its largest value away, at most 0.0001 is"
    )
    with pytest.raises(ExportError, match=f"^{text} allowed; --format safetensors keeps its weights for PyTorch$"):
        written(Deaf(), "torchscript", tmp_path)


def test_differences_by_hand() -> None:
    port = (Port("depth", (2,), "m"),)
    wanted = (torch.tensor([1.0, -100.0]),)
    assert compare(port, wanted, [np.array([1.0, -99.995], np.float32)]) == pytest.approx((0.005, 5e-5), rel=1e-2)
    for worse in ([1.0, -99.98], [float("nan"), -100.0]):
        with pytest.raises(ExportError, match="the written model gives another depth than PyTorch"):
            compare(port, wanted, [np.array(worse, np.float32)])
    with pytest.raises(ExportError, match=r"gives depth \(1,\) where PyTorch gives \(2,\)"):
        compare(port, wanted, [np.array([1.0], np.float32)])


def test_weights_come_back_bit_by_bit(tmp_path: Path) -> None:
    network, fresh = Tiny(), Tiny()
    with torch.no_grad():
        network.layer.weight[0, 0, 0, 0] = float("nan")
    exported = write_weights(network, fresh, tmp_path)
    assert (exported.file, exported.relative, exported.inputs) == ("model.safetensors", 0.0, ())
    assert torch.isnan(fresh.layer.weight[0, 0, 0, 0]) and torch.equal(fresh.layer.bias, network.layer.bias)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="^no format is called 'tflite'; known: torchscript, onnx, safetensors$"):
        check_format("tflite")


def test_without_the_packages_of_onnx_one_line_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    text = r"^format onnx needs the packages onnx, onnxscript and onnxruntime, .*pip install 'fed_perception\[onnx\]'$"
    with pytest.raises(FedError, match=text):
        check_format("onnx")


def test_a_task_without_plain_tensors_is_refused() -> None:
    for task, network in (("music", Tiny()), ("detection", Tiny())):
        with pytest.raises(ConfigError, match=f"Tiny of the task '{task}' does not go from plain tensors to plain"):
            deployed(task, network)


@pytest.mark.parametrize(
    ("name", "task"),
    [("fax_tiny", "bev"), ("cmt_tiny", "detection"), pytest.param("dcdepth_s", "depth", marks=pytest.mark.slow)],
)
def test_networks_of_all_tasks_as_torchscript(name: str, task: str, tmp_path: Path) -> None:
    exported = written(build(name, {}), "torchscript", tmp_path, task)
    # DCDepth's tracer takes the number of images for a constant.
    assert [port.shape[0] for port in exported.inputs][-1] == {"bev": "batch", "detection": "points", "depth": 1}[task]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "task"),
    [("adabins_s", "depth"), ("fax_tiny", "bev"), ("cmt_tiny", "detection")],
)
def test_networks_of_all_tasks_as_onnx(name: str, task: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are optional")
    exported = written(build(name, {}), "onnx", tmp_path, task)
    assert [port.shape[0] for port in exported.inputs][-1] == {"detection": "points"}.get(task, "batch")
