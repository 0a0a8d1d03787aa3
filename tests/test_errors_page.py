"""docs/errors.md: up to date, and every kind of error, refusal and exit code is in it."""

from pathlib import Path

from fed_core import errors
from fed_core.errors import FedError, Refusal
from scripts import write_errors

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def below(kind: type[FedError]) -> set[str]:
    """Names of all sub-classes that the product defines."""
    own = {sub.__name__ for sub in kind.__subclasses__() if sub.__module__.startswith("fed_")}
    return own.union(*(below(sub) for sub in kind.__subclasses__()))


def test_the_page_is_what_the_code_says() -> None:
    assert write_errors.document() == PAGE, "run python -m scripts.write_errors"


def test_every_kind_of_error_is_found_and_has_advice() -> None:
    found = {kind.__name__ for kind, _ in write_errors.kinds()}
    assert found == below(FedError)
    assert found == set(write_errors.KINDS)
    assert {"ConfigError", "DiskFullError", "CloudError", "ExportError"} <= found  # of three packages, in two steps


def test_every_refusal_has_its_number_its_meaning_and_advice() -> None:
    names = [refusal.name for refusal in Refusal if refusal]
    assert list(write_errors.REFUSALS) == names
    for refusal in Refusal:
        if refusal:
            assert f"| {int(refusal)} | `{refusal.name}` | " in PAGE
    assert [(n, k) for n, k, _ in write_errors.constants("RegisterRobot")] == [(r.name, int(r)) for r in Refusal]


def test_what_a_reader_of_blobs_is_answered() -> None:
    codes = write_errors.constants("ReadBlob")
    assert [(name, number) for name, number, _ in codes][:2] == [("OK", 0), ("NOT_FOUND", 1)]
    assert all(f"| {number} | `{name}` | {text}" in PAGE for name, number, text in codes)


def test_every_kind_says_in_one_sentence_what_it_is() -> None:
    for kind, _ in write_errors.kinds():
        assert kind.__doc__ and kind.__doc__.split("\n\n")[0].rstrip().endswith("."), kind
    assert errors.FedError.__doc__


def test_exit_codes_are_those_of_the_programs() -> None:
    """The numbers stand in the code of both; nodes return 0, 1 or 2 (fed_nodes.run)."""
    told = (ROOT / "fed_nodes" / "run.py").read_text(encoding="utf-8").split('"""')[1]
    for number, start in (
        ("0", "told to stop"),
        ("1", "it failed while it ran, or the disk is full"),
        ("2", "it could"),
    ):
        assert f"{number}: {start}" in told.replace("\n", " ")
        assert f" | {number} | " in PAGE
    assert "| `fedperc` | 2 | bad input" in PAGE and "| `fedperc` | 130 | you stopped it" in PAGE
