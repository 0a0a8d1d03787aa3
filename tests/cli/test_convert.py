"""``fedperc convert``: one line about what was written, exit codes."""

from pathlib import Path

import numpy as np
import pytest
from rosbags.rosbag1 import Writer
from typer.testing import CliRunner

from fed_cli.main import app, load_verbs
from fed_core.data.bag_files import BagFile

load_verbs()


def convert(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.bag"
    with Writer(path) as writer:
        one = writer.add_connection("/one", "mine/msg/Point", msgdef="float32 x\n", md5sum="1" * 32)
        two = writer.add_connection("/two", "mine/msg/Point", msgdef="float64 x\n", md5sum="2" * 32)
        writer.write(one, 1, np.float32(1.5).tobytes())
        writer.write(two, 2, np.float64(2.5).tobytes())
    return path


def test_what_was_written_is_told(shared_data: Path, tmp_path: Path) -> None:
    code, told = convert(shared_data / "rosbags/mcap/nav2_turtlebot.mcap", tmp_path / "new", "--storage", "sqlite3")
    assert (code, told) == (0, f"wrote {tmp_path / 'new'}: 8197 messages of 4 topics\n")
    with BagFile(tmp_path / "new") as bag:
        assert bag.num_messages == 8197


def test_what_was_left_out_is_told_and_is_exit_code_1(old: Path, tmp_path: Path) -> None:
    code, told = convert(old, tmp_path / "new.mcap", "--compress")
    assert code == 1
    assert told.splitlines() == [
        "left out /two: its type mine/msg/Point differs from that of another topic",
        f"wrote {tmp_path / 'new.mcap'}: 1 messages of 1 topics",
    ]


def test_bad_input_is_one_line_and_exit_code_2(old: Path, tmp_path: Path) -> None:
    for arguments, text in (
        ((tmp_path / "nowhere", tmp_path / "new"), "nowhere does not exist"),
        ((old, tmp_path / "new", "--storage", "tar"), "bag storage 'tar' cannot be written"),
        ((old, old), "old.bag exists already"),
    ):
        code, told = convert(*arguments)
        assert code == 2 and told.startswith("error: ") and text in told and told.count("\n") == 1
