from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.config import from_tree, to_tree
from fed_core.data.concatenated import Concatenated
from fed_core.data.open import SourceConfig, open_source
from fed_core.data.sequence import DepthSequence
from fed_core.errors import ConfigError, DataError

Make = Callable[..., Any]


def shades(sequence: DepthSequence) -> list[int]:
    return [int(sequence[i].rgb[0, 0, 0]) for i in range(len(sequence))]


def test_frames_follow_each_other_in_the_order_of_the_parts(make_sequence: Make) -> None:
    long, short = make_sequence(3), make_sequence(2)
    whole = Concatenated([lambda: short, lambda: long, lambda: short])
    assert len(whole) == 7 and shades(whole) == [0, 1, 0, 1, 2, 0, 1]
    assert whole[4] is long.frames[2]
    assert whole[-1].rgb[0, 0, 0] == 1 and whole[-3].rgb[0, 0, 0] == 2
    assert (whole.name, whole.source) == ("pooled_3", "several")
    assert Concatenated([lambda: long], "office").name == "office"


def test_a_part_is_opened_once_and_only_when_needed(make_sequence: Make) -> None:
    opened: list[str] = []

    def part(name: str) -> DepthSequence:
        opened.append(name)
        return make_sequence(2)

    whole = Concatenated([lambda: part("a"), lambda: part("b")])
    assert opened == []
    assert whole[1] is not None and opened == ["a"]
    assert len(whole) == 4 and shades(whole) == [0, 1, 0, 1] and opened == ["a", "b"]


@pytest.mark.parametrize("index", [5, -6])
def test_past_the_end_is_an_index_error(make_sequence: Make, index: int) -> None:
    with pytest.raises(IndexError):
        Concatenated([lambda: make_sequence(5)])[index]


def test_no_part_is_an_error() -> None:
    with pytest.raises(DataError, match="a concatenation of no parts holds no frame; name at least one"):
        Concatenated([])


def test_a_source_of_parts(rgbd_bag: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FED_PERCEPTION_DATA", raising=False)
    rgbd_bag(tmp_path / "first", count=3)
    rgbd_bag(tmp_path / "second", count=2)
    tree = {"parts": [{"data": "second"}, {"data": "first", "start": 1}], "name": "both"}
    whole = open_source(tree, tmp_path)
    blues = [int(whole[i].rgb[0, 0, 0]) for i in range(len(whole))]
    assert blues == [0, 1, 1, 2] and whole.name == "both"
    np.testing.assert_allclose(np.nanmax(whole[3].depth_m), 1.002, atol=1e-6)
    part = open_source({**tree, "start": 1, "step": 2, "name": ""}, tmp_path)
    assert [int(part[i].rgb[0, 0, 0]) for i in range(len(part))] == [1, 2] and part.name == "pooled_2_1-3"
    nested = {"parts": [tree, {"data": "second", "stop": 1}]}
    assert len(open_source(nested, tmp_path)) == 5


def test_a_source_of_parts_survives_a_tree_and_names_the_missing_part(tmp_path: Path) -> None:
    config = from_tree(SourceConfig, {"parts": [{"data": "nowhere", "stop": 5}, {"data": "b"}]})
    assert from_tree(SourceConfig, to_tree(config)) == config
    with pytest.raises(DataError, match=r"nowhere does not exist"):
        len(open_source(config, tmp_path))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"data": "x", "parts": [{"data": "y"}]}, r"either 'data: PATH' or .* or 'parts: \[SOURCE, \.\.\.\]'"),
        ({"parts": []}, "a source needs either"),
        ({"parts": [{"data": "y", "step": 0}]}, "SourceConfig.step is 0; it must be at least 1"),
        ({"parts": [{"file": "y"}]}, r"source.parts\[0\]: unknown key 'file'"),
        ({"parts": {"data": "y"}}, "source.parts: expected a list"),
    ],
)
def test_parts_are_checked(tree: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=text):
        open_source(tree, tmp_path)
