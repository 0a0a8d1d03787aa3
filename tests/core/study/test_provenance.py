"""Digests of data follow names and sizes, wherever the data lies."""

import shutil
from pathlib import Path

from fed_core.data.open import SourceConfig
from fed_core.study.provenance import code_digest, data_digest
from fed_core.study.scenario import StudySequence


def sequences(folder: Path, *scenarios: str) -> list[StudySequence]:
    return [StudySequence("bus", "bus", "uc2", SourceConfig(data=str(folder), scenarios=scenarios))]


def test_a_copy_elsewhere_is_the_same_data_and_a_longer_file_is_not(tmp_path: Path) -> None:
    for name in ("a/1/x.png", "a/2/x.png", "b/1/x.png"):
        (tmp_path / "one" / name).parent.mkdir(parents=True)
        (tmp_path / "one" / name).write_bytes(b"12")
    shutil.copytree(tmp_path / "one", tmp_path / "two")

    first = data_digest(sequences(tmp_path / "one"))
    assert data_digest(sequences(tmp_path / "two")) == first
    assert len(first) == 16

    (tmp_path / "two" / "b" / "1" / "x.png").write_bytes(b"123")
    assert data_digest(sequences(tmp_path / "two")) != first
    only = [data_digest(sequences(tmp_path / folder, "a")) for folder in ("one", "two")]
    assert only[0] == only[1] != first  # the longer file is of another scenario


def test_all_parts_of_a_source_count(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(name.encode() * (1 + (name == "b")))
    parts = [SourceConfig(data=str(tmp_path / name)) for name in ("a", "b")]

    def digest(source: SourceConfig) -> str:
        return data_digest([StudySequence("bus", "bus", "uc2", source)])

    assert digest(SourceConfig(parts=tuple(parts))) != digest(parts[0])


def test_code_has_one_digest_in_a_process() -> None:
    assert code_digest() == code_digest()
    assert len(code_digest()) == 16
