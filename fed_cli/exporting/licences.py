"""What the cards of the networks say of licences."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fed_cli.exporting.networks import START
from fed_core.errors import ConfigError
from fed_core.shared_files import shared_file

_CARDS = "models/cards"
_SAME = "the same"


def licences(network: str, options: Mapping[str, Any]) -> list[str]:
    """Return what is known of the licences of a network and of the weights that it started from, as sentences."""
    found = [text for path in _cards() for text in _of_card(path, network)]
    if not found:
        found.append(f"No card tells the licence of the network {network}.")
    for option in START:
        if options.get(option):
            found.append(f"It started from the weights in {options[option]}, which have a licence of their own.")
    return found


def _cards() -> list[Path]:
    try:
        return sorted(shared_file(_CARDS).glob("*.md"))
    except ConfigError:  # an installation without them
        return []


def _of_card(path: Path, network: str) -> Iterator[str]:
    text, name = path.read_text(encoding="utf-8"), f"`{network}`"
    title = text.partition("\n")[0].lstrip("# ")
    tables = _tables(text)
    of_network = [_cell(table, name) for table in tables if any(name in cell for cell in table[0])]
    yield from (f"Network {network}: {licence}." for licence in of_network if licence)
    for table in tables:
        rows = {row[0]: row[1:] for row in table}
        if name in " ".join(rows.get("used by", ())) and "licence" in rows:
            yield f"Pretrained part of it, {title}: {rows['licence'][0]}."
    if name in text and not of_network and not any("used by" in row[0] for table in tables for row in table):
        yield f"Network {network}: see {_CARDS}/{path.name}."


def _cell(table: Sequence[Sequence[str]], name: str) -> str:
    """Return the licence in a network's column; one that is "the same" is that on its left."""
    column = next(place for place, cell in enumerate(table[0]) if name in cell)
    row = next((row for row in table if row[0] == "licence"), None)
    if row is None:
        return ""
    return next((cell for cell in reversed(row[1 : column + 1]) if cell != _SAME), "")


def _tables(text: str) -> list[list[list[str]]]:
    """Return the cells of all tables of a page, row by row, without the line below the head."""
    tables: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if not line.startswith("|"):
            tables.append([])
        elif "---" not in line:
            tables[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return [table for table in tables if table]
