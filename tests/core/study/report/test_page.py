import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from fed_core.study.report import publish, summary, write_report
from fed_core.study.report.depth.panels import draw_panels
from fed_core.study.report.depth.plots import (
    draw_choices,
    draw_convergence,
    draw_memberships,
    line_of,
)
from fed_core.study.report.document import escape
from fed_core.study.report.lines import over_seeds
from fed_core.study.report.png import MAX_BYTES, encode, new_figure
from fed_core.study.report.results import read_study
from tests.core.study.report.depth.folder import CLIENTS, TESTS, sequence, write_cell, write_panels, write_study


class Tags(HTMLParser):
    """Collects what a page would load, and its pictures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        found = dict(attrs)
        self.loads += [value for name, value in attrs if name in ("src", "srcset", "data", "poster") and value]
        if tag == "link" and found.get("href"):
            self.loads.append(found["href"] or "")
        if tag == "img":
            self.images.append(found)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Three strategies, two seeds, clusters, choices and panels."""
    write_study(tmp_path, seeds=[0, 1], strategies=["fedavg", "hard", "fedepth", "scaffold"])
    members = {CLIENTS[0]: [0, 1], CLIENTS[1]: [1]}
    choice = {"keys": ["cluster/0"], "clusters": [0], "distances": [0.2, 0.9], "threshold": 0.5, "fallback": False}
    for seed in (0, 1):
        for label, value in (("fedavg", 0.3), ("hard", 0.25), ("fedepth", 0.2)):
            rows = [sequence(name, value, choice=choice) for name in TESTS]
            more = {"sequences": rows, "memberships": members} if label != "fedavg" else {}
            cell = write_cell(tmp_path, label, seed, value + seed / 100, curve=(2.0, 0.5, value), **more)
            if seed == 0:
                write_panels(tmp_path, cell, TESTS[0])
    return tmp_path


def test_html_loads_nothing_and_every_picture_is_described(whole: Path) -> None:
    _, page = write_report(whole)
    text = page.read_text(encoding="utf-8")

    tags = Tags(text)

    assert tags.loads and all(source.startswith("data:image/png;base64,") for source in tags.loads)
    assert len(tags.images) == 4  # convergence, memberships, choices, one panel
    assert all(len(image["alt"] or "") > 20 for image in tags.images)
    assert "script" not in tags.names and "url(" not in text and "@import" not in text
    assert "0.205 ± 0.007" in text  # FeDepth's mean of 0.20 and 0.21


def test_markdown_links_to_pictures_that_exist(whole: Path) -> None:
    markdown, _ = write_report(whole)

    links = re.findall(r"!\[[^]]+\]\(([^)]+)\)", markdown.read_text(encoding="utf-8"))

    assert len(links) == 4
    assert all(0 < (whole / link).stat().st_size <= MAX_BYTES for link in links)


def test_markdown_tells_what_was_run_and_what_is_missing(whole: Path) -> None:
    text = write_report(whole)[0].read_text(encoding="utf-8")

    assert "Synthetic data: every image and depth was rendered" in text
    assert "| Finished runs | 6 of 8 |" in text
    assert "**Not finished: 2 runs**" in text
    assert "| scaffold | adabins_s | 0, 1 |" in text
    assert "| Seeds | 2 (0, 1) |" in text
    assert "| train.lr | 0.001 |" in text
    assert "| fedepth | 2 | **0.205 ± 0.007** |" in text
    assert "| 1. FeDepth is the best federated strategy | adabins_s | undecided | 1 | 0 | 0 | 1 |" in text


def test_tuning_is_shown_with_what_was_chosen(tmp_path: Path) -> None:
    tuning = {"what": "tau_quantile", "values": {"0.1": {"abs_rel": 0.31}, "0.2": {"abs_rel": 0.29}}, "chosen": 0.2}
    write_study(tmp_path, tuning=tuning)

    text = write_report(tmp_path)[0].read_text(encoding="utf-8")

    assert "| 0.1 | 0.3100 | – |  |" in text
    assert "| 0.2 | 0.2900 | – | chosen |" in text


def test_a_study_without_a_finished_run_has_a_report(tmp_path: Path) -> None:
    markdown, page = write_report(write_study(tmp_path))

    assert "No run is finished yet." in markdown.read_text(encoding="utf-8")
    assert "| Finished runs | 0 of 6 |" in markdown.read_text(encoding="utf-8")
    assert "No run is finished yet." in page.read_text(encoding="utf-8")
    assert summary(tmp_path).row_count == 0


def test_one_seed_gives_a_report(tmp_path: Path) -> None:
    write_study(tmp_path, seeds=[0])
    write_cell(tmp_path, "fedavg", 0, 0.3)
    write_cell(tmp_path, "fedepth", 0, 0.2)

    text = write_report(tmp_path)[0].read_text(encoding="utf-8")

    assert "| fedepth | 1 | **0.200** |" in text
    assert "| 1. FeDepth is the best federated strategy | adabins_s | undecided |" in text


def test_names_cannot_break_the_pages(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> | *x*"
    write_study(tmp_path, title=evil, seeds=[0], strategies=[evil])
    write_cell(tmp_path, evil, 0, 0.3)

    markdown, page = write_report(tmp_path)

    assert "script" not in Tags(page.read_text(encoding="utf-8")).names
    assert "# &lt;script&gt;alert(1)&lt;/script&gt; \\| \\*x\\*" in markdown.read_text(encoding="utf-8")
    assert "[b]no markup[/b]" in _printed(write_study(tmp_path, title="[b]no markup[/b]"))


def test_escape_keeps_plain_names_readable() -> None:
    assert escape("fedepth:tau_quantile=0.1") == "fedepth:tau_quantile=0.1"
    assert escape("a\nb _c_ [d](e)") == "a b \\_c\\_ \\[d\\](e)"


def test_summary_fits_a_terminal(whole: Path) -> None:
    text = _printed(whole)

    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"fedepth +2 +0\.205 ± 0\.007", text)
    assert "2 of 8 runs are not finished." in text
    assert "3. Soft clusters are better than hard clusters at the same τ" in text


def test_published_page_names_no_folder_of_the_machine(whole: Path, tmp_path: Path) -> None:
    command = "fedperc study depth-hpe --data /home/someone/m3ed --out=/scratch/x/small --rounds 3"
    write_study(whole, seeds=[0, 1], command=command, options={"data": {"folder": "/home/someone/m3ed"}})
    docs = tmp_path / "docs" / "studies"

    text = publish(whole, docs).read_text(encoding="utf-8")

    assert "| Command | fedperc study depth-hpe --data m3ed --out=small --rounds 3 |" in text
    assert "| data.folder | m3ed |" in text
    assert "someone" not in text
    assert (docs / "depth_hpe.md").exists()
    assert "](images/depth_hpe_adabins_s_convergence.png)" in text
    assert (docs / "images" / "depth_hpe_adabins_s_convergence.png").stat().st_size <= MAX_BYTES


def test_pictures_need_something_to_show(tmp_path: Path) -> None:
    write_study(tmp_path)
    cell = write_cell(tmp_path, "fedavg", 0, 0.3)
    (cell / "rounds.jsonl").unlink()
    study = read_study(tmp_path)

    assert draw_convergence(study, "adabins_s") is None
    assert draw_memberships(study, "adabins_s") is None  # one cluster
    assert draw_choices(study, "adabins_s") is None  # no distances
    assert draw_panels(study) == []


def test_panels_show_at_most_six_sequences_and_every_environment_first(tmp_path: Path) -> None:
    names = [f"ugv_{place}_{n}" for place in ("forest", "indoor", "road") for n in range(3)]
    tests = [{"name": n, "platform": "ugv", "environment": n.split("_")[1]} for n in names]
    write_study(tmp_path, tests=tests)
    cell = write_cell(tmp_path, "fedavg", 0, 0.3)
    for name in names:
        write_panels(tmp_path, cell, name)

    found = [picture.name for picture in draw_panels(read_study(tmp_path))]

    assert [name.split("_depth_")[1] for name in found] == [
        *("ugv_forest_0", "ugv_indoor_0", "ugv_road_0"),
        *("ugv_forest_1", "ugv_indoor_1", "ugv_road_1"),
    ]


def test_a_panel_with_unknown_depth_only_is_left_out(tmp_path: Path) -> None:
    write_study(tmp_path)
    cell = write_cell(tmp_path, "fedavg", 0, 0.3)
    write_panels(tmp_path, cell, TESTS[0])
    Image.fromarray(np.zeros((24, 40), np.uint16)).save(tmp_path / "panels" / "seed0" / f"{TESTS[0]}_depth.png")

    assert draw_panels(read_study(tmp_path)) == []


def test_no_two_strategies_look_alike() -> None:
    known = ["fedavg", "fedprox", "feddyn", "scaffold", "pacfl", "fedclust", "hard", "fedepth", "centralised", "local"]
    labels = [*known, "moon", "ditto", "fedbn"]

    assert len({line_of(label, labels) for label in labels}) == len(labels)


def test_big_pictures_shrink_below_the_limit() -> None:
    figure = new_figure(4.0, 3.0)
    axes = figure.subplots()
    axes.imshow(np.random.default_rng(0).random((300, 400, 3)))

    data = encode(figure, dpi=100, max_bytes=40_000)

    assert len(data) <= 40_000
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG" and image.width >= 64


def test_a_curve_has_only_rounds_of_all_seeds(tmp_path: Path) -> None:
    write_study(tmp_path)
    write_cell(tmp_path, "fedavg", 0, 0.3, curve=(0.9, 0.5, 0.3))
    write_cell(tmp_path, "fedavg", 1, 0.4, curve=(0.8, 0.4))

    rounds, values = over_seeds(cell.curve("abs_rel") for cell in read_study(tmp_path).of("adabins_s", "fedavg"))

    assert rounds == [1, 2]
    np.testing.assert_array_equal(values, [[0.9, 0.8], [0.5, 0.4]])


def _printed(folder: Path) -> str:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary(folder))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
