"""What a report is made of: sections of paragraphs, tables, pictures and charts, and their Markdown.

All text is plain; it is escaped where it is written, so names from a study cannot break the page.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

_NUMBER = re.compile(r"–?|as above|[-+]?\d[\d.]*(e[-+]\d+)?( ± [\d.]+(e[-+]\d+)?| of \d+| [kMGT]?B)?")


class Entry(NamedTuple):
    """One field of a table; ``strong`` marks the best."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table; its first column names the rows.

    Attributes:
        caption: what the figures are.
        header: heading of each column.
        rows: as many entries each as the header has.
        note: what one must know to read it.
        folded: closed until one opens it.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    note: str = ""
    folded: bool = False

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds figures, which stand under each other at the right."""
        columns = [[row[i].text for row in self.rows] for i in range(len(self.header))]
        return (False, *(all(_NUMBER.fullmatch(text) for text in column) for column in columns[1:]))


@dataclass(frozen=True)
class Picture:
    """A PNG.

    Attributes:
        name: file name without folder and ending.
        png: the file's bytes.
        alt: what it shows, for those who do not see it.
        caption: what one must know to read it.
    """

    name: str
    png: bytes
    alt: str
    caption: str


@dataclass(frozen=True)
class Chart:
    """Numbers as an interactive plot, and as a table for those who do not see it or run no script.

    Attributes:
        figure: ``data`` and ``layout`` of plotly, plain JSON; a text in it is shown by plotly, so it must be escaped.
        alt: what it shows, for those who do not see it.
        caption: what one must know to read it.
        table: the same numbers.
    """

    figure: Mapping[str, Any]
    alt: str
    caption: str
    table: Table


Block: TypeAlias = "Paragraph | Table | Picture | Chart"


@dataclass(frozen=True)
class Section:
    """A heading and what is under it."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        """Name for links inside the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    sections: tuple[Section, ...]

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Picture)]

    @property
    def charts(self) -> list[Chart]:
        """All charts, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Chart)]


def rows_of(*rows: tuple[str, ...]) -> tuple[tuple[Entry, ...], ...]:
    """Return table rows without marks."""
    return tuple(tuple(Entry(text) for text in row) for row in rows)


def to_markdown(report: Report, images: str) -> str:
    """Return the report as GitHub Markdown with relative links to ``images/<picture>.png``."""
    lines = [f"# {escape(report.title)}"]
    for section in report.sections:
        lines.append(f"## {escape(section.title)}")
        for block in section.blocks:
            lines.extend(_block_lines(block, images))
    return "\n\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return the text so that Markdown shows it as it is, on one line."""
    flat = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|]|(?<!\w)_|_(?!\w))", r"\\\1", flat)


def _block_lines(block: Block, images: str) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield escape(block.text)
    elif isinstance(block, Picture):
        yield f"![{escape(block.alt)}]({images}/{block.name}.png)"
        yield f"*{escape(block.caption)}*"
    elif isinstance(block, Chart):
        yield from _block_lines(block.table, images)
    elif block.folded:
        yield f"<details><summary>{escape(block.caption)}</summary>"
        yield _table(block)
        if block.note:
            yield escape(block.note)
        yield "</details>"
    else:
        yield f"**{escape(block.caption)}**"
        yield _table(block)
        if block.note:
            yield escape(block.note)


def _table(table: Table) -> str:
    ruler = ["---:" if right else "---" for right in table.numeric]
    rows = [[f"**{escape(e.text)}**" if e.strong else escape(e.text) for e in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [[escape(h) for h in table.header], ruler, *rows])
