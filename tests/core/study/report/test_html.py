import base64
import hashlib
import json
import re
from html import unescape

import pytest

from fed_core.study.report.document import Chart, Paragraph, Report, Section, Table, rows_of, to_markdown
from fed_core.study.report.html import to_html

END = "</script><script>alert(1)</script><!--\u2028"
TABLE = Table("Loss", ("Round", "Loss"), rows_of(("1", "0.5")), folded=True)


def page(name: str = "a") -> str:
    figure = {"data": [{"name": name, "x": [1], "y": [0.5]}], "layout": {"height": 200}}
    return to_html(Report("r", (Section("s", (Chart(figure, "loss by round", "caption", TABLE),)),)))


def test_the_policy_names_exactly_the_scripts_of_the_page() -> None:
    pytest.importorskip("plotly")
    text = page()

    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    allowed = re.search(r"script-src ([^;]*);", unescape(text))
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert len(scripts) == 2
    assert allowed is not None and allowed[1] == " ".join(f"'sha256-{digest}'" for digest in hashes)


def test_data_cannot_end_their_script() -> None:
    pytest.importorskip("plotly")
    text = page(END)

    (data,) = re.findall(r'<script type="application/json" id="figure-1">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data)["data"][0]["name"] == END
    assert not set("<>&\u2028") & set(data)


def test_numbers_that_are_none_are_refused() -> None:
    pytest.importorskip("plotly")
    figure = {"data": [{"y": [float("nan")]}], "layout": {"height": 200}}
    with pytest.raises(ValueError):  # JSON has no NaN; a browser would draw nothing at all
        to_html(Report("r", (Section("s", (Chart(figure, "", "", TABLE),)),)))


def test_a_page_without_charts_runs_no_script() -> None:
    text = to_html(Report("r", (Section("s", (Paragraph("x"),)),)))

    assert "script-src 'none'" in unescape(text) and "<script" not in text


def test_sections_with_one_title_have_anchors_of_their_own() -> None:
    text = to_html(Report("r", tuple(Section("Same", (Paragraph("x"),)) for _ in range(2))))

    assert re.findall(r'<section id="([^"]*)"', text) == re.findall(r'<a href="#([^"]*)"', text) == ["same-1", "same-2"]


def test_markdown_shows_the_table_of_a_chart() -> None:
    chart = Chart({"data": [], "layout": {"height": 200}}, "loss", "caption", TABLE)

    text = to_markdown(Report("r", (Section("s", (chart,)),)), "images")

    assert "<summary>Loss</summary>" in text and "| 1 | 0.5 |" in text
