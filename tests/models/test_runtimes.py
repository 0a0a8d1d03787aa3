"""Networks that another runtime than PyTorch runs: the same depth, and one clear line where it cannot be."""

import logging
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.errors import ConfigError
from fed_core.tasks.depth import DepthTask
from fed_models import runtimes
from fed_models.runtimes import RuntimeUnavailableError, make_runner
from tests.models.one_layer import Tiny

RGB = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)


def runner_of(network: Any, runtime: str) -> Any:
    task = DepthTask()
    return make_runner(network, runtime, lambda found: task.predict(found, RGB))


def test_torch_is_the_network_itself() -> None:
    network = Tiny().eval()
    assert runner_of(network, "torch") is network


def test_an_unknown_runtime_is_refused() -> None:
    with pytest.raises(ConfigError, match="no runtime is called 'tpu'; known: torch, compile, onnx"):
        runner_of(Tiny(), "tpu")


def test_without_the_packages_one_line_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    text = r"runtime onnx needs the packages onnx, .* onnxruntime, .*; run: pip install 'fed_perception\[onnx\]'"
    with pytest.raises(RuntimeUnavailableError, match=f"^{text}$"):
        runner_of(Tiny().eval(), "onnx")


def test_what_a_compiler_does_not_take_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_(network: Any) -> Any:
        raise NotImplementedError("no such\noperator")

    monkeypatch.setattr(torch, "compile", compile_)
    text = r"Tiny cannot run with runtime compile; torch runs it instead \(NotImplementedError: no such operator\)"
    with pytest.raises(RuntimeUnavailableError, match=f"^{text}$"):
        runner_of(Tiny().eval(), "compile")


def test_only_warnings_are_silent_while_a_network_is_exported(capsys: pytest.CaptureFixture[str]) -> None:
    """Other nodes of the process write lines meanwhile, ``monitor`` to standard output."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with runtimes.quiet():
        warnings.warn("of the exporter", stacklevel=1)
        logger.warning("of the exporter")
        sys.stdout.write("a line\n")
        sys.stderr.write("an error\n")
    assert capsys.readouterr() == ("a line\n", "an error\n") and logger.level == level


def test_onnx_gives_the_same_depth_with_the_networks_attributes() -> None:
    pytest.importorskip("onnxruntime", reason="onnx, onnxscript and onnxruntime are optional")
    pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are optional")
    network, task = Tiny().eval(), DepthTask()
    runner = runner_of(network, "onnx")
    assert runner.input_size == (32, 48) and runner is not network
    calls: list[Any] = []
    network.register_forward_hook(lambda *seen: calls.append(seen))
    found = task.predict(runner, RGB)
    assert calls == []  # it was not PyTorch
    np.testing.assert_allclose(found, task.predict(network, RGB), rtol=1e-5)


def test_arguments_of_another_size_are_run_by_pytorch() -> None:
    pytest.importorskip("onnxruntime", reason="onnx, onnxscript and onnxruntime are optional")
    pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are optional")
    network = Tiny().eval()
    runner = runner_of(network, "onnx")
    image = torch.ones(1, 3, 16, 48)
    with torch.no_grad():
        assert torch.equal(runner(image).depth, network(image).depth)


@pytest.mark.slow
@pytest.mark.timeout(900)  # a compiler of C++ is at work
@pytest.mark.parametrize("runtime", ["compile", "onnx"])
def test_adabins_gives_the_same_depth(runtime: str) -> None:
    from fed_models import build

    if runtime == "onnx":
        pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are optional")
    network, task = build("adabins_s", {}).eval(), DepthTask()
    np.testing.assert_allclose(task.predict(runner_of(network, runtime), RGB), task.predict(network, RGB), rtol=1e-4)
