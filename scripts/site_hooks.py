"""What the documentation site needs beyond mkdocs (`hooks` in mkdocs.yml).

The same Markdown is read on a code host and on the site. Links that leave docs/ lead to a page of the site where it has
one (PAGES), and into the repository at `repo_url` otherwise; without a `repo_url` the file's path stands there.
"""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
#: Pages whose text lies outside docs/, by path in the repository.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    **{f"models/cards/{p.name}": f"cards/{p.name}" for p in sorted((ROOT / "models/cards").glob("*.md"))},
}
_SOURCES = {uri: path for path, uri in PAGES.items()}
#: Code, which holds no links: fences and spans.
_CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"\]\(([^)\s]+)\)")
#: A picture whose width is told, as code hosts know it: <img src="images/a.png" width="300">.
_PICTURE = re.compile(r'(<img\b[^>]*\bsrc=")([^":]+)(?=")')
_UNPUBLISHED = re.compile(r'<a href="source:([^"#]*)[^"]*">(.*?)</a>', re.DOTALL)
#: What Sphinx understands in docstrings and Markdown does not: roles before code, a paragraph that says "code follows".
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(<code>)~?")
_FOLLOWS = "<p>::</p>"
#: The theme's script asks the code host for stars where it finds this.
_STARS = ' data-md-component="source"'
_log = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose text lies outside docs/."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave docs/ to where they lead on the site; let Markdown work inside <details>."""
    uri = page.file.src_uri
    parts = _CODE.split(markdown.replace("<details>", '<details markdown="1">'))
    parts[::2] = [_TARGET.sub(lambda m: f"]({site_target(m[1], uri, config.repo_url or '')})", t) for t in parts[::2]]
    parts[::2] = [_PICTURE.sub(lambda m: m[1] + _picture(m[2], page.file, files), text) for text in parts[::2]]
    return "".join(parts)


def _picture(target: str, on: File, files: Files) -> str:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(on.src_uri), target))
    found = files.get_file_from_path(path)
    if found is None:
        _log.warning("docs/%s shows %s, which is not in docs/", on.src_uri, target)
        return target
    return found.url_relative_to(on)


def site_target(target: str, uri: str, repository: str) -> str:
    """Return where a link leads on the site.

    Args:
        target: as it stands in the text ("../fed_core/registry.py#L3").
        uri: page that it stands on ("extend/strategy.md").
        repository: address of the repository; empty where there is none.
    """
    path, mark, anchor = target.partition("#")
    if ":" in path or path.startswith("/") or not path:
        return target
    here = _SOURCES.get(uri, f"docs/{uri}")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
    page = PAGES.get(there) or (there.removeprefix("docs/") if there.startswith("docs/") else None)
    if page:
        return posixpath.relpath(page, posixpath.dirname(uri) or ".") + mark + anchor
    if not (ROOT / there).exists():
        _log.warning("%s has a link to %s, which is not in the repository", here, target)
    if not repository:
        return f"source:{there}"
    kind = "tree" if (ROOT / there).is_dir() else "blob"
    return f"{repository.rstrip('/')}/{kind}/main/{there}{mark}{anchor}"


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the path of a file in place of a link that has no address yet; take Sphinx's marks out of docstrings."""
    return _ROLE.sub(r"\1", _UNPUBLISHED.sub(_as_path, html)).replace(_FOLLOWS, "")


def _as_path(link: re.Match[str]) -> str:
    path, text = link[1], link[2]
    plain = re.sub("<[^>]+>", "", text)
    shown = "<code>" + path.replace("/", "/<wbr>") + "</code>"
    return shown if path.endswith(plain) else f"{text} ({shown})"


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Keep browsers from asking the code host for stars."""
    return output.replace(_STARS, "")


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same on pages that are no pages, as 404.html."""
    return output_content.replace(_STARS, "")
