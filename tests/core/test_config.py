"""Configuration trees: every mistake is told with its place, and trees come back as they went in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fed_core.config import check, from_tree, option, read_yaml, to_tree
from fed_core.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    rate_hz: float = option(10.0, help="rate", unit="Hz", low=0.1, high=100.0)
    name: str = option("a", help="name", choices=("a", "b"))
    mode: str = option("", help="mode", choices=("", "slow"))

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Outer:
    robot: str
    count: int = option(1, help="count", low=1)
    ceiling: float = option(0.0, help="ceiling", high=5.0)
    flag: bool = option(False, help="flag")
    inner: Inner = field(default_factory=Inner)
    more: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    numbers: list[float] = field(default_factory=list)
    maybe: int | None = None
    folder: Path = Path()
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)


def test_builds_a_tree_with_its_defaults() -> None:
    built = from_tree(
        Outer,
        {
            "robot": "ana", "inner": {"rate_hz": 5}, "more": [{"name": "b"}, {}], "pair": [3, "x"], "numbers": [1, 2.5],
            "maybe": None, "folder": "/data", "options": {"any": [1, {"x": None}]}, "weights": {"w": 1},
        },
    )  # fmt: skip
    assert built.inner == Inner(5.0)
    assert type(built.inner.rate_hz) is float
    assert built.more == (Inner(10.0, "b"), Inner())
    assert (built.pair, built.numbers, built.maybe) == ((3, "x"), [1.0, 2.5], None)
    assert (built.folder, built.options, built.weights) == (Path("/data"), {"any": [1, {"x": None}]}, {"w": 1.0})


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({}, "Outer: key 'robot' is missing"),
        ([], r"Outer: expected keys and values, got \[\]"),
        (None, "Outer: expected keys and values, got None"),
        ({"robot": "a", "cuont": 1}, "Outer: unknown key 'cuont'; known: robot, count, ceiling"),
        ({"robot": "a", "inner": {"rate": 1}}, "Outer.inner: unknown key 'rate'; known: rate_hz, name, mode"),
        ({"robot": "a", "more": [{}, {"rate": 1}]}, r"Outer.more\[1\]: unknown key 'rate'"),
        ({"robot": 1}, "Outer.robot: expected str, got 1"),
        ({"robot": "a", "count": 1.5}, "Outer.count: expected int, got 1.5"),
        ({"robot": "a", "count": True}, "Outer.count: expected int, got True"),
        ({"robot": "a", "ceiling": True}, "Outer.ceiling: expected float, got True"),
        ({"robot": "a", "ceiling": "1"}, "Outer.ceiling: expected float, got '1'"),
        ({"robot": "a", "flag": 1}, "Outer.flag: expected bool, got 1"),
        ({"robot": "a", "maybe": "x"}, "Outer.maybe: expected int, got 'x'"),
        ({"robot": "a", "pair": [1]}, "Outer.pair: expected 2 values, got 1"),
        ({"robot": "a", "pair": "ab"}, "Outer.pair: expected a list, got 'ab'"),
        ({"robot": "a", "numbers": {"a": 1}}, "Outer.numbers: expected a list"),
        ({"robot": "a", "weights": {"w": "x"}}, "Outer.weights.w: expected float, got 'x'"),
        ({"robot": "a", "weights": [1]}, r"Outer.weights: expected keys and values, got \[1\]"),
        ({"robot": "a", "options": [1]}, r"Outer.options: expected keys and values, got \[1\]"),
        ({"robot": "a", "folder": 3}, "Outer.folder: expected Path, got 3"),
        ({"robot": "a", "count": 0}, r"^Outer.count is 0; it must be at least 1$"),
        ({"robot": "a", "ceiling": 6}, r"^Outer.ceiling is 6.0; it must be at most 5.0$"),
        ({"robot": "a", "inner": {"rate_hz": 0.0}}, r"^Inner.rate_hz is 0.0; it must lie between 0.1 and 100.0$"),
        ({"robot": "a", "inner": {"rate_hz": float("nan")}}, "^Inner.rate_hz is nan; it must lie between"),
        ({"robot": "a", "inner": {"name": "c"}}, "^Inner.name is 'c'; choose one of a, b$"),
        ({"robot": "a", "inner": {"mode": "c"}}, "^Inner.mode is 'c'; choose one of '', slow$"),
    ],
)
def test_tells_every_mistake_with_its_place(tree: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_tree(Outer, tree)


def test_the_place_can_be_named() -> None:
    with pytest.raises(ConfigError, match="^fleet.yaml: key 'robot' is missing$"):
        from_tree(Outer, {}, "fleet.yaml")


@given(
    st.builds(
        Outer,
        robot=st.text(max_size=5),
        count=st.integers(1, 100),
        inner=st.builds(Inner, st.floats(0.1, 100.0), st.sampled_from(["a", "b"])),
        more=st.lists(st.builds(Inner), max_size=2).map(tuple),
        pair=st.tuples(st.integers(), st.text(max_size=3)),
        numbers=st.lists(st.floats(allow_nan=False), max_size=3),
        maybe=st.none() | st.integers(),
        folder=st.sampled_from([Path("a/b"), Path("/c")]),
        weights=st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=2),
    )
)
@settings(max_examples=30)
def test_a_tree_comes_back_through_yaml_as_it_went_in(config: Outer) -> None:
    text = yaml.safe_dump(to_tree(config))
    assert from_tree(Outer, yaml.safe_load(text)) == config


def test_reads_yaml_and_tells_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    with pytest.raises(ConfigError, match="cannot read .*fleet.yaml: No such file"):
        read_yaml(path)
    path.write_text("a: [1, 2\nb: 3\n")
    with pytest.raises(ConfigError, match="fleet.yaml is not valid YAML: .*line 2") as err:
        read_yaml(path)
    assert "\n" not in str(err.value)
    path.write_text("a: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(ConfigError, match="is not valid YAML"):
        read_yaml(path)
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match="fleet.yaml is not"):
        read_yaml(path)
    path.write_text("a: {b: 1}\n")
    assert read_yaml(path) == {"a": {"b": 1}}
