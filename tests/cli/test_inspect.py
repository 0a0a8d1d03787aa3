"""``fedperc inspect``: recordings, model files, runs, demos."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from typer.testing import CliRunner

from fed_cli.fleetrun.report import summarise
from fed_cli.main import app, load_verbs
from fed_core.data.bag_writer import write_bag
from fed_core.data.open import open_sequence
from fed_core.scenes.driving import DrivingOptions, generate
from fed_core.store.journal import Journal, RoundRow
from fed_core.types import BlobRef
from tests.cli.fleetrun import scored

load_verbs()


def inspect(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["inspect", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def as_json(path: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(inspect(path, "--json"))
    return tree


def refusal(path: Path) -> str:
    result = CliRunner().invoke(app, ["inspect", str(path)])
    assert result.exit_code == 2
    assert result.output.startswith("error: ") and result.output.count("\n") == 1
    return result.output


def write_run(folder: Path) -> None:
    folder.mkdir()
    journal = Journal(
        folder / "journal.sqlite", "r1", {"strategy": "fedavg", "network": "adabins_s", "total_rounds": 3}
    )
    journal.save_robot("spot", {"num_samples": 30}, None)
    journal.save_robot("car", {"num_samples": 12}, None)
    for number, loss in ((1, 4.0), (2, 2.5)):
        journal.save_update(number, "spot", {}, {"loss": loss})
        row = RoundRow(number, {}, BlobRef("0" * 64, 1), {"spot": (0,), "car": (0,)}, {})
        journal.commit_round(row, {"global": BlobRef(f"{number}" * 64, 2_500_000)})
    journal.close()


def test_model_file(tmp_path: Path) -> None:
    data = safetensors.numpy.save({"w": np.zeros((3, 4), np.float32), "steps": np.zeros((), np.int64)})
    digest = hashlib.sha256(data).hexdigest()
    (tmp_path / digest).write_bytes(data)
    tree = as_json(tmp_path / digest)
    assert tree["rows"] == {"tensors": "2", "size": f"{len(data)} B", "sha256": digest}
    assert ["w", "3 x 4", "float32", "48 B"] in tree["table"]
    assert tree["notes"] == []


def test_model_file_under_another_digest_is_noted(tmp_path: Path) -> None:
    (tmp_path / ("0" * 64)).write_bytes(safetensors.numpy.save({"w": np.zeros(2, np.float32)}))
    assert "damaged" in as_json(tmp_path / ("0" * 64))["notes"][0]


def test_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    tree = as_json(tmp_path / "run")
    assert tree["rows"]["rounds"] == "2 of 3"
    assert tree["rows"]["updates"] == "2"
    assert tree["rows"]["model global"] == "2" * 64 + " (2.5 MB)"
    assert tree["table"] == [["car", "0", "0", "12", ""], ["spot", "0", "2", "30", "2.500"]]
    assert tree["notes"] == ["not all rounds have closed yet"]


def test_demo_running_and_finished(tmp_path: Path) -> None:
    (tmp_path / "aggregator").mkdir()
    write_run(tmp_path / "aggregator" / "fedavg")
    assert f"its runs, name one: {tmp_path / 'aggregator' / 'fedavg'}" in refusal(tmp_path)
    scored.write_scores(tmp_path)
    summarise(tmp_path, scored.fleet(), 5.0)
    tree = as_json(tmp_path)
    assert tree["rows"]["cluster 0"] == "a, b"
    assert tree["table"] == [["unseen", "1", "0.250", "0.500", "1.000", "0.875", "0.750", "0.500"]]


def test_bag_and_table(tmp_path: Path) -> None:
    sequence = open_sequence("generated:uav/forest?seed=1&frames=3&width=32&height=24")
    text = inspect(write_bag(sequence, tmp_path / "bag"))
    assert "/camera/color/image_raw" in text
    assert "32x24" in text


def test_folder_of_frames(shared_data: Path) -> None:
    rows = as_json(shared_data / "depth_nyu")["rows"]
    assert (rows["layout"], rows["frames"], rows["depth unit"]) == ("nyu", "3", "1/1000 m")


def test_unknown_paths_are_one_line(tmp_path: Path) -> None:
    assert "nope does not exist; name a bag, a folder of frames, a model file" in refusal(tmp_path / "nope")
    assert "has no known layout" in refusal(tmp_path)
    (tmp_path / "text").write_text("no tensors in here")
    assert "text" in refusal(tmp_path / "text")
    (tmp_path / "samples_0.mcap.part").write_text("x")
    for path in (tmp_path, tmp_path / "samples_0.mcap.part"):
        assert "mends it at its next start" in refusal(path)


@pytest.mark.parametrize("content", [b"", b"no database at all", None])
def test_broken_journal(tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        (tmp_path / "summary.json").write_text('{"rounds": 1}')
    else:
        (tmp_path / "journal.sqlite").write_bytes(content)
    assert "it is broken or of another version" in refusal(tmp_path)


def test_study_tells_how_far_it_is_and_what_it_found(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps({"title": "ours", "fixed": {}}))
    tree = as_json(tmp_path)
    assert (tree["rows"]["study"], tree["rows"]["runs"]) == ("ours", "not begun")
    assert tree["notes"] == ["not finished; the same command goes on where it stopped"]

    cells = [["adabins_s", "fedavg", 0], ["adabins_s", "fedepth", 0]]
    (tmp_path / "study.json").write_text(json.dumps({"title": "ours", "cells": cells}))
    folder = tmp_path / "cells" / "adabins_s" / "fedavg" / "seed0"
    folder.mkdir(parents=True)
    result = {"model": "adabins_s", "label": "fedavg", "seed": 0, "macro": {"abs_rel": 0.81649, "delta1": 0.139}}
    (folder / "result.json").write_text(json.dumps(result))
    tree = as_json(tmp_path)
    assert tree["rows"]["runs"] == "1 of 2"
    assert tree["table"] == [["adabins_s", "fedavg", "0", "0.816", "0.139"]]

    (folder / "result.json").write_text("{")
    assert "cannot be read" in refusal(tmp_path)

    (tmp_path / "study.json").write_text(json.dumps({"title": "maps", "task": "bev", "cells": cells[:1]}))
    macro = {"iou_global": 0.25, "iou_frame": None}
    (folder / "result.json").write_text(json.dumps({**result, "macro": macro}))
    assert as_json(tmp_path)["table"] == [["adabins_s", "fedavg", "0", "0.250", "-"]]


def test_vehicles_of_a_generated_folder(tmp_path: Path) -> None:
    options = DrivingOptions(
        frames=4, test_frames=1, width=32, height=24, map_size=32, clients=("bus", "truck"), scene_frames=1,
        min_visible_px=1,
    )  # fmt: skip
    tree = as_json(generate(tmp_path / "streets", options))

    assert tree["rows"] == {"layout": "opv2v", "data": "generated"}
    assert tree["table"] == [
        ["bus", "bus", "0, 1, 2, 3", "2", "2", "1", "1"],
        ["truck", "truck", "0, 1, 2, 3", "2", "2", "1", "1"],
    ]

    for path in (tmp_path / "streets" / "test").rglob("*.yaml"):
        path.unlink()
    assert "has no frames" in refusal(tmp_path / "streets")
