"""The one door: paths, URIs, entries of a fleet file."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fed_core.config import from_tree, to_tree
from fed_core.data import open as door
from fed_core.data.open import SourceConfig, list_recordings, open_sequence, open_source
from fed_core.data.options import TopicNames
from fed_core.data.readers import readers
from fed_core.errors import ConfigError, DataError, UnknownNameError

Make = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, write_pair: Make) -> Path:
    """A 7-Scenes folder of six frames; red of a frame is 200, blue its index."""
    root = tmp_path / "data" / "office"
    for i in range(6):
        write_pair(root / f"frame-{i:06}.color.png", root / f"frame-{i:06}.depth.png", [[1000 + i]], shade=i)
    return root


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch, make_sequence: Make) -> list[Any]:
    """Stand-in for the scene generator; gives the calls it got."""
    calls: list[Any] = []

    def generate(*args: Any, **kwargs: Any) -> Any:
        calls.append((args, kwargs))
        return make_sequence(kwargs["num_frames"])

    monkeypatch.setitem(sys.modules, "fed_core.scenes", SimpleNamespace(GeneratedSequence=generate))
    return calls


def shades(sequence: Any) -> list[int]:
    return [int(sequence[i].rgb[0, 0, 2]) for i in range(len(sequence))]


def test_path_and_uri(folder: Path) -> None:
    for source in (folder, str(folder), folder.as_uri()):
        assert shades(open_sequence(source)) == [0, 1, 2, 3, 4, 5]


def test_reader_can_be_named(folder: Path, rgbd_bag: Make) -> None:
    assert len(open_sequence(folder, reader="seven_scenes")) == 6
    with pytest.raises(
        UnknownNameError, match="no reader is called 'kity'; known: generic, kitti, kitti_lidar, m3ed, nyu"
    ):
        open_sequence(folder, reader="kity")
    with pytest.raises(DataError, match="is not of the layout kitti: rgb/ and depth/"):
        open_sequence(folder, reader="kitti")
    bag = rgbd_bag(folder.parent / "x.bag", "ros1")
    with pytest.raises(DataError, match="x.bag is a file; the layout tum is a folder with rgb.txt and depth.txt"):
        open_sequence(bag, reader="tum")
    with pytest.raises(DataError, match=r"office is not a bag; it has no metadata.yaml and no .bag, .db3, .mcap file"):
        open_sequence(folder, reader="bag")


@pytest.mark.parametrize("layout", ["generic", "kitti", "nyu", "redwood", "seven_scenes", "tartanair", "tum"])
def test_wrongly_named_layout_is_a_clear_line(layout: str, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(DataError) as caught:
        open_sequence(tmp_path, reader=layout)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_unknown_option_and_bounds(folder: Path) -> None:
    with pytest.raises(ConfigError, match="open_sequence: unknown key 'slop'; known: name, rate_hz"):
        open_sequence(folder, slop=1.0)
    with pytest.raises(ConfigError, match="OpenOptions.slop_s is -1.0; it must be at least 0.0"):
        open_sequence(folder, slop_s=-1.0)
    with pytest.raises(ConfigError, match="intrinsics needs fx, fy, cx, cy; got 3 values"):
        open_sequence(folder, intrinsics=[1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match="focal lengths .* must be positive"):
        open_sequence(folder, intrinsics=[0.0, 2.0, 3.0, 4.0])


def test_unknown_layout_tells_what_was_tried_what_is_there_and_what_lies_below(folder: Path, rgbd_bag: Make) -> None:
    root = folder.parent
    rgbd_bag(root / "walk")
    (root / "README.md").write_text("x")
    (root / "empty").mkdir()
    with pytest.raises(DataError) as caught:
        open_sequence(root)
    assert str(caught.value) == (
        f"{root} has no known layout (tried bag, {', '.join(readers.names())}); "
        "it holds 1 files (1 .md); folders: empty, office, walk; recordings in it, name one: office, walk"
    )
    with pytest.raises(DataError, match="it holds nothing$"):
        open_sequence(root / "empty")
    with pytest.raises(DataError, match="README.md is not a recording; expected a folder or .bag, .db3, .mcap"):
        open_sequence(root / "README.md")
    with pytest.raises(DataError, match="nowhere does not exist"):
        open_sequence(root / "nowhere")


def test_a_first_recording_that_was_not_closed_says_who_mends_it(tmp_path: Path) -> None:
    part = tmp_path / "samples_0.mcap.part"
    part.write_bytes(b"x")
    for path in (tmp_path, part):
        with pytest.raises(DataError) as caught:
            open_sequence(path)
        assert str(caught.value) == (
            f"{path}: samples_0.mcap.part is a recording that was not closed; "
            "the robot that records there mends it at its next start"
        )


def test_folder_that_fits_two_layouts_must_be_named(folder: Path) -> None:
    (folder / "sync_depth_00000.png").write_bytes(b"x")
    with pytest.raises(DataError, match="fits several layouts: nyu, seven_scenes; name one with reader:"):
        open_sequence(folder)
    assert len(open_sequence(folder, reader="seven_scenes")) == 6


def test_sequence_file_beats_file_names(folder: Path) -> None:
    (folder / "sequence.yaml").write_text("depth_unit: mm\nintrinsics: [1, 1, 0, 0]\nrgb: c\ndepth: d\n")
    with pytest.raises(DataError, match="holds no frames"):  # the folders c and d are empty
        open_sequence(folder)


def test_recordings_of_a_folder(folder: Path, rgbd_bag: Make) -> None:
    root = folder.parent
    rgbd_bag(root / "b.bag", "ros1")
    rgbd_bag(root / "a.bag", "ros1")
    bag = rgbd_bag(root / "walk")
    assert list_recordings(root) == [root / "a.bag", root / "b.bag", folder, bag]
    assert list_recordings(folder) == [folder]
    assert list_recordings(bag) == [bag]
    assert list_recordings(root / "a.bag") == [root / "a.bag"]
    with pytest.raises(DataError, match="nowhere does not exist"):
        list_recordings(root / "nowhere")


def test_source_takes_a_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FED_PERCEPTION_DATA", raising=False)
    tree = {"data": "data/office", "start": 1, "stop": 6, "step": 2, "name": "odd"}
    part = open_source(tree, folder.parents[1])
    assert shades(part) == [1, 3, 5] and part.name == "odd"
    assert open_source({"data": "data/office", "stop": 2}, folder.parents[1]).name == "office_0-1"
    assert shades(open_source({"data": str(folder)}, Path("/nowhere"))) == [0, 1, 2, 3, 4, 5]
    assert shades(open_source(from_tree(SourceConfig, tree), folder.parents[1])) == [1, 3, 5]


def test_data_variable_beats_the_folder_of_the_fleet_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FED_PERCEPTION_DATA", str(folder.parent))
    assert len(open_source({"data": "office"}, Path("/nowhere"))) == 6
    monkeypatch.setenv("FED_PERCEPTION_DATA", "")
    assert len(open_source({"data": "office"}, folder.parent)) == 6


def test_source_options_reach_the_bag(rgbd_bag: Make, tmp_path: Path) -> None:
    rgbd_bag(tmp_path / "rec")
    tree = {"data": "rec", "slop_s": 0.001, "topics": {"colour": "/cam/rgb/image"}}
    with pytest.raises(DataError, match="within 0.001 s of each other; the nearest are 0.005 s apart"):
        open_source(tree, tmp_path)
    config = from_tree(SourceConfig, {**tree, "frame_id": "f", "depth_unit": "cm", "rate_hz": 3})
    options = config.open_options
    assert (options.slop_s, options.topics) == (0.001, TopicNames(colour="/cam/rgb/image"))
    assert (options.frame_id, options.depth_unit, options.rate_hz) == ("f", "cm", 3.0)
    assert from_tree(SourceConfig, to_tree(config)) == config


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({}, "a source needs either 'data: PATH' or 'generated: {platform, environment, ...}'"),
        (
            {"data": "x", "generated": {"platform": "ugv", "environment": "indoor"}},
            "a source needs either 'data: PATH'",
        ),
        ({"data": "x", "begin": 1}, "source: unknown key 'begin'; known: data, generated, reader"),
        ({"data": "x", "step": 0}, "SourceConfig.step is 0; it must be at least 1"),
        ({"data": "x", "topics": {"color": "/c"}}, "source.topics: unknown key 'color'; known: colour, depth, info"),
        ({"generated": {"platform": "ugv"}}, "source.generated: key 'environment' is missing"),
        ("office", "source: expected keys and values, got 'office'"),
    ],
)
def test_source_is_checked(tree: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        open_source(tree, tmp_path)
    assert str(caught.value).startswith(text)


def test_generated_source(generator: list[Any], tmp_path: Path) -> None:
    tree = {"generated": {"platform": "ugv", "environment": "indoor", "seed": 3, "frames": 8}, "start": 6}
    assert len(open_source(tree, tmp_path)) == 2
    expected = {"seed": 3, "num_frames": 8, "width": 160, "height": 120, "name": None}
    assert generator == [(("ugv", "indoor"), expected)]


def test_generated_uri(generator: list[Any]) -> None:
    assert len(open_sequence("generated:uav/forest?seed=2&frames=5&width=80", name="woods")) == 5
    expected = {"seed": 2, "num_frames": 5, "width": 80, "height": 120, "name": "woods"}
    assert generator == [(("uav", "forest"), expected)]
    assert len(open_sequence("generated://uav/forest")) == 100
    with pytest.raises(ConfigError, match="generated: seed is 'x'; expected a whole number"):
        open_sequence("generated:uav/forest?seed=x")
    with pytest.raises(ConfigError, match="unknown key 'frame'; known: platform, environment, seed"):
        open_sequence("generated:uav/forest?frame=1")


def test_the_door_imports_neither_torch_nor_the_generator() -> None:
    import subprocess

    code = (
        "import sys; import fed_core.data.open; "
        "print([m for m in ('torch', 'fed_core.scenes', 'rclpy') if m in sys.modules])"
    )
    root = Path(door.__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
