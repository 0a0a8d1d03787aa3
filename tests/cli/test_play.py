"""``fedperc play``: a recording through the network of a run, by real nodes."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fed_cli.fleetrun.playing import find_frames
from fed_cli.main import app, load_verbs
from fed_core.data.bag_files import BagFile
from fed_core.data.bag_writer import BagWriter
from fed_core.types import DepthFrame
from tests.cli.fleetrun.run_folders import write_run

load_verbs()
SECOND_NS = 1_000_000_000


def frame(number: int, depth_m: float = 2.0) -> DepthFrame:
    """A picture of its number, everything 2 m away."""
    rgb = np.full((48, 64, 3), 20 * number, np.uint8)
    camera = np.array([[60.0, 0.0, 31.5], [0.0, 60.0, 23.5], [0.0, 0.0, 1.0]])
    return DepthFrame(rgb, np.full((48, 64), depth_m, np.float32), (50 + number) * SECOND_NS // 10, camera, "eye")


def write(path: Path, frames: int = 7, *, blind: tuple[int, ...] = (), depth: bool = True) -> Path:
    writer = BagWriter(path)
    for number in range(frames):
        writer.add(frame(number, float("nan") if number in blind else 2.0), depth=depth)
    writer.close()
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run")


def played(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["play", *arguments])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def error_of(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["play", *arguments])
    assert result.exit_code == 2
    return " ".join(result.stderr.split())


@pytest.mark.timeout(150)
def test_a_bag_with_depth_is_served_scored_drawn_and_kept(run: Path, tmp_path: Path) -> None:
    """Of seven frames one has no depth: three of the others choose the models, three are shown."""
    bag, out = write(tmp_path / "walk", blind=(1,)), tmp_path / "shown"
    text = played(str(bag), "--run", str(run), "--out", str(out))
    assert f"{run}: fedavg, adabins_s, all 2 rounds" in text
    assert f"{bag}: 7 frames" in text
    assert "model   global of round 2" in text
    score = json.loads((out / "score.json").read_text())
    assert (score["name"], score["frames"], score["selection"]["models"]) == ("walk", 3, ["global"])
    assert f"AbsRel {score['metrics']['abs_rel']:.3f}, delta1 {score['metrics']['delta1']:.3f} over 3 frames" in text
    assert (out / "play_depth.png").read_bytes()[:4] == b"\x89PNG"
    with BagFile(out / "played") as kept:
        counts = {name: topic.count for name, topic in kept.topics.items()}
        depth = kept.first("/play/depth/image")
        predicted = np.frombuffer(bytes(depth.data), "<f4")
        first = kept.first("/play/camera/image_raw")
    assert counts == dict.fromkeys(
        ("/play/camera/image_raw", "/play/camera/depth/image_raw", "/play/camera/camera_info", "/play/depth/image"), 3
    )
    assert (depth.encoding, depth.height, depth.width, depth.header.frame_id) == ("32FC1", 48, 64, "eye")
    assert np.isfinite(predicted).all() and (predicted > 0).all()
    np.testing.assert_array_equal(first.data, frame(4).rgb.reshape(-1))  # 0, 2 and 3 chose the models


@pytest.mark.timeout(150)
def test_a_bag_of_pictures_alone_has_no_score(run: Path, tmp_path: Path) -> None:
    bag, out = write(tmp_path / "walk", depth=False), tmp_path / "shown"
    text = played(str(bag), "--run", str(run), "--out", str(out), "--start", "1", "--every", "2")
    assert f"{bag}: 3 frames" in text
    assert f"without true depth, so without a score: {bag}" in text
    assert "score   " not in text
    with BagFile(out / "played") as kept:
        assert {name: topic.count for name, topic in kept.topics.items() if topic.count} == dict.fromkeys(
            ("/play/camera/image_raw", "/play/camera/camera_info", "/play/depth/image"), 1
        )


def test_how_many_frames_choose_the_models(tmp_path: Path) -> None:
    assert find_frames(write(tmp_path / "seven"), {}).choosing == 3
    assert find_frames(write(tmp_path / "three", 3), {}).choosing == 2
    assert find_frames(write(tmp_path / "forty", 40), {}).choosing == 8
    assert find_frames(write(tmp_path / "half", 40), {"step": 4}).choosing == 5


def test_what_cannot_be_played_is_told_in_one_line(run: Path, tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert error_of(str(none), "--run", str(run)) == f"error: {none} does not exist"
    few = write(tmp_path / "few", 2)
    told = f"error: {few}: 2 frames to play; it takes at least 3, the first 2 choose the model"
    assert error_of(str(few), "--run", str(run)) == told
    bag = write(tmp_path / "walk", depth=False)
    assert error_of(str(bag), "--depth", "/far").startswith(f"error: {bag} has no topic /far; topics there: /camera")
    notes = tmp_path / "notes"
    notes.mkdir()
    assert error_of(str(notes)).startswith(f"error: {notes} has no known layout (tried bag, ")


def test_runs_that_learn_something_else_are_refused(tmp_path: Path) -> None:
    run, bag = write_run(tmp_path / "run", task="bev", network=False), write(tmp_path / "walk")
    told = f"error: {run} learns bev; fedperc play shows depth; for it see docs/live_bev.md"
    assert error_of(str(bag), "--run", str(run), "--out", str(tmp_path / "out")) == told


def test_a_folder_that_holds_what_is_played_is_left_alone(run: Path, tmp_path: Path) -> None:
    """Its contents would be moved aside before they are read: so one's own last bag, or all runs."""
    bag = write(tmp_path / "play" / "played")
    told = f"error: {tmp_path / 'play'} holds {bag}, which is played; name another folder with --out"
    assert error_of(str(bag), "--run", str(run), "--out", str(tmp_path / "play")) == told
    told = f"error: {run.parent} holds {run}, which is played; name another folder with --out"
    assert error_of(str(bag), "--run", str(run), "--out", str(run.parent)) == told
    assert bag.exists() and run.exists()
