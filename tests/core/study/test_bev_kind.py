"""Clients of a bird's eye study: who is rendered, what trains, and what is held out."""

from pathlib import Path
from typing import Any

import pytest

from fed_core.config import from_tree
from fed_core.data.opv2v.source import open_source
from fed_core.data.opv2v.use_cases import load_use_case
from fed_core.errors import ConfigError, DataError
from fed_core.scenes.driving import DrivingOptions, generate
from fed_core.study.bev.kind import BevKind
from fed_core.study.config import StudyConfig


def config(**settings: Any) -> StudyConfig:
    tree = {
        "title": "small",
        "scenario": "bev",
        "models": {"fax_tiny": {"strategies": ["fedavg"]}},
        **settings,
    }
    return from_tree(StudyConfig, tree)


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DrivingOptions(
        frames=9, test_frames=2, width=32, height=24, map_size=32, clients=("bus", "truck"), scene_frames=2,
        min_visible_px=1,
    )  # fmt: skip
    return generate(tmp_path_factory.mktemp("streets") / "data", options)


def test_last_tenth_of_the_scenarios_at_least_one_chooses_the_round(streets: Path) -> None:
    scenario = BevKind().recorded(config(bev={"reader": {"map_size": 32}}), streets)

    assert [client.name for client in scenario.clients] == ["bus", "truck"]
    owners = {(test.owner, test.split): test for test in scenario.tests}
    assert set(owners) == {(name, split) for name in ("bus", "truck") for split in ("test", "validation")}
    train, held = scenario.clients[0].source, owners["bus", "validation"].source
    assert not set(train.scenarios) & set(held.scenarios)
    assert len(held.scenarios) == 1
    assert held.scenarios[0] > max(train.scenarios)  # the last one
    counts = [len(open_source(source, Path())) for source in (train, held, owners["bus", "test"].source)]
    assert counts[0] + counts[1] == 4  # 9 frames in the ratio 1398 : 1459 give 4 and 5
    assert counts[2] == 2
    assert scenario.synthetic


def test_vehicles_are_drawn_for_training_only(streets: Path) -> None:
    scenario = BevKind().recorded(config(bev={"reader": {"map_size": 32, "vehicle": "drawn"}}), streets)

    assert {client.source.options["vehicle"] for client in scenario.clients} == {"drawn"}
    assert {test.source.options["vehicle"] for test in scenario.tests} == {"first"}
    plain = BevKind().recorded(config(bev={"reader": {"map_size": 32, "vehicle": "every"}}), streets)
    assert {test.source.options["vehicle"] for test in plain.tests} == {"every"}


def test_one_scenario_cannot_be_divided(tmp_path: Path) -> None:
    options = DrivingOptions(frames=2, test_frames=1, width=32, height=24, map_size=32, clients=("bus",))
    data = generate(tmp_path / "data", options)

    with pytest.raises(DataError, match=r"client 'bus' has 1 training scenario\(s\); one is held out, so it needs"):
        BevKind().recorded(config(bev={"reader": {"map_size": 32}}), data)


@pytest.mark.parametrize(
    ("use_case", "names"),
    [("uc1", ["bus", "truck", "car"]), ("uc2", ["bus", "truck", "car_a", "car_b"]), ("uc3", None), ("uc4", None)],
)
def test_every_use_case_can_be_rendered(use_case: str, names: list[str] | None) -> None:
    pieces: Any = BevKind().pieces(config(bev={"use_case": use_case, "frames": 256, "scene_frames": 1}), 1)

    assert names is None or [piece.name for piece in pieces] == names
    assert len(pieces) == {"uc1": 3, "uc2": 4, "uc3": 24, "uc4": 3}[use_case]
    assert len({(piece.kind, piece.seed) for piece in pieces}) == len(pieces)  # streets of its own for each
    assert sum(piece.frames for piece in pieces) == pytest.approx(256, abs=24)
    if use_case == "uc4":
        assert [piece.client.cameras for piece in pieces] == [(0,), (0, 1, 2), (0, 1, 2, 3)]


def test_ratio_of_the_paper_decides_how_many_frames_each_has() -> None:
    pieces: Any = BevKind().pieces(config(bev={"frames": 1000}), 0)

    assert [piece.frames for piece in pieces] == [65, 67, 538, 330]  # 1398 : 1459 : 11636 : 7142


def test_unknown_use_case_and_tuning_are_refused() -> None:
    with pytest.raises(ConfigError, match="no use case is called 'uc9'"):
        BevKind().pieces(config(bev={"use_case": "uc9"}), 0)
    with pytest.raises(ConfigError, match="a study of the scenario 'bev' tunes nothing; leave out tuning"):
        config(tuning={"model": "fax_tiny", "strategy": "fedepth", "parameter": "tau", "values": [0.1]})


def test_folder_without_its_own_file_is_the_use_case_of_the_study_or_what_its_folders_say(tmp_path: Path) -> None:
    case = load_use_case("uc4")
    for number, client in enumerate(case.clients):
        for split, names in (("train", client.train), ("test", client.test)):
            for name in names:
                (tmp_path / "uc4" / split / f"client_{number + 1}" / name).mkdir(parents=True)

    found = BevKind().recorded(config(bev={"use_case": "uc4"}), tmp_path / "uc4")
    cameras = [tuple(client.source.options["cameras"]) for client in found.clients]
    assert cameras == [(0,), (0, 1, 2), (0, 1, 2, 3)]
    assert not found.synthetic

    other = BevKind().recorded(config(bev={"use_case": "uc2"}), tmp_path / "uc4")
    assert [client.name for client in other.clients] == ["client_1", "client_2", "client_3"]

    with pytest.raises(DataError, match=r"lacks \d+ of the \d+ scenarios of uc2"):
        BevKind().recorded(config(bev={"use_case": "uc2"}), tmp_path)


def test_small_clients_have_two_scenarios_at_least() -> None:
    pieces: Any = BevKind().pieces(config(bev={"frames": 24, "scene_frames": 4}), 0)

    assert [piece.frames for piece in pieces] == [5, 5, 13, 8]  # 24 in the ratio of the paper gives 2, 2, 13, 8
