"""``fedperc prepare bmr`` on miniature trees: stores for studies, resume, refusals."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_core.data.open import open_sequence
from fed_core.data.store import INDEX, read_index
from fed_core.study.scenario import from_stores
from tests.core.data.bmr_trees import kitti_tree, nyu_tree
from tests.core.data.conftest import save

load_verbs()


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Trees whose every file is an image of its kind."""
    nyu, kitti = nyu_tree(tmp_path / "nyu"), kitti_tree(tmp_path / "kitti")
    samples = {
        ("nyu", False): save(tmp_path / "room.jpg", np.full((48, 64, 3), 90, np.uint8)),
        ("nyu", True): save(tmp_path / "room.png", np.full((48, 64), 2500, np.uint16)),
        ("kitti", False): save(tmp_path / "street.png", np.full((370, 1226, 3), 120, np.uint8)),
        ("kitti", True): save(tmp_path / "laser.png", np.full((370, 1226), 5120, np.uint16)),
    }
    for root in (nyu, kitti):
        for file in root.rglob("*.*"):
            depth = file.name.startswith("sync_depth") or "groundtruth" in file.parts
            shutil.copyfile(samples[root.name, depth], file)
    return nyu, kitti


def prepare(nyu: Path, kitti: Path, out: Path, *more: str) -> Result:
    arguments = ["--nyu", str(nyu), "--kitti", str(kitti), "--out", str(out), "--max-frames", "2", *more]
    return CliRunner().invoke(app, ["prepare", "bmr", *arguments])


def test_every_robot_and_unseen_sequence_becomes_a_store(roots: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"

    result = prepare(*roots, out)

    assert result.exit_code == 0, result.output
    infos = {path.parent.name: read_index(path.parent)["info"] for path in out.glob("*/index.json")}
    roles = [info["role"] for info in infos.values()]
    # NYU's three test types have two frames each: too few to choose a model and score it.
    assert (roles.count("client"), roles.count("test")) == (20, 2)
    assert "left out nyu_foyer_test: it has 2 frames, 3 are needed" in result.output
    assert "22 recordings in" in result.output and "; 0 broken or empty frames left out" in result.output
    assert infos["nyu_kitchen"]["environment"] == "indoor" and infos["nyu_kitchen"]["cap_m"] == "10"
    frame = open_sequence(out / "kitti_2011_09_26_drive_0001")[1]
    assert frame.depth_m.shape == (352, 1216)
    assert np.all(frame.depth_m == 20.0)
    # 370 - 352 = 18 rows and (1226 - 1216) / 2 = 5 columns less.
    np.testing.assert_allclose(frame.intrinsics[:2, 2], [609.5593 - 5, 172.854 - 18])


def test_studies_find_robots_and_unseen_sequences_with_their_scores(roots: tuple[Path, Path], tmp_path: Path) -> None:
    prepare(*roots, tmp_path / "out")

    scenario = from_stores(tmp_path / "out")

    assert (len(scenario.clients), len(scenario.tests)) == (20, 2)
    assert {c.cell: (c.score.cap_m, c.score.d_min_m, c.score.crop) for c in scenario.clients} == {
        "handheld/indoor": (10.0, 1e-3, "nyu"),
        "car/outdoor": (80.0, 1e-3, "garg"),
    }
    assert [test.name for test in scenario.tests] == [
        "kitti_2011_09_29_drive_0009_test",
        "kitti_2011_09_29_drive_0020_test",
    ]


def test_an_interrupted_preparation_goes_on(roots: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare(*roots, out)
    finished, lost = out / "nyu_bedroom" / INDEX, out / "nyu_kitchen"
    written_ns = finished.stat().st_mtime_ns
    shutil.rmtree(lost)

    result = prepare(*roots, out)

    assert result.exit_code == 0
    assert (lost / INDEX).exists()
    assert finished.stat().st_mtime_ns == written_ns


def test_broken_frames_are_left_out_and_counted(roots: tuple[Path, Path], tmp_path: Path) -> None:
    (roots[0] / "sync" / "bedroom_0001" / "rgb_00001.jpg").write_bytes(b"no image")

    result = prepare(*roots, tmp_path / "out")

    assert "; 1 broken or empty frames left out" in result.output
    assert len(open_sequence(tmp_path / "out" / "nyu_bedroom")) == 1


def test_a_wrong_folder_is_one_line_and_exit_code_2(roots: tuple[Path, Path], tmp_path: Path) -> None:
    result = prepare(roots[0], tmp_path / "nowhere", tmp_path / "out")

    assert result.exit_code == 2
    assert result.output == f"error: {tmp_path / 'nowhere'} is no folder; give the folder of KITTI\n"
    assert not (tmp_path / "out").exists()


def test_a_missing_list_is_told(roots: tuple[Path, Path], tmp_path: Path) -> None:
    result = prepare(*roots, tmp_path / "out", "--splits", str(tmp_path))

    assert result.exit_code == 2
    assert "nyudepthv2_test_files_with_gt.txt: No such file" in result.output
