"""The documentation as a site: built strictly, links into the code, nothing from other hosts."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("mkdocs", reason="mkdocs comes with requirements/dev.txt")
from scripts.site_hooks import on_page_content, on_page_markdown, on_post_page, site_target

ROOT = Path(__file__).resolve().parents[1]
REPOSITORY = "https://code.example/team/fed_perception"
#: What a browser loads by itself, by element; a link that a reader may follow is none.
LOADED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "use": ("href", "xlink:href"),
}
NOT_LOADED = {"canonical", "next", "prev", "alternate"}


def build(config: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPO_URL": REPOSITORY, "SITE_URL": ""}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110, cwd=ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"mkdocs build --strict:\n{said}"
    assert "WARNING" not in said and "ERROR" not in said, said
    return folder


class Loads(HTMLParser):
    """Addresses that a page makes the browser load, and the classes of its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.classes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.classes.update(told.get("class", "").split())
        if tag == "link" and told.get("rel") not in NOT_LOADED:
            self.addresses.append(told.get("href", ""))
        self.addresses += [told[name] for name in LOADED.get(tag, ()) if name in told]
        self.addresses += re.findall(r"url\(([^)]*)\)", told.get("style", ""))


def outside(addresses: list[str]) -> list[str]:
    return [a for a in addresses if re.match(r"\s*[\"']?(https?:)?//", a)]


def test_what_a_page_loads_is_found() -> None:
    text = (
        '<link rel=stylesheet href="//a.example/x.css"><link rel=canonical href="https://b.example">'
        '<script src="https://c.example/x.js"></script><img src="x.png" srcset="https://d.example/x.png 2x">'
        '<a href="https://e.example">e</a><div style="background: url(https://f.example/x.png)"></div>'
    )
    hosts = [re.sub(r".*//(.)\..*", r"\1", a) for a in outside(Loads(text).addresses)]
    assert hosts == ["a", "c", "d", "f"]


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loads = Loads(text)
        assert not outside(loads.addresses), f"{page.relative_to(site)}: {outside(loads.addresses)}"
        for address in loads.addresses:
            path = unquote(urlsplit(address).path)
            there = site / path.lstrip("/") if path.startswith("/") else page.parent / path
            assert address.startswith("data:") or there.exists(), f"{page.relative_to(site)}: no {address}"
        # The theme's script would fetch these two: diagrams from a CDN, stars from the code host.
        assert "mermaid" not in loads.classes, page
        assert 'data-md-component="source"' not in text, page
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        loaded = re.findall(r"url\(([^)]*)\)|@import\s+[\"']([^\"']*)", text)
        assert not outside([address for pair in loaded for address in pair]), sheet


def test_every_page_of_the_docs_is_on_the_site_and_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        path = page.relative_to(ROOT / "docs").with_suffix("")
        folder = path.parent if path.name == "index" else path
        assert (site / folder / "index.html").is_file(), page
        assert f'href="{folder}/"' in start or folder == Path("."), f"{path} is not in the navigation"


def test_links_into_the_code_lead_to_the_repository(site: Path) -> None:
    methods = (site / "methods" / "index.html").read_text(encoding="utf-8")
    assert f'href="{REPOSITORY}/blob/main/fed_core/strategies/fedepth.py"' in methods
    assert 'href="../cards/fax/"' in methods
    strategies = (site / "strategies" / "index.html").read_text(encoding="utf-8")
    assert f'href="{REPOSITORY}/tree/main/fed_core/strategies"' in strategies


def test_docstrings_are_on_the_site(site: Path) -> None:
    page = (site / "api" / "strategies" / "index.html").read_text(encoding="utf-8")
    assert 'id="fed_core.strategies.base.Strategy.aggregate"' in page
    assert "Inputs stay untouched" in page
    assert not re.search(r":(class|meth|func|data|attr|mod):<code>", page)


def test_folded_tables_of_studies_are_tables(site: Path) -> None:
    page = (site / "studies" / "depth_hpe" / "index.html").read_text(encoding="utf-8")
    folded = re.findall(r"<details>(.*?)</details>", page, re.DOTALL)
    assert folded and all("<table>" in part and "| --- |" not in part for part in folded)


def test_a_broken_link_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = (
        '# Page\n\n[a](no_page.md) [b](#no-heading) [c](../no_code.py) [d](folder/)\n\n<img src="no.png" width="9">\n'
    )
    (tmp_path / "docs" / "index.md").write_text(text)
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nnav: [index.md]\nplugins: []\nextra_css: []\n"
        f"hooks: [{ROOT / 'scripts/site_hooks.py'}]\n"
    )
    done = build(config, tmp_path / "site")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    for part in (
        "no_page.md",
        "#no-heading",
        "../no_code.py, which is not in the repository",
        "relative link 'folder'",
        "docs/index.md shows no.png, which is not in docs/",
    ):
        assert any("WARNING" in line and part in line for line in said.splitlines()), f"{part}:\n{said}"


@pytest.mark.parametrize(
    ("target", "uri", "repository", "expected"),
    [
        ("concepts.md#roles", "index.md", REPOSITORY, "concepts.md#roles"),
        ("../concepts.md", "extend/model.md", REPOSITORY, "../concepts.md"),
        ("#here", "index.md", REPOSITORY, "#here"),
        ("https://e.example/a", "index.md", REPOSITORY, "https://e.example/a"),
        ("../CHANGELOG.md", "index.md", REPOSITORY, "changelog.md"),
        ("../../CONTRIBUTING.md#house-rules", "extend/model.md", REPOSITORY, "../contributing.md#house-rules"),
        ("docs/images/demo.jpg", "changelog.md", REPOSITORY, "images/demo.jpg"),
        ("../../docs/mmdet3d.md", "cards/mmdet3d.md", REPOSITORY, "../mmdet3d.md"),
        ("../models/cards/fax.md", "methods.md", REPOSITORY, "cards/fax.md"),
        ("../README.md#ros-2", "deploy.md", REPOSITORY + "/", f"{REPOSITORY}/blob/main/README.md#ros-2"),
        ("../examples", "index.md", REPOSITORY, f"{REPOSITORY}/tree/main/examples"),
        ("../fed_core/registry.py#L3", "index.md", "", "source:fed_core/registry.py"),
    ],
)
def test_where_links_lead_on_the_site(target: str, uri: str, repository: str, expected: str) -> None:
    assert site_target(target, uri, repository) == expected


def on_page(text: str, repository: str = "") -> str:
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    config: Any = SimpleNamespace(repo_url=repository)
    return on_page_markdown(text, page, config, None)  # type: ignore[arg-type]


def test_links_in_code_stay_as_they_are() -> None:
    text = "`[a](../setup.py)` [`b`](../setup.py)\n\n```\n[c](../setup.py)\n```\n"
    assert on_page(text) == text.replace("[`b`](../setup.py)", "[`b`](source:setup.py)")


def test_without_a_repository_the_path_stands_there() -> None:
    html = '<a href="source:a/b.py">b.py</a> <a href="source:a/b.py">the <em>file</em></a> :class:<code>~x.Y</code>'
    shown = on_page_content(html, None, None, None)  # type: ignore[arg-type]
    path = "<code>a/<wbr>b.py</code>"
    assert shown == f"{path} the <em>file</em> ({path}) <code>x.Y</code>"


def test_the_code_host_is_not_asked_for_stars() -> None:
    assert on_post_page('<a class="md-source" data-md-component="source">', None, None) == '<a class="md-source">'  # type: ignore[arg-type]
