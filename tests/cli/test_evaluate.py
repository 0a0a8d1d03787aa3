"""``fedperc evaluate detection``: figures of real detections, and one line for every kind of bad input."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs

load_verbs()


def evaluate(gt: Path, pred: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["evaluate", "detection", "--gt", str(gt), "--pred", str(pred), *more])


def refusal(gt: Path, pred: Path, *more: str) -> str:
    result = evaluate(gt, pred, *more)
    assert result.exit_code == 2
    assert result.output.startswith("error: ") and result.output.count("\n") == 1
    return result.output


@pytest.fixture(scope="module")
def root(shared_data: Path) -> Path:
    return shared_data / "nuscenes_tables_mini_val"


@pytest.fixture(scope="module")
def file(shared_data: Path) -> Path:
    return shared_data / "nuscenes_eval_mini_val" / "results_nusc.json"


def test_published_figures_as_json(root: Path, file: Path) -> None:
    tree = json.loads(evaluate(root, file, "--json").output)

    assert tree["mAP"] == 0.07551617930781714
    assert tree["NDS"] == pytest.approx(0.1033640, abs=5e-8)
    assert tree["mATE"] == pytest.approx(0.858623942)
    assert (tree["version"], tree["scenes"], tree["samples"]) == ("v1.0-mini", ["scene-0103", "scene-0916"], 81)
    assert tree["classes"]["traffic_cone"]["AVE"] is None
    assert not tree["classes"]["trailer"]["present"]


def test_table_has_twelve_decimals(root: Path, shared_data: Path) -> None:
    output = evaluate(root, shared_data / "nuscenes_eval_mini_val" / "perturbed" / "results_nusc.json").output

    assert "0.452310120412" in output and "0.410175791143" in output
    assert "trailer (absent)" in output
    assert all(name in output for name in ("mATE", "mASE", "mAOE", "mAVE", "mAAE", "pedestrian"))


def test_one_whole_scene_and_a_split(root: Path, file: Path, tmp_path: Path) -> None:
    tables = root / "v1.0-mini"
    scene = next(s for s in json.loads((tables / "scene.json").read_text()) if s["name"] == "scene-0916")
    samples = json.loads((tables / "sample.json").read_text())
    tokens = {sample["token"] for sample in samples if sample["scene_token"] == scene["token"]}
    tree = json.loads(file.read_text())
    one = tmp_path / "one.json"
    one.write_text(json.dumps({**tree, "results": {t: b for t, b in tree["results"].items() if t in tokens}}))

    found = json.loads(evaluate(root, one, "--json").output)

    assert (found["scenes"], found["samples"]) == (["scene-0916"], len(tokens))
    told = refusal(root, one, "--split", "mini_val")
    assert "leaves out" in told and "of scene-0103" in told
    assert "no split is called 'nowhere'; known: train, val" in refusal(root, file, "--split", "nowhere")
    assert "holds no scene of the split 'test'" in refusal(root, file, "--split", "test")


def test_scene_half_covered_is_named_with_the_missing_samples(root: Path, file: Path, tmp_path: Path) -> None:
    tree = json.loads(file.read_text())
    tables = root / "v1.0-mini"
    (scene,) = (s["token"] for s in json.loads((tables / "scene.json").read_text()) if s["name"] == "scene-0103")
    samples = [s["token"] for s in json.loads((tables / "sample.json").read_text()) if s["scene_token"] == scene]
    count, lost = len(samples), samples[3]
    del tree["results"][lost]
    half = tmp_path / "half.json"
    half.write_text(json.dumps(tree))

    told = refusal(root, half)

    assert f"leaves out 1 of the {count} samples of scene-0103: {lost}; " in told
    assert "a sample without detections needs an empty list" in told


def change(key: str, value: Any) -> Callable[[Any], None]:
    def apply(box: Any) -> None:
        box[key] = value

    return apply


def drop(key: str) -> Callable[[Any], None]:
    def apply(box: Any) -> None:
        del box[key]

    return apply


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (drop("size"), "has no size"),
        (drop("detection_score"), "has no detection_score"),
        (change("detection_name", "tram"), "no class is called 'tram'; known: car, truck"),
        (change("attribute_name", "flying"), "no attribute is called 'flying'; known: pedestrian.moving"),
        (change("translation", [1.0, 2.0]), "translation is [1.0, 2.0]; it needs 3 finite numbers"),
        (change("rotation", [1.0, 0.0, 0.0, float("nan")]), "nan]; it needs 4 finite numbers"),
        (change("translation", [10**400, 0, 0]), "it needs 3 finite numbers"),
        (change("size", [1.0, 0.0, 2.0]), "size is [1.0, 0.0, 2.0]; all three must be above 0"),
        (change("rotation", [0, 0, 0, 0]), "rotation is [0, 0, 0, 0], which is no quaternion"),
        (change("detection_score", float("nan")), "detection_score is nan; it needs a finite number"),
        (change("sample_token", "other"), "belongs to another sample: its sample_token is 'other'"),
    ],
)
def test_broken_boxes_are_named(
    root: Path, file: Path, tmp_path: Path, spoil: Callable[[Any], None], text: str
) -> None:
    tree = json.loads(file.read_text())
    token, boxes = next((token, boxes) for token, boxes in tree["results"].items() if len(boxes) > 1)
    spoil(boxes[1])
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(tree))

    told = refusal(root, broken)

    assert text in told
    assert f"{broken}: box 1 of sample {token}" in told


def test_too_many_boxes_unknown_samples_and_files_that_are_none(root: Path, file: Path, tmp_path: Path) -> None:
    tree = json.loads(file.read_text())
    token, boxes = next((token, boxes) for token, boxes in tree["results"].items() if boxes)
    cases: dict[str, tuple[Any, str]] = {
        "many": ({"results": {token: boxes[:1] * 501}}, "has 501 boxes; the devkit takes 500 at most"),
        "strange": ({"results": {"abc": []}}, "names sample abc, which is not in"),
        "empty": ({"results": {}}, "is no nuScenes submission: it has no 'results' by sample"),
        "list": ([], "is no nuScenes submission"),
        "text": ({"results": {token: "box"}}, f"'results' of sample {token} is no list of boxes"),
        "boxless": ({"results": {token: [3]}}, "is no box but int"),
    }
    for name, (content, text) in cases.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        assert text in refusal(root, path)

    (tmp_path / "cut.json").write_text('{"results": {')
    assert "cut.json is no JSON: " in refusal(root, tmp_path / "cut.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert "deep.json is no JSON: " in refusal(root, tmp_path / "deep.json")
    assert "cannot read" in refusal(root, tmp_path / "gone.json")


def test_folders_that_hold_no_or_many_versions(root: Path, file: Path, tmp_path: Path) -> None:
    assert f"{tmp_path / 'gone'} is not a folder" in refusal(tmp_path / "gone", file)
    assert "holds no folder v1.0-*" in refusal(tmp_path, file)

    for name in ("v1.0-mini", "v1.0-trainval"):
        (tmp_path / name).mkdir()
    assert "has the versions v1.0-mini, v1.0-trainval; name one" in refusal(tmp_path, file)
    assert "v1.0-mini has no category.json" in refusal(tmp_path, file, "--version", "v1.0-mini")
    assert "has no folder v1.0-test; versions there: v1.0-mini" in refusal(tmp_path, file, "--version", "v1.0-test")

    (tmp_path / "v1.0-trainval").rmdir()
    shutil.copy(root / "v1.0-mini" / "scene.json", tmp_path / "v1.0-mini")
    assert "has no category.json" in refusal(tmp_path, file)
