"""Write docs/strategies.md: every federated method with its options (``python scripts/write_strategies.py``)."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fed_cli.strategies import allowed, describe, shown
from fed_core.strategies import strategies

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Strategies

Written by `scripts/write_strategies.py` from the code; `fedperc strategies [NAME]` shows the same in a terminal.

A strategy is one file in [`fed_core/strategies`](../fed_core/strategies) with both halves of a method: what robots do
in a round, and what the aggregator does after it. Take one in a fleet file by its name, with the options that differ
from their defaults:

```yaml
strategy: {name: fedprox, options: {mu: 0.01}}
```

"""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *[tuple(cell.replace("|", "\\|") for cell in row) for row in rows]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def section(entry: dict[str, Any]) -> str:
    """Return the section of one strategy: its text and its options."""
    name = entry["name"]
    text = entry["text"].replace("``", "`")
    parts = [f"## {name}\n", f"{text}\n", f"Code: [`{name}`](../{entry['file']})\n"]
    rows = [(f"`{o['name']}`", o["type"], _code(shown(o)), allowed(o), o["help"]) for o in entry["options"]]
    parts.append(table(("option", "type", "default", "allowed", "meaning"), rows) if rows else "It has no options.\n")
    return "\n".join(parts)


def document() -> str:
    """Return the text of docs/strategies.md."""
    entries = [describe(name, strategies.get(name)) for name in strategies.names()]
    rows = [(f"[`{e['name']}`](#{e['name']})", e["paper"], e["summary"]) for e in entries]
    return HEAD + "\n".join([table(("strategy", "paper", "what it does"), rows), *map(section, entries)])


def _code(text: str) -> str:
    return f"`{text}`" if text else "empty"


def main() -> int:
    """Write the file."""
    (ROOT / "docs" / "strategies.md").write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
