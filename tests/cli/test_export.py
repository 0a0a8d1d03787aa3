"""``fedperc export``: a model of a real, tiny simulation as files that other programs open, or one line and nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner, Result

from fed_cli.exporting.runs import find_runs
from fed_cli.main import app, load_verbs
from fed_core.tasks.depth.task import resize_rgb
from fed_core.types import IMAGE_MEAN, IMAGE_STD
from fed_core.wire.codec import open_tensors
from fed_models import build, load_arrays
from fed_models import export as exports

load_verbs()
FLEET = """
run: tiny
network: {name: adabins_s, options: {height: 64, width: 96, patch: 4}}
strategy: {name: STRATEGY}
rounds: 1
seed: 3
train: {batch_size: 2}
robots:
  - id: drone
    source: {generated: {platform: uav, environment: forest, seed: 11, frames: 3, width: 48, height: 36}}
  - id: dog
    source: {generated: {platform: legged, environment: indoor, seed: 16, frames: 3, width: 48, height: 36}}
"""


def simulated(folder: Path, strategy: str) -> Path:
    (folder / "fleet.yaml").write_text(FLEET.replace("STRATEGY", strategy))
    arguments = ["simulate", "--fleet", str(folder / "fleet.yaml"), "--out", str(folder / "run"), "--threads", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return folder / "run"


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("fedavg"), "fedavg")


@pytest.fixture(scope="module")
def fedbn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("fedbn"), "fedbn")


def export(run: Path, out: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["export", str(run), "--out", str(out), *arguments])


def refused(run: Path, out: Path, *arguments: str) -> str:
    """Return the one line that an export ends with; nothing of it is left."""
    before = sorted(out.parent.iterdir())
    result = export(run, out, *arguments)
    assert result.exit_code == 2, result.output
    assert sorted(out.parent.iterdir()) == before
    return result.output.splitlines()[-1]


def test_a_package_holds_models_config_and_card(fedavg: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    done = export(fedavg, out, "--format", "torchscript", "--format", "safetensors", "--license", "CC-BY-4.0")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "config.yaml", "model.pt", "model.safetensors"]
    assert f"{fedavg}: global, the run has no other" in done.output
    assert "compared with PyTorch on 2 recorded frames of dog\n" in done.output
    config = yaml.safe_load((out / "config.yaml").read_text())
    options = {"height": 64, "width": 96, "patch": 4}
    assert config["network"]["options"] == options and config["task"]["input_size"] == [64, 96]
    script = config["files"][0]
    assert [(port["name"], port["shape"]) for port in script["inputs"]] == [("image", ["batch", 3, 64, 96])]
    assert "metres" in script["outputs"][0]["meaning"] and script["relative"] <= 1e-4
    blob = find_runs(fedavg).runs[0].plan.blobs["global"]
    assert config["files"][1]["digest"] == blob.digest  # the aggregator's very file

    network = build("adabins_s", options).eval()
    load_arrays(network, open_tensors(out / "model.safetensors"))
    image = torch.randn(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = torch.jit.load(str(out / "model.pt"))(image)[0]  # type: ignore[no-untyped-call]
        torch.testing.assert_close(found, network(image).depth, rtol=1e-4, atol=1e-5)


def test_the_card_tells_what_the_run_knows(fedavg: Path, tmp_path: Path) -> None:
    assert export(fedavg, tmp_path / "out", "--format", "safetensors", "--license", "CC-BY-4.0").exit_code == 0
    card = (tmp_path / "out" / "README.md").read_text()
    for told in (
        "# adabins_s: global of tiny",
        "| network | adabins_s, height=64, patch=4, width=96 |",
        "| strategy | fedavg, default options |",
        "| chosen because | the run has no other |",
        "| seed | 3 |",
        "| dog | 3 | - | yes | synthetic: platform legged, environment indoor, seed 16 |",
        "**All of it is synthetic**",
        "No unseen sequence was scored with this model.",
        "- Weights: CC-BY-4.0.",
        "- Network adabins_s: Apache-2.0, no weights are shipped.",
    ):
        assert told in card
    assert str(tmp_path) not in card and str(fedavg) not in card


def test_a_robots_model_has_its_own_layers_and_the_fleets(fedbn: Path, tmp_path: Path) -> None:
    assert export(fedbn, tmp_path / "out", "--format", "safetensors", "--robot", "dog").exit_code == 0
    found = open_tensors(tmp_path / "out" / "model.safetensors")
    run = find_runs(fedbn).runs[0]
    shared = open_tensors(fedbn / "blobs" / run.plan.blobs["global"].digest)
    own = open_tensors(fedbn / "robots" / "dog" / "rounds" / "tiny" / "1" / "own.safetensors")
    assert 0 < len(shared) < len(found) == len(own)
    for name in found:
        np.testing.assert_array_equal(found[name], shared[name] if name in shared else own[name])
    moved = [name for name in shared if not np.array_equal(shared[name], own[name])]
    assert moved  # so the fleet's tensors are not the robot's
    assert "# adabins_s: model of robot dog of tiny" in (tmp_path / "out" / "README.md").read_text()


def test_a_model_that_is_not_whole_names_the_robots(fedbn: Path, tmp_path: Path) -> None:
    line = refused(fedbn, tmp_path / "out", "--model", "global")
    assert line.startswith("error: fedbn keeps ") and line.endswith(
        "on each robot; name a robot with --robot: dog, drone"
    )


def test_a_robots_damaged_file_is_one_line_and_not_another_model(fedbn: Path, tmp_path: Path) -> None:
    run = shutil.copytree(fedbn, tmp_path / "run")
    (run / "robots" / "dog" / "rounds" / "tiny" / "1" / "own.safetensors").write_bytes(b"torn")
    line = refused(run, tmp_path / "out", "--robot", "dog")
    folder = run / "robots" / "dog"
    assert line.endswith(f"error: what dog keeps to itself in {folder} is damaged, so its model is not known")


def test_a_folder_that_is_there_is_replaced_only_with_force(fedavg: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert export(fedavg, out, "--format", "safetensors").exit_code == 0
    line = refused(fedavg, out, "--format", "torchscript")
    assert line == f"error: {out} exists; name another folder, or replace it with --force"
    assert export(fedavg, out, "--format", "torchscript", "--force").exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "config.yaml", "model.pt"]
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "thesis.tex").touch()
    line = refused(fedavg, other, "--force")
    assert line == f"error: {other} is no export, so --force does not replace it; name another folder"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--size", "big"], "--size is 'big'; give height x width in pixels, as 96x160"),
        (["--size", "0x96"], "--size is '0x96'; give height x width in pixels, as 96x160"),
        (["--size", "70x96"], "height and width must be multiples of 32"),
        (
            ["--size", "96x96"],
            "do not fit the network adabins_s in this size; leave --size away (tensor 'vit",
        ),
        (["--format", "tflite"], "no format is called 'tflite'; known: torchscript, onnx, safetensors"),
        (["--model", "cluster/3"], "no model of {run} is called 'cluster/3'; known: global"),
        (["--robot", "cat"], "no robot of {run} is called 'cat'; known: dog, drone"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], text: str, fedavg: Path, tmp_path: Path) -> None:
    assert text.format(run=fedavg) in refused(fedavg, tmp_path / "out", *arguments)


def test_another_size_where_the_weights_allow_it(fedavg: Path, tmp_path: Path) -> None:
    assert export(fedavg, tmp_path / "out", "--size", "96x64", "--format", "torchscript").exit_code == 0
    config = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert config["files"][0]["inputs"][0]["shape"] == ["batch", 3, 96, 64]


def test_no_run_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    assert "name the folder of a run" in refused(tmp_path / "no", tmp_path / "results" / "out")


def test_without_the_packages_of_onnx_one_line_says_how(
    fedavg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    line = refused(fedavg, tmp_path / "out", "--format", "onnx")
    assert "format onnx needs the packages onnx, onnxscript and onnxruntime" in line
    assert line.endswith("pip install 'fed_perception[onnx]'")


def test_a_model_that_gives_something_else_leaves_nothing(
    fedavg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "TOLERANCE", -1.0)
    line = refused(fedavg, tmp_path / "out", "--format", "safetensors", "--format", "torchscript")
    assert "the written model gives another depth than PyTorch" in line
    assert line.endswith("--format safetensors keeps its weights for PyTorch")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_script_of_the_page_runs_the_exported_model(fedavg: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnx, onnxscript and onnxruntime are optional")
    assert export(fedavg, tmp_path / "exported", "--format", "onnx").exit_code == 0
    rgb = np.random.default_rng(0).integers(0, 255, (72, 128, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "image.png"), cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    script = page.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr

    network = build("adabins_s", {"height": 64, "width": 96, "patch": 4}).eval()
    chosen = find_runs(fedavg).runs[0]
    load_arrays(network, chosen.weights_of("global"))
    with torch.no_grad():
        small = torch.from_numpy(resize_rgb(rgb, 64, 96)).permute(2, 0, 1)[None].double() / 255.0
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGE_MEAN, IMAGE_STD))
        depth = network(((small - mean) / std).float()).depth
    numbers = done.stdout.replace(" to ", " ").replace(",", "").split()
    assert numbers[0] == "64x96"
    assert [float(text) for text in numbers[1:3]] == pytest.approx(
        [float(depth.min()), float(depth.max())], rel=1e-3, abs=2e-3
    )
