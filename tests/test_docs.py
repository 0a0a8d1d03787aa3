"""The documentation: pages and links on the code host and on the site, tables against the code, no outside hosts."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")] + sorted(DOCS.rglob("*.md"))
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
FIGURE = re.compile(r"(\d+\.\d+) ± (\d+\.\d+)")


def links(page: Path) -> Iterator[tuple[str, str]]:
    text = CODE.sub("`code`", page.read_text(encoding="utf-8"))
    yield from re.findall(r"\[([^\]]*)\]\(([^)]*)\)", text)
    for picture in re.findall(r"<img\b[^>]*>", text):
        told = dict(re.findall(r'(\w+)="([^"]*)"', picture))
        yield told.get("alt", ""), told["src"]


def anchors(page: Path) -> set[str]:
    """What a code host makes of headings: words in lower case, joined by hyphens, numbered where equal."""
    slugs: set[str] = set()
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        taken = [slug, *(f"{slug}-{number}" for number in range(1, 100))]
        slugs.add(next(name for name in taken if name not in slugs))
    return slugs


def test_anchors_are_made_as_code_hosts_make_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b_c` & d\n\n## Same\n\n```\n# no heading\n```\n\n## Same\n\n## [Link](x.md), τ\n")
    assert anchors(page) == {"a-b_c--d", "same", "same-1", "link-τ"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for text, target in links(page):
        path, _, anchor = target.partition("#")
        assert text.strip(), f"a link to {target} has no text"
        if urlsplit(target).scheme:
            url = urlsplit(target)
            assert url.scheme in ("http", "https") and "." in url.netloc and " " not in target, target
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} leads nowhere"
        assert there.is_relative_to(ROOT), f"{target} leaves the repository"
        if anchor and there.suffix == ".md" and not anchor.startswith(("fed_core.", "fed_models.")):
            assert anchor in anchors(there), f"{target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_have_one_title(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1 and text.lstrip().startswith("# ")


def registered(kind: str, folder: str) -> dict[str, Path]:
    entry = re.compile(rf'^@{kind}\.register\("(\w+)"\)', re.MULTILINE)
    return {
        name: path for path in (ROOT / folder).glob("*.py") for name in entry.findall(path.read_text(encoding="utf-8"))
    }


def method_rows() -> dict[str, list[str]]:
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    return {name: row.split(" | ") for row in text.splitlines() for name in re.findall(r"^\| \[`(\w+)`\]\(", row)}


@pytest.mark.parametrize(("kind", "folder"), [("strategies", "fed_core/strategies"), ("networks", "models/fed_models")])
def test_every_method_has_a_row_with_its_file(kind: str, folder: str) -> None:
    rows, found = method_rows(), registered(kind, folder)
    assert len(found) > 10
    assert not sorted(set(found) - set(rows)), f"{kind} without a row in docs/methods.md"
    for name, path in found.items():
        assert f"(../{path.relative_to(ROOT)})" in rows[name][0], f"{name} is in {path}"
        assert len(rows[name]) == 4 and all(cell.strip(" |") for cell in rows[name]), f"the row of {name} has gaps"


def test_rows_of_methods_are_registered() -> None:
    known = {*registered("strategies", "fed_core/strategies"), *registered("networks", "models/fed_models")}
    assert set(method_rows()) <= known


def test_figures_of_methods_are_those_of_the_studies() -> None:
    studies = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "studies").glob("*.md"))
    known = [(float(mean), float(spread)) for mean, spread in FIGURE.findall(studies)]
    told = FIGURE.findall((DOCS / "methods.md").read_text(encoding="utf-8"))
    assert len(told) > 30
    for mean, spread in told:
        half = 0.5 * 10.0 ** -len(mean.partition(".")[2]) + 1e-9
        assert any(abs(float(mean) - m) <= half and abs(float(spread) - s) <= half for m, s in known), (
            f"{mean} ± {spread}"
        )


def test_the_page_of_commands_is_up_to_date() -> None:
    from scripts.write_commands import document

    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert page == document(), "run python -m scripts.write_commands"


def test_the_data_flow_is_told_to_those_who_cannot_see_it() -> None:
    svg = ElementTree.parse(DOCS / "images" / "data_flow.svg").getroot()
    name = "{http://www.w3.org/2000/svg}"
    assert svg.get("role") == "img"
    told = [svg.find(f"{name}{tag}") for tag in ("title", "desc")]
    assert svg.get("aria-labelledby") == " ".join(str(t.get("id")) for t in told if t is not None)
    assert all(t is not None and t.text and len(t.text.split()) > 5 for t in told)
    assert [target for _, target in links(DOCS / "concepts.md") if target.endswith(".svg")] == ["images/data_flow.svg"]
