"""Messages that the FAQ and the troubleshooting page quote, with ... for what differs, are in the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("fed_core", "fed_cli", "fed_nodes", "fed_flower", "models/fed_models")
#: Parts between two ... that are shorter than this say nothing.
_LEAST = 8


def texts(source: str) -> Iterator[str]:
    """Give every text of a program; what an f-string fills in is "..."."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "..." for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def unknown(page: str, known: str) -> list[str]:
    """Return the parts of quoted messages that the code does not say."""
    quoted = [span for span in re.findall(r"`([^`\n]+)`", page) if "..." in span]
    parts = [part.strip() for span in quoted for part in span.split("...")]
    return [part for part in parts if len(part) >= _LEAST and part not in known]


@pytest.fixture(scope="module")
def known() -> str:
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return "\n".join(text for file in files for text in texts(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["faq.md", "troubleshooting.md"])
def test_quoted_messages_are_in_the_code(name: str, known: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert len(re.findall(r"`[^`\n]*\.\.\.[^`\n]*`", page)) > 10
    assert unknown(page, known) == []


def test_a_message_that_nobody_says_is_found() -> None:
    known = "\n".join(texts('raise ValueError(f"the bag {name} is " f"torn; mend {it}")'))
    assert unknown("`the bag ... is torn; mend ...` and `no message`", known) == []
    assert unknown("`the bag ... is broken; mend ...`", known) == ["is broken; mend"]
