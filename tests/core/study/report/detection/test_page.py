import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fed_core.study.report import publish, summary, write_report
from fed_core.study.report.detection.mask_plots import draw_depth, draw_masks
from fed_core.study.report.detection.panels import draw_panels
from fed_core.study.report.detection.plots import draw_curves, draw_matrices, draw_shares
from fed_core.study.report.png import MAX_BYTES
from fed_core.study.report.results import read_study
from tests.core.study.report.detection.folder import (
    CLIENTS,
    GROW,
    HIGH,
    LOW,
    MODEL,
    by_client,
    line,
    own,
    write_cell,
    write_panels,
    write_study,
)

_SHARE = {"personal_ratio": by_client(0.08, 0.08, 0.08)}
CKA_LINES = [line(1), *(line(turn, "1110", (0.9, 0.8, 0.7, 0.1), told=_SHARE) for turn in (2, 3))]


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """References, FedAvg, the headline and another setting with two seeds; FedMC and a third setting are missing."""
    write_study(tmp_path)
    for seed in (0, 1):
        for label, value in (("local", 0.1), ("centralised", 0.3), ("fedavg", 0.2), (LOW, 0.21), (HIGH, 0.22)):
            rounds = CKA_LINES if label.startswith("fedcka") else [line(n) for n in (1, 2, 3)]
            matrix = own(*(value + seed / 100 for _ in CLIENTS))
            cell = write_cell(tmp_path, label, seed, matrix, rounds, validation=value)
            if seed == 0:
                for client in CLIENTS:
                    write_panels(tmp_path, cell, client)
    return tmp_path


def test_whole_report(whole: Path) -> None:
    markdown, page = write_report(whole)
    text = markdown.read_text(encoding="utf-8")

    links = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)

    # Matrices, curves, shares, masks, depth, a picture of each client.
    assert len(links) == 8
    assert all(0 < (whole / link).stat().st_size <= MAX_BYTES for link in links)
    assert page.read_text(encoding="utf-8").count("data:image/png;base64,") == 8
    assert "SYNTHETIC DATA, TINY NETWORK." in text
    assert "| FedCKA, τ = 0.5 (headline) | 2 | **0.225 ± 0.007** |" in text
    assert "| 2. With FedCKA every client is above own-domain-only | cmt_tiny | **reproduced** | 3 |" in text
    assert "**Not finished: 4 runs**" in text
    assert "| name | platform | environment | owner | split | scenes |" in text
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [
        "What was run",
        "Domains",
        "Claims of the paper",
        f"Results of {MODEL}",
        f"Settings of FedCKA, {MODEL}",
        f"Layers and masks of {MODEL}",
        "Boxes in unseen frames",
    ]


def test_published_page_is_named_after_the_study(whole: Path, tmp_path: Path) -> None:
    path = publish(whole, tmp_path / "docs")

    assert path == tmp_path / "docs" / "detection_domains.md"
    assert (tmp_path / "docs" / "images" / f"detection_domains_{MODEL}_masks.png").is_file()


def test_summary_fits_a_terminal(whole: Path) -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary(whole))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()

    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"FedCKA \(headline\) +0\.2[23] +0\.2[23] +0\.2[23] +0\.225 ± 0\.007", text)
    assert re.search(r"Own domain only +0\.1\d +0\.1\d +0\.1\d +0\.105 ± 0\.007", text)
    assert "4 of 14 runs are not finished." in text


@pytest.mark.parametrize("label", ["local", "fedavg", "fedmc", GROW])
def test_a_single_finished_run_has_a_report(tmp_path: Path, label: str) -> None:
    write_cell(write_study(tmp_path), label, 0, own(0.1, 0.1, 0.1))

    assert "Results of cmt" in write_report(tmp_path)[0].read_text(encoding="utf-8")
    assert summary(tmp_path).row_count == 1


@pytest.mark.parametrize("gap", [None, []])
def test_results_of_nothing_but_gaps_have_a_report(tmp_path: Path, gap: Any) -> None:
    """Results of which only the head is right, rounds whose figures are of another shape, and a line cut off."""
    write_study(tmp_path)
    head = ("schema", "model", "strategy", "label", "seed", "rounds", "parameters")
    for label in ("local", "fedavg", "fedmc", HIGH):
        cell = write_cell(tmp_path, label, 0, own(0.1, 0.1, 0.1))
        tree = json.loads((cell / "result.json").read_text())
        (cell / "result.json").write_text(json.dumps({k: v if k in head else gap for k, v in tree.items()}))
        row = {k: gap for k in line(1)}
        (cell / "rounds.jsonl").write_text(json.dumps({**row, "round": 1}) + '\n{"round": 2, "mas')

    text = write_report(tmp_path)[0].read_text(encoding="utf-8")

    assert "| FedAvg | 1 | – | – | – | – | – | – |" in text


def test_a_mask_of_another_length_is_no_crash(tmp_path: Path) -> None:
    rounds = [line(1, ["10", "111011", "1110"], (0.5, 0.5))]
    write_cell(write_study(tmp_path), HIGH, 0, own(0.1, 0.1, 0.1), rounds, validation=0.1)

    assert write_report(tmp_path)[0].is_file()


def test_pictures_need_something_to_show(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedavg", 0, own(0.1, 0.1, 0.1))
    study = read_study(tmp_path)

    assert draw_matrices(study, MODEL) is not None
    for draw in (draw_curves, draw_shares, draw_masks, draw_depth):
        assert draw(study, MODEL) is None
    assert draw_panels(study) == []


def test_pictures_of_boxes_do_without_cameras(whole: Path) -> None:
    for path in [*whole.rglob("*_cameras.png"), *whole.rglob(f"{CLIENTS[0]}_bev.png")]:
        path.unlink()

    found = draw_panels(read_study(whole))

    assert [picture.name for picture in found] == [f"{MODEL}_boxes_{client}" for client in CLIENTS[1:]]
    assert "Own domain only, Centralised, FedAvg, FedCKA, τ = 0.5" in found[0].alt
