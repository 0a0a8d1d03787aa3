"""Requests of services as lines: what is read, what is refused and how it is said, and lines from a pipe."""

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from std_srvs.srv import SetBool, Trigger

from fed_core.errors import DataError
from fed_nodes.watching.lines import MAX_LINE, LineReader
from fed_nodes.watching.requests import Request, answer, id_of, read_request

SET_BOOL, TRIGGER = "std_srvs/srv/SetBool", "std_srvs/srv/Trigger"
GOOD: dict[str, Any] = {"id": 1, "service": "/brick/pause_training", "type": SET_BOOL, "value": True}


def line(**changed: Any) -> bytes:
    return json.dumps({key: value for key, value in {**GOOD, **changed}.items() if value != "left out"}).encode()


def test_requests_become_messages() -> None:
    assert read_request(line()) == Request(1, "/brick/pause_training", SET_BOOL, True)
    assert read_request(line()).message() == SetBool.Request(data=True)
    assert read_request(line(value=False)).message() == SetBool.Request(data=False)
    trigger = read_request(line(id="a", type=TRIGGER, service="/live/new_sequence", value="left out"))
    assert trigger == Request("a", "/live/new_sequence", TRIGGER) and trigger.message() == Trigger.Request()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (b"pause", 'a line is no JSON: "pause"; expected {"id": 1, "service": "/brick/pause_training", "type": '),
        (b"\xff\xfe", 'a line is no JSON: "\\ufffd\\ufffd"; expected {"id": 1, '),
        (b"[" * 50_000, 'a line is no JSON: "' + "[" * 59 + "...; expected "),
        (b"[1, 2]", "a line is no JSON object: [1, 2]; expected "),
        (b"1" * (MAX_LINE + 1), "a line is longer than 65536 bytes; expected "),
        (line(id="left out"), "id is null; expected a whole number or a text"),
        (line(id=1.5), "id is 1.5; expected a whole number or a text"),
        (line(id=True), "id is true; expected a whole number or a text"),
        (
            line(type="std_srvs/srv/Empty"),
            'type is "std_srvs/srv/Empty"; it can be std_srvs/srv/SetBool or std_srvs/srv/',
        ),
        (line(type=[1]), "type is [1]; it can be "),
        (line(service=5), "service is 5; expected its full name, such as /brick/pause_training"),
        (line(service="pause"), 'service "pause" is no full name of a service, such as /brick/pause_training'),
        (line(service="/a b"), 'service "/a b" is no full name of a service, such as /brick/pause_training'),
        (line(service="/" + "a" * 5_000), 'service "/' + "a" * 58 + "... is no full name of a service"),
        (line(value="left out"), "value is null; std_srvs/srv/SetBool takes true or false"),
        (line(value=1), "value is 1; std_srvs/srv/SetBool takes true or false"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(wrong: bytes, text: str) -> None:
    with pytest.raises(DataError) as caught:
        read_request(wrong)
    assert str(caught.value).startswith(text)


def test_an_answer_has_the_id_of_its_request_where_it_has_one() -> None:
    assert [id_of(line()), id_of(line(id="x", type=0)), id_of(line(id=[1])), id_of(b"{")] == [1, "x", None, None]
    assert json.loads(answer(1, "grün\n", ok=True)) == {"id": 1, "ok": True, "text": "grün\n"}
    assert "\n" not in answer(None, "a\nb") and json.loads(answer(None, ""))["ok"] is False


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    os.close(ends[0])


def taken(reader: LineReader, woken: threading.Semaphore, count: int) -> list[bytes]:
    """Return so many lines, or those until the end."""
    lines: list[bytes] = []
    while len(lines) < count and not reader.ended:
        assert woken.acquire(timeout=10.0), lines
        if (next_line := reader.take()) is not None:
            lines.append(next_line)
    return lines


def test_lines_come_whole_however_they_are_written(pipe: tuple[int, int]) -> None:
    woken = threading.Semaphore(0)
    reader = LineReader(pipe[0], woken.release)
    assert reader.take() is None and not reader.ended
    os.write(pipe[1], b"one\n\n  \ntw")
    assert taken(reader, woken, 1) == [b"one"]
    os.write(pipe[1], b"o\nthree")
    assert taken(reader, woken, 1) == [b"two"]
    os.close(pipe[1])
    assert taken(reader, woken, 9) == [b"three"]
    assert reader.ended and reader.take() is None


def test_of_a_line_without_end_only_the_start_is_kept(pipe: tuple[int, int]) -> None:
    woken = threading.Semaphore(0)
    reader = LineReader(pipe[0], woken.release)

    def write() -> None:
        for _ in range(64):
            os.write(pipe[1], b"x" * 50_000)
        os.write(pipe[1], b"\nshort\n")
        os.close(pipe[1])

    writer = threading.Thread(target=write)
    writer.start()
    assert taken(reader, woken, 9) == [b"x" * (MAX_LINE + 1), b"short"]
    writer.join(10.0)


@pytest.mark.parametrize("waiting", [b"", b"half a line", b"line\n" * 200])
def test_a_reader_is_closed_while_it_waits_for_input_or_for_room(pipe: tuple[int, int], waiting: bytes) -> None:
    woken = threading.Semaphore(0)
    reader = LineReader(pipe[0], woken.release)
    os.write(pipe[1], waiting + b"\n")
    assert not waiting or woken.acquire(timeout=10.0)
    for _ in range(2):
        reader.close()
    assert "lines" not in {thread.name for thread in threading.enumerate()}
    os.close(pipe[1])


def test_no_input_at_all_is_an_end() -> None:
    woken = threading.Semaphore(0)
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    reader = LineReader(max(read, write) + 100, woken.release)
    assert taken(reader, woken, 1) == [] and reader.ended
    reader.close()
