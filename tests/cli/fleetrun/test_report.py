"""What a demo ends with: summary.json, tables, pictures."""

import io
import json
from pathlib import Path

import matplotlib.image
import numpy as np
from rich.console import Console

from fed_cli.fleetrun.contents import contents
from fed_cli.fleetrun.map_pictures import draw_maps
from fed_cli.fleetrun.pictures import draw_grid
from fed_cli.fleetrun.report import show, summarise
from fed_cli.fleetrun.scan_pictures import draw_scans
from tests.cli.fleetrun import scored


def test_summary_has_the_documented_keys(tmp_path: Path) -> None:
    scored.write_scores(tmp_path)
    summary = summarise(tmp_path, scored.fleet(), 12.34)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert {"robots", "rounds", "clusters", "sequences", "bytes", "seconds", "seed", "versions"} <= set(summary)
    assert (summary["robots"], summary["rounds"], summary["seed"]) == (["a", "b", "c"], 3, 7)
    assert summary["clusters"] == [["a", "b"], ["b", "c"]]
    assert (summary["bytes"], summary["seconds"]) == (300, 12.3)
    (row,) = summary["sequences"]
    assert {"name", "clusters", "distances", "fallback", "abs_rel", "delta1"} <= set(row)
    assert (row["name"], row["clusters"], row["distances"], row["fallback"]) == ("unseen", [1], [9.0, 2.0], False)
    assert row["abs_rel"] == {"initial": 1.0, "fedavg": 0.5, "fedepth": 0.25}
    assert row["delta1"] == {"initial": 0.5, "fedavg": 0.75, "fedepth": 0.875}
    assert {"python", "torch", "numpy"} <= set(summary["versions"])


def test_tables_fit_80_columns_and_name_the_choice(tmp_path: Path) -> None:
    scored.write_scores(tmp_path)
    text = io.StringIO()
    show(Console(file=text, width=80), summarise(tmp_path, scored.fleet(), 1.0))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("unseen" in line and "1 (2)" in line and "0.250" in line for line in lines)
    assert lines[-1] == "mean AbsRel  initial 1.000   fedavg 0.500   fedepth 0.250"


def test_one_picture_row_per_kept_frame(tmp_path: Path) -> None:
    scored.write_scores(tmp_path)
    methods = ["initial", "fedavg", "fedepth"]
    path = draw_grid(tmp_path, summarise(tmp_path, scored.fleet(), 1.0), methods)
    image = matplotlib.image.imread(path)
    # 5 columns of 2.6 inch and 2 rows of 2.05 inch at 110 dots per inch, 450.99 cut off
    assert image.shape[:2] == (450, 1430)
    assert float(np.ptp(image[..., :3])) > 0.5


def test_maps_are_told_by_their_iou(tmp_path: Path) -> None:
    scored.write_bev_scores(tmp_path)
    summary = summarise(tmp_path, scored.bev_fleet(), 1.0)
    bus, car = summary["sequences"]
    assert summary["task"] == "bev" and "abs_rel" not in bus
    assert bus["iou_global"] == scored.IOU and bus["iou_frame"] == {"daloss": 0.2, "fedavg": 0.125, "initial": 0.05}
    assert car["iou_frame"] == {"daloss": None, "fedavg": None, "initial": None}
    text = io.StringIO()
    show(Console(file=text, width=80), summary)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("maps of vehicles served live" in line for line in lines)
    assert any("unseen_car" in line and "0.100  0.250  0.400" in line and line.endswith("-  -  - ") for line in lines)
    assert lines[-1] == "mean IoU  initial 0.100   fedavg 0.250   daloss 0.400"
    report = contents(tmp_path)
    assert report.columns[2:] == tuple(f"{f} {m}" for f in ("IoU", "IoU by frame") for m in scored.IOU)
    assert report.table[0][2:] == ("0.400", "0.250", "0.100", "0.200", "0.125", "0.050")


def test_one_picture_row_per_kept_map(tmp_path: Path) -> None:
    scored.write_bev_scores(tmp_path)
    methods = ["initial", "fedavg", "daloss"]
    path = draw_maps(tmp_path, summarise(tmp_path, scored.bev_fleet(), 1.0), methods)
    image = matplotlib.image.imread(path)
    # 5 columns of 2.6 inch and 2 rows of 2.3 inch at 110 dots per inch, 505.99 cut off
    assert image.shape[:2] == (505, 1430)
    assert float(np.ptp(image[..., :3])) > 0.5


def test_boxes_are_told_by_nds_with_the_layers_that_each_robot_shared(tmp_path: Path) -> None:
    scored.write_detection_scores(tmp_path)
    summary = summarise(tmp_path, scored.detection_fleet(), 1.0)
    assert summary["shares"] == {"A": {"layers": 4, "shared": [2]}}
    assert summary["sequences"][0]["nds"] == scored.NDS
    text = io.StringIO()
    show(Console(file=text, width=80), summary)
    lines = text.getvalue().splitlines()
    assert any("boxes served live" in line for line in lines)
    assert any(" A " in line and "2 of 4" in line for line in lines)
    assert any(" B " in line and "all" in line for line in lines)
    assert lines[-1] == "mean NDS  initial 0.000   fedavg 0.200   fedcka 0.300"
    run = contents(tmp_path / "aggregator" / "fedcka")
    assert run.columns[-1] == "shared layers" and [row[-1] for row in run.table] == ["2 of 4", "all"]


def test_one_picture_row_per_kept_scan(tmp_path: Path) -> None:
    scored.write_detection_scores(tmp_path)
    methods = ["initial", "fedavg", "fedcka"]
    path = draw_scans(tmp_path, summarise(tmp_path, scored.detection_fleet(), 1.0), methods)
    image = matplotlib.image.imread(path)
    # 5 columns of 2.6 inch and 2 rows of 2.5 inch at 110 dots per inch
    assert image.shape[:2] == (550, 1430)
    assert float(np.ptp(image[..., :3])) > 0.5
