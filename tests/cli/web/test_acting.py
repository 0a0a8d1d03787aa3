"""Who may act, and the process that does it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fed_cli.web import acting
from fed_cli.web.acting import Answer, Control, Token, read_token
from fed_core.errors import ConfigError, FedError

#: Answers each call with what it was asked, after one answer that nobody waits for; "/end" ends it.
ECHO = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["service"] == "/end":
        sys.exit("error: no ROS here")
    if asked["service"] != "/silent":
        text = f"{asked['type']} {asked.get('value')} call {asked['id']}"
        print("a line of a library")
        print(json.dumps({"id": asked["id"] - 1, "ok": False, "text": "late"}))
        print(json.dumps({"id": asked["id"], "ok": asked["service"] == "/good", "text": text}), flush=True)
"""


@pytest.fixture
def control() -> Iterator[Control]:
    made = Control([sys.executable, "-c", ECHO], {})
    yield made
    made.close()


def test_answers_belong_to_their_calls(control: Control) -> None:
    assert control.call("/good", "SetBool", True) == Answer(True, "SetBool True call 1")
    assert control.call("/other", "Trigger", None) == Answer(False, "Trigger None call 2")


def test_a_process_that_ends_is_told_and_started_again(control: Control) -> None:
    with pytest.raises(FedError, match="^the control process ended: no ROS here$"):
        control.call("/end", "Trigger", None)
    assert control.call("/good", "Trigger", None).ok


def test_no_answer_is_told(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    assert control.call("/good", "Trigger", None).ok  # it runs
    monkeypatch.setattr(acting, "ANSWER_S", 0.1)
    with pytest.raises(FedError, match="^/silent gave no answer within 0.1 s$"):
        control.call("/silent", "Trigger", None)


def test_only_the_token_opens() -> None:
    token = Token("correct-horse")
    assert token.opened_by("Bearer correct-horse")
    assert token.opened_by("bearer correct-horse")
    for header in ("", "Bearer", "Bearer ", "correct-horse", "Basic correct-horse", "Bearer correct-hors", "Bearer é"):
        assert not token.opened_by(header), header


@pytest.mark.parametrize("text", ["", "short", "with a space in it", "umlautäumlaut", "line\nline"])
def test_a_token_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as told:
        Token(text)
    assert str(told.value) == (
        "the token has to be at least 8 printable ASCII characters without spaces; make one with: openssl rand -hex 16"
    )


def test_where_the_token_comes_from(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-file\n")
    found = read_token(tmp_path / "token", "of-the-variable")
    assert found is not None and found.opened_by("Bearer of-the-file")
    found = read_token(None, "of-the-variable")
    assert found is not None and found.opened_by("Bearer of-the-variable")
    assert read_token(None, None) is None and read_token(None, "") is None
    with pytest.raises(ConfigError, match="^cannot read the token file .*/gone: No such file or directory$"):
        read_token(tmp_path / "gone", None)
