"""The fleet file: what it means, and how its mistakes are told."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fed_core.data.open import SourceConfig
from fed_core.errors import ConfigError
from fed_core.fleet import RobotEntry, load_fleet

ROOT = Path(__file__).resolve().parents[2]
TREE: dict[str, Any] = {
    "run": "first_run-2",
    "rounds": 3,
    "seed": 7,
    "network": {"name": "adabins_s", "options": {"bins": 16}},
    "strategy": {"name": "fedavg"},
    "train": {"lr": 0.001},
    "aggregator": {"min_robots": 2, "round_deadline_s": 30},
    "robots": [{"id": "ana", "source": {"data": "a"}, "frames": 12}, {"id": "ben"}],
    "test": [{"name": "t1", "source": {"data": "b"}}],
}


def load(tmp_path: Path, **changes: Any) -> Any:
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({**TREE, **changes}))
    return load_fleet(path)


def test_reads_a_fleet(tmp_path: Path) -> None:
    fleet = load(tmp_path)
    assert [(robot.id, robot.frames, robot.source is None) for robot in fleet.robots] == [
        ("ana", 12, False), ("ben", 0, True)
    ]  # fmt: skip
    assert fleet.aggregator.round_deadline_s == 30.0
    run = fleet.run_config()
    assert (run.strategy, run.network, run.network_options, run.train) == (
        "fedavg", "adabins_s", {"bins": 16}, {"lr": 0.001}
    )  # fmt: skip
    assert (run.total_rounds, run.seed, run.task) == (3, 7, "depth")


def test_the_digest_of_a_run_follows_what_is_trained_and_nothing_else(tmp_path: Path) -> None:
    digest = load(tmp_path).run_config().digest
    assert load(tmp_path, run="other", test=[], aggregator={}).run_config().digest == digest
    for changes in ({"seed": 8}, {"rounds": 4}, {"train": {"lr": 0.002}}, {"strategy": {"name": "fedepth"}}):
        assert load(tmp_path, **changes).run_config().digest != digest


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"robots": []}, "the fleet has no robot; list at least one under robots"),
        ({"robots": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, "robot id a is listed twice in the fleet"),
        ({"test": TREE["test"] * 2}, "test sequence t1 is listed twice in the fleet"),
        ({"run": "my run"}, "run is 'my run'; use letters, digits, _ and -"),
        ({"run": "../up"}, "run is '../up'; use letters, digits, _ and -"),
        ({"run": ""}, "run is ''; use letters, digits, _ and -"),
        ({"rounds": -1}, "FleetConfig.rounds is -1; it must lie between 0 and 100000"),
        (
            {"task": "bev", "test": [{"name": "t-1", "source": {"data": "b"}}]},
            "test sequence 't-1': it names a ROS name",
        ),
        ({"test": [{"name": "1", "robot": "ana", "source": {"data": "b"}}]}, "test sequence '1': it names a ROS name"),
        ({"robotss": []}, "fleet.yaml: unknown key 'robotss'; known: run, robots"),
        ({"robots": [{"id": "2fast"}]}, "robot id '2fast'"),
        ({"robots": [{"id": "a/b"}]}, "robot id 'a/b'"),
        ({"robots": [{"id": "a", "frames": -1}]}, "RobotEntry.frames is -1; it must be at least 0"),
        ({"robots": [{"id": "a", "source": {}}]}, "a source needs either"),
        ({"inference": {"descriptor_frames": 1}}, "InferenceEntry.descriptor_frames is 1; it must lie between 2"),
        ({"aggregator": {"min_updates": 3, "min_robots": 2}}, "min_updates is 3, more than min_robots"),
    ],
)
def test_tells_mistakes(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as err:
        load(tmp_path, **changes)
    assert words in str(err.value)


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "fleet").glob("*.yaml")), ids=lambda path: path.name)
def test_every_fleet_file_of_the_repository_is_valid(path: Path) -> None:
    assert load_fleet(path).robots


def test_a_robot_records_the_first_frames_of_its_source() -> None:
    """Three frames from the tenth on, every second one: 10, 12, 14."""
    source = SourceConfig(data="drive", start=10, step=2)
    assert RobotEntry("a", source, frames=3).recorded == SourceConfig(data="drive", start=10, stop=16, step=2)
    assert RobotEntry("a", source).recorded is source
    assert RobotEntry("a", frames=3).recorded is None
