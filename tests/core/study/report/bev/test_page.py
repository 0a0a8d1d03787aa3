import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from fed_core.errors import DataError
from fed_core.study.report import publish, summary, write_report
from fed_core.study.report.bev.figures import MEAN, iou_curve, robot_curve
from fed_core.study.report.bev.panels import draw_panels
from fed_core.study.report.bev.plots import draw_clients, draw_curves, draw_insides
from fed_core.study.report.png import MAX_BYTES
from fed_core.study.report.results import read_study
from tests.core.study.report.bev.folder import (
    CLIENTS,
    FEDDWA_DALOSS,
    MODEL,
    by_client,
    line,
    write_cell,
    write_panels,
    write_study,
)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Local training, FedBEVT and FedDWA + DALoss with two seeds, curves, insides and maps; FedDWA is missing."""
    write_study(tmp_path, seeds=[0, 1], strategies=["local", "fedbevt", "feddwa", FEDDWA_DALOSS])
    for seed in (0, 1):
        for label, iou in (("local", 0.1), ("fedbevt", 0.2), (FEDDWA_DALOSS, 0.3)):
            more = {} if label != FEDDWA_DALOSS else {
                "weights": by_client(0.1, 0.2, 0.3, 0.4),
                "divergence": by_client(0.01, 0.02, 0.03, 0.04),
                "control_norm": 0.5,
                "own_control_norm": by_client(1.0, 2.0, 3.0, 4.0),
                "q_over_s": by_client(1e-5, 1e-5, 1e-5, 0.0),
            }  # fmt: skip
            rounds = [line(turn, None if turn == 2 else [iou * turn / 3] * 4, **more) for turn in (1, 2, 3)]
            cell = write_cell(tmp_path, label, seed, [iou + seed / 100] * 4, rounds)
            if seed == 0:
                for client in CLIENTS:
                    write_panels(tmp_path, cell, client)
    return tmp_path


def test_whole_report(whole: Path) -> None:
    markdown, page = write_report(whole)
    text = markdown.read_text(encoding="utf-8")

    links = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)

    # Curves, clients, the inside of FedDWA + DALoss, a map of each client.
    assert len(links) == 7
    assert all(0 < (whole / link).stat().st_size <= MAX_BYTES for link in links)
    assert page.read_text(encoding="utf-8").count("data:image/png;base64,") == 7
    assert "Synthetic data: every image and mask was rendered" in text
    assert "| Robots, test sequences | 4, 4 |" in text
    assert "| FedDWA + DALoss | daloss:inner=feddwa |" in text
    assert "| FedDWA + DALoss | 2 | **30.50 ± 0.71** |" in text
    assert "| 4. FedDWA + DALoss is the best method for every client | sinbevt_s | undecided | 5 | 0 | 0 | 5 |" in text
    assert "DALoss is nearly inert with FedDWA + DALoss" in text
    assert "**Not finished: 2 runs**" in text


def test_real_recordings_are_called_so(whole: Path) -> None:
    write_study(whole, seeds=[0, 1], strategies=["local", "fedbevt"], synthetic=False)

    shutil.rmtree(whole / "panels")

    text = write_report(whole)[0].read_text(encoding="utf-8")

    assert "Real recordings." in text and "Synthetic" not in text


def test_published_page_is_named_after_the_study(whole: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for client in CLIENTS[1:]:
        (whole / "panels" / "seed0" / f"{client}_mask.png").unlink()

    path = publish(whole, docs)

    assert path == docs / "bev.md"
    assert f"](images/bev_{MODEL}_curves.png)" in path.read_text(encoding="utf-8")
    assert (docs / "images" / f"bev_{MODEL}_maps_bus.png").is_file()


def test_summary_fits_a_terminal(whole: Path) -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary(whole))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()

    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"FedDWA \+ DALoss +30\.5 +30\.5 +30\.5 +30\.5 +30\.50 ± 0\.71", text)
    assert re.search(r"Local +10\.5 ", text)
    assert re.search(r"Constant map +15\.0 +15\.0 ", text)
    assert "2 of 8 runs are not finished." in text
    assert "1. FedDWA is better than FedBEVT for every client: no data" in text


def test_a_study_without_a_finished_run_has_a_report(tmp_path: Path) -> None:
    text = write_report(write_study(tmp_path))[0].read_text(encoding="utf-8")

    assert "No run is finished yet." in text
    assert summary(tmp_path).row_count == 0


def test_results_without_rounds_have_a_report(tmp_path: Path) -> None:
    write_study(tmp_path, seeds=[0])
    write_cell(tmp_path, "feddwa", 0, [0.2, None, 0.2, 0.2])

    text = write_report(tmp_path)[0].read_text(encoding="utf-8")

    assert "| FedDWA | 1 | 20.00 | – | 20.00 | 20.00 | 20.00 |" in text
    assert "![" not in text


def test_an_unknown_task_is_one_clear_line(tmp_path: Path) -> None:
    write_study(tmp_path, task="sound")

    with pytest.raises(DataError, match=r"is a study of task 'sound'; there are reports of depth, bev"):
        write_report(tmp_path)


def test_a_broken_line_and_null_figures_leave_gaps(tmp_path: Path) -> None:
    write_study(tmp_path)
    rounds = [line(1, [0.1, None, 0.1, 0.1], weights=by_client(0.1, 0.2, 0.3, 0.4)), line(2, None), line(3, [0.3] * 4)]
    cell = write_cell(tmp_path, "feddwa", 0, [0.3] * 4, rounds)
    with (cell / "rounds.jsonl").open("a") as file:
        file.write('{"round": 4, "clients": null, "macro": null, "weights": null}\n{"round": 5, "cli')

    (run,) = read_study(tmp_path).of(MODEL, "feddwa")

    assert [(turn, round(iou, 6)) for turn, iou in iou_curve(run, "truck")] == [(3, 30.0)]
    assert [(turn, round(iou, 6)) for turn, iou in iou_curve(run, "bus")] == [(1, 10.0), (3, 30.0)]
    assert [turn for turn, _ in iou_curve(run, MEAN)] == [1, 3]
    assert robot_curve(run, "weights", "car_b") == [(1, 0.4)]
    assert write_report(tmp_path)[0].is_file()


def test_pictures_need_something_to_show(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedbevt", 0, [0.2] * 4)
    study = read_study(tmp_path)

    assert draw_curves(study, MODEL) is None
    assert draw_clients(study, MODEL) is None
    assert draw_insides(study, MODEL) == []
    assert draw_panels(study) == []


def test_drift_alone_is_no_picture_of_the_inside(tmp_path: Path) -> None:
    write_study(tmp_path)
    drift = {"drift": by_client(1.0, 1.0, 2.0, 2.0)}
    write_cell(tmp_path, "fedbevt", 0, [0.2] * 4, [line(1, [0.2] * 4, **drift)])
    write_cell(tmp_path, "feddwa", 0, [0.2] * 4, [line(1, [0.2] * 4, **drift, weights=by_client(0.1, 0.2, 0.3, 0.4))])

    found = draw_insides(read_study(tmp_path), MODEL)

    assert [picture.name for picture in found] == [f"{MODEL}_inside_feddwa"]
    assert "w: weights of the robots" in found[0].alt and "drift" in found[0].alt


def test_maps_show_every_client_with_a_truth(whole: Path) -> None:
    for client in ("bus", "car_a"):
        (whole / "panels" / "seed0" / f"{client}_mask.png").unlink()

    found = draw_panels(read_study(whole))

    assert [picture.name for picture in found] == [f"{MODEL}_maps_truck", f"{MODEL}_maps_car_b"]
    assert "by Local, FedBEVT, FedDWA + DALoss" in found[0].alt


def test_maps_do_without_cameras_vehicles_and_equal_sizes(whole: Path) -> None:
    shared = whole / "panels" / "seed0"
    for path in [*shared.glob("bus_camera*.png"), *shared.glob("*_mask.png")]:
        path.unlink()
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(shared / "bus_mask.png")

    (only,) = draw_panels(read_study(whole))

    assert only.name == f"{MODEL}_maps_bus"
    with Image.open(io.BytesIO(only.png)) as image:
        assert image.height < image.width  # one line of maps, no line of cameras
