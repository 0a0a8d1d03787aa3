"""A report's page, read back: tables, charts, and everything that it would load or run."""

import json
import re
from html.parser import HTMLParser
from typing import Any

#: Elements without an end.
_VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Reads a page; ``problems`` tells what is not balanced.

    Attributes:
        tables: rows of texts of each table, the header first, by the table's caption or the summary above it.
        figures: the JSON of each chart, in order.
        scripts: texts of the scripts that run.
        attributes: (element, name, value) of all attributes.
        text: all that people read.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: dict[str, list[list[str]]] = {}
        self.figures: list[dict[str, Any]] = []
        self.scripts: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.problems: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self._kind, self._title, self._rows = "", "", [[]]  # type: ignore[var-annotated]
        self.feed(page)
        self.problems += [f"{tag} is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "script":
            self._kind = dict(attrs).get("type") or "code"
            self.scripts += [""] * (self._kind == "code")
        if tag == "table":
            self._rows = []
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")
        if tag in ("caption", "b", "summary") and not (tag == "summary" and "figure" in self._open):
            self._title = ""

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"{tag} ends at {self.getpos()}")
        if tag == "table":
            self.tables[self._title] = self._rows

    def handle_data(self, data: str) -> None:
        where = self._open[-1] if self._open else ""
        if where == "script":
            if self._kind == "code":
                self.scripts[-1] += data
            else:
                self.figures.append(json.loads(data))
            return
        if where in ("td", "th") or (where == "strong" and self._rows):
            self._rows[-1][-1] += data
        if where in ("caption", "b") or (where == "summary" and "figure" not in self._open):
            self._title += data
        if where != "style":
            self.text += data

    @property
    def loads(self) -> list[str]:
        """What a browser would fetch."""
        names = {"src", "srcset", "data", "poster", "action", "background"}
        found = [value for tag, name, value in self.attributes if name in names or (tag, name) == ("link", "href")]
        links = [value for tag, name, value in self.attributes if (tag, name) == ("a", "href")]
        return [*(v for v in found if not v.startswith("data:image/png;base64,")), *(v for v in links if v[:1] != "#")]

    @property
    def handlers(self) -> list[str]:
        """Attributes that would run a script."""
        return [
            name for _, name, value in self.attributes if name.startswith("on") or re.match(r"\s*javascript:", value)
        ]
