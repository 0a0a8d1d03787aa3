"""Made-up traffic of a fleet file: made once, where the sources look for it."""

from pathlib import Path
from typing import Any

import pytest

from fed_core.config import from_tree
from fed_core.data.samples import open_samples
from fed_core.errors import ConfigError, DataError
from fed_core.fleet import FleetConfig
from fed_core.traffic import with_traffic

TRAFFIC = {"seed": 3, "frames": 2, "test_frames": 1, "width": 32, "height": 24, "clients": ["bus", "car_a"]}
TREE: dict[str, Any] = {
    "run": "maps",
    "task": "bev",
    "network": {"name": "fax_tiny"},
    "traffic": TRAFFIC,
    "robots": [
        {"id": "bus", "source": {"data": "traffic/train/client_1"}},
        {"id": "car", "source": {"parts": [{"data": "traffic/train/client_2"}, {"data": "own/recording"}]}},
        {"id": "live"},
    ],
    "test": [{"name": "unseen", "robot": "car", "source": {"data": "traffic/test/client_2"}}],
}


def fleet(**changes: Any) -> FleetConfig:
    return from_tree(FleetConfig, {**TREE, **changes}, "fleet")


def test_sources_find_the_traffic_in_the_folder_of_the_run(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    placed = with_traffic(fleet(), tmp_path, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (4, 4)  # a training and a test frame of both
    bus, car, live = (entry.source for entry in placed.robots)
    assert bus is not None and car is not None and live is None
    assert bus.data == str(tmp_path / "traffic" / "train" / "client_1")
    assert [part.data for part in car.parts] == [str(tmp_path / "traffic" / "train" / "client_2"), "own/recording"]
    assert len(open_samples("bev", bus, Path("/nowhere"))) == 1
    frame = open_samples("bev", placed.test[0].source, Path("/nowhere"))[0]
    assert frame.images[0].shape == (24, 32, 3)

    seen.clear()
    assert with_traffic(fleet(), tmp_path, lambda done, total: seen.append((done, total))) == placed
    assert seen == []  # it was there


def test_a_folder_with_other_traffic_is_not_taken(tmp_path: Path) -> None:
    with_traffic(fleet(), tmp_path)
    with pytest.raises(DataError, match="holds data of another recipe"):
        with_traffic(fleet(traffic={**TRAFFIC, "seed": 4}), tmp_path)


def test_a_fleet_without_traffic_stays_as_it_is(tmp_path: Path) -> None:
    plain = fleet(traffic={})
    assert with_traffic(plain, tmp_path) is plain
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"traffic": {"frame": 3}}, "traffic: unknown key 'frame'; known: seed, frames"),
        ({"traffic": {**TRAFFIC, "width": 2}}, "DrivingOptions.width is 2; it must lie between 16 and 1600"),
        ({"robots": [{"id": "car"}], "test": []}, "makes traffic, but no source is in it; name one, as traffic/train/"),
        ({"task": "depth"}, "traffic is made for tasks bev and detection, and this fleet learns depth; leave it out"),
        (
            {"test": [{"name": "t", "robot": "van", "source": {"data": "x"}}]},
            "test sequence t is of robot 'van'; known: bus, car, live",
        ),
    ],
)
def test_mistakes_are_told(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        with_traffic(fleet(**changes), tmp_path)
    assert not (tmp_path / "traffic").exists()
