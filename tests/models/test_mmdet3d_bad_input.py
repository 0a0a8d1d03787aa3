"""What cannot work with mmdet3d ends in one clear line; and the library keeps its own words to itself."""

import builtins
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.errors import ConfigError
from fed_models import build
from tests.core.tasks.detection_frames import made_frame
from tests.models.mmdet3d_configs import POINTPILLARS, batch_of, write_config

ROOT = Path(__file__).resolve().parents[2]


def failure(**options: str) -> str:
    """Return the one line that building ends in."""
    with pytest.raises(ConfigError) as caught:
        build("mmdet3d", options)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("absent", ["mmdet3d", "mmengine.registry"])
def test_the_extra_is_absent(monkeypatch: pytest.MonkeyPatch, absent: str) -> None:
    if absent != "mmdet3d":
        pytest.importorskip("mmdet3d", reason="mmdet3d is not installed; run: make setup-detection (docs/mmdet3d.md)")
    monkeypatch.setitem(sys.modules, absent, None)  # as if it were not installed
    assert failure(config="any.py") == (
        f"the network mmdet3d needs the extra 'detection' ({absent} is absent); "
        "run: make setup-detection (docs/mmdet3d.md)"
    )


def test_a_missing_config_is_no_option_to_leave_out() -> None:
    with pytest.raises(ConfigError, match="network mmdet3d: key 'config' is missing"):
        build("mmdet3d", {})


@pytest.fixture
def mmdet3d() -> Any:
    return pytest.importorskip(
        "mmdet3d", reason="mmdet3d is not installed; run: make setup-detection (docs/mmdet3d.md)"
    )


@pytest.mark.parametrize("path", ["/nowhere/detector.py", "mmdet3d::pointpillars/none.py"])
def test_no_such_config(mmdet3d: Any, path: str) -> None:
    assert failure(config=path) == (
        f"mmdet3d config {path} does not exist; give its path, or mmdet3d::FOLDER/FILE of those shipped"
    )


CONFIGS = [
    ("x = (", "cannot be read: "),
    ('_base_ = "nothing.py"', "cannot be read: "),
    ('custom_imports = dict(imports=["no_such_project"])', "cannot be read: Failed to import custom modules"),
    ("a = 1", "has no 'model'; name the config of a detector, not a part of one"),
    (
        POINTPILLARS + 'model["backbone"].update(type="NoSuchNet")',
        "needs 'NoSuchNet', which mmdet3d 1.4.0 here does not have; "
        "install what registers it and name that in the config's custom_imports",
    ),
    (POINTPILLARS + 'model["neck"].update(colour="red")', "does not build: "),
    (
        POINTPILLARS.replace('["Pedestrian", "Cyclist", "Car"]', '["Car"]'),
        "has 1 class_names, but its head has 3 classes; make them equal, in the order of the head",
    ),
    (
        POINTPILLARS.replace('["Pedestrian", "Cyclist", "Car"]', '["Cow", "Sheep", "Goat"]'),
        "knows none of our classes (it has Cow, Sheep, Goat); ours: car, truck, ",
    ),
    (POINTPILLARS.replace("class_names", "names"), "has no 'class_names'; add the list in the order of its head"),
    (
        POINTPILLARS + 'test_dataloader = dict(dataset=dict(box_type_3d="Camera"))',
        "finds boxes in the frame of a camera; take a detector of boxes in the LiDAR frame",
    ),
    (
        POINTPILLARS + 'test_pipeline = [dict(type="LoadMultiViewImageFromFiles")]',
        "takes pictures, but its pipeline names no size; add a Resize step to it",
    ),
]


@pytest.mark.parametrize(("text", "wanted"), CONFIGS, ids=[wanted[:24] for _, wanted in CONFIGS])
def test_unusable_configs(mmdet3d: Any, tmp_path: Path, text: str, wanted: str) -> None:
    path = write_config(tmp_path, text)
    found = failure(config=path)
    assert found.startswith(f"mmdet3d config {path} {wanted}")
    assert len(found) < len(path) + 300


def test_an_operation_that_mmcv_lacks(mmdet3d: Any) -> None:
    config = "mmdet3d::second/second_hv_secfpn_8xb6-80e_kitti-3d-3class.py"
    network = build("mmdet3d", {"config": config}).eval()
    with pytest.raises(ConfigError) as caught:
        network(batch_of(made_frame(0)))
    assert str(caught.value) == (
        f"mmdet3d config {config} needs the operation get_indice_pairs, which mmcv here lacks on cpu; "
        "train it where mmcv has it (a GPU) or take a config without it"
    )


def test_a_checkpoint_of_mmengine_loads(mmdet3d: Any, tmp_path: Path) -> None:
    from mmengine.logging import HistoryBuffer

    config, path = write_config(tmp_path), str(tmp_path / "epoch_1.pth")
    one = build("mmdet3d", {"config": config})
    losses = HistoryBuffer()
    losses.update(0.25)
    tree = {"meta": {"epoch": 1, "cfg": "text", "seed": np.int64(3)}, "state_dict": one.detector.state_dict()}
    torch.save(tree | {"message_hub": {"log_scalars": {"train/loss": losses}}}, path)

    two = build("mmdet3d", {"config": config, "checkpoint": path})

    assert all(torch.equal(tensor, two.state_dict()[name]) for name, tensor in one.state_dict().items())


def test_a_checkpoint_of_other_shapes(mmdet3d: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "wide.pth")
    wide = build("mmdet3d", {"config": write_config(tmp_path, width=32)})
    torch.save({"state_dict": wide.detector.state_dict()}, path)
    assert failure(config=write_config(tmp_path), checkpoint=path) == (
        f"checkpoint {path}: tensor 'backbone.blocks.0.0.weight' is (32, 32, 3, 3), the config makes it "
        "(16, 16, 3, 3); give weights of the same config"
    )


def test_a_checkpoint_of_other_tensors(mmdet3d: Any, tmp_path: Path) -> None:
    config, path = write_config(tmp_path), str(tmp_path / "other.pth")
    state = build("mmdet3d", {"config": config}).detector.state_dict()
    torch.save({**state, "extra": torch.zeros(1)}, path)
    assert failure(config=config, checkpoint=path) == (
        f"checkpoint {path} holds 1 tensor(s) that the config does not make, first 'extra'; "
        "give weights of the same config"
    )
    del state["neck.deblocks.0.0.weight"]
    torch.save(state, path)
    assert failure(config=config, checkpoint=path) == (
        f"checkpoint {path} lacks tensor 'neck.deblocks.0.0.weight' of the config; give weights of the same config"
    )


class Evil:
    def __reduce__(self) -> Any:
        return builtins.print, ("code of a checkpoint ran",)


def test_unreadable_checkpoints(mmdet3d: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, path = write_config(tmp_path), tmp_path / "bad.pth"
    gone = f"checkpoint {path} does not exist; give the path of a checkpoint of mmdet3d"
    assert failure(config=config, checkpoint=str(path)) == gone
    for content in (b"", b"no pickle", pickle.dumps({"state_dict": Evil()})):
        path.write_bytes(content)
        assert failure(config=config, checkpoint=str(path)).startswith(f"checkpoint {path} cannot be read safely: ")
    torch.save({"state_dict": Evil()}, path)
    wanted = "Unsupported global: GLOBAL print was not an allowed global by default"
    assert failure(config=config, checkpoint=str(path)) == f"checkpoint {path} cannot be read safely: {wanted}"
    torch.save({"meta": 1}, path)
    wanted = f"checkpoint {path} holds no weights; give a file with a 'state_dict'"
    assert failure(config=config, checkpoint=str(path)) == wanted
    assert "code of a checkpoint ran" not in capsys.readouterr().out


TALK = """
import logging, sys
from mmengine.registry import DefaultScope
from fed_models import build
from tests.core.tasks.detection_frames import made_frame
from tests.models.mmdet3d_configs import batch_of
model, batch = build("mmdet3d", {"config": sys.argv[1]}), batch_of(made_frame(0), made_frame(1))
model.loss(batch, model(batch)).backward()
model.eval().decode(batch, model(batch))
assert DefaultScope.get_current_instance() is None
assert not logging.root.handlers and logging.root.manager.disable == 0
"""


def test_the_library_is_silent_and_leaves_no_trace(mmdet3d: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "default::UserWarning", "-c", TALK, write_config(tmp_path)]
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'models'}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=path, timeout=110)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [entry.name for entry in tmp_path.iterdir()] == [Path(command[-1]).name]
