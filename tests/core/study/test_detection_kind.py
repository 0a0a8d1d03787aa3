"""Clients of a detection study: which scenes train, which choose settings, and which are only ever tested."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from fed_core.config import from_tree
from fed_core.data.nuscenes.domains import DOMAINS
from fed_core.data.nuscenes.source import open_source
from fed_core.errors import ConfigError, DataError
from fed_core.study.config import StudyConfig
from fed_core.study.detection.kind import DetectionKind, held_out, scenes_of
from fed_core.study.scenario import Scenario
from tests.core.data.nuscenes_trees import write_scenes

_PLACES = {"boston": "boston-seaport", "singapore": "singapore-onenorth"}


def config(**settings: Any) -> StudyConfig:
    tree = {
        "title": "small",
        "scenario": "detection-domains",
        "models": {"cmt_tiny": {"strategies": ["fedavg"]}},
        "detection": settings,
    }
    return from_tree(StudyConfig, tree)


def scenes(domain: str, train: int, val: int) -> list[tuple[str, str, str, str]]:
    city, _, condition = domain.partition("_")
    words = {"day_clear": "Peds", "day_rain": "Rain, peds", "night_clear": "Night", "night_rain": "Night, rain"}
    counts = {"train": train, "val": val}
    return [
        (f"{domain}-{split}-{number}", _PLACES[city], words[condition], split)
        for split, count in counts.items()
        for number in range(count)
    ]


def write(root: Path, **counts: tuple[int, int]) -> Path:
    write_scenes(root, [scene for domain, count in counts.items() for scene in scenes(domain, *count)])
    return root


def by_owner(scenario: Scenario) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(test.owner, test.split): scenes_of(test) for test in scenario.tests}


def test_last_training_scenes_choose_settings_and_val_scenes_are_the_test(tmp_path: Path) -> None:
    root = write(tmp_path, boston_day_clear=(20, 3), singapore_night_clear=(2, 1))

    scenario = DetectionKind().recorded(config(validation=0.1), root)

    assert [client.name for client in scenario.clients] == ["boston_day_clear", "singapore_night_clear"]
    assert [(c.platform, c.environment) for c in scenario.clients] == [
        ("boston", "day_clear"),
        ("singapore", "night_clear"),
    ]
    trained = {client.name: scenes_of(client) for client in scenario.clients}
    tested = by_owner(scenario)
    assert trained["boston_day_clear"] == tuple(f"boston_day_clear-train-{n}" for n in range(18))
    assert tested["boston_day_clear", "validation"] == ("boston_day_clear-train-18", "boston_day_clear-train-19")
    assert tested["boston_day_clear", "test"] == tuple(f"boston_day_clear-val-{n}" for n in range(3))
    assert trained["singapore_night_clear"] == ("singapore_night_clear-train-0",)
    assert tested["singapore_night_clear", "validation"] == ("singapore_night_clear-train-1",)
    assert scenario.synthetic


def test_no_test_scene_is_trained_on_or_chosen_by(tmp_path: Path) -> None:
    root = write(tmp_path, boston_day_clear=(5, 2), boston_day_rain=(3, 2), singapore_day_clear=(1, 1))

    scenario = DetectionKind().recorded(config(validation=0.4), root)

    tests = {name for (_, split), names in by_owner(scenario).items() if split == "test" for name in names}
    held = {name for (_, split), names in by_owner(scenario).items() if split == "validation" for name in names}
    train = {name for client in scenario.clients for name in scenes_of(client)}
    assert len(tests) == 5 and len(train) + len(held) == 9
    assert not tests & train and not tests & held and not train & held
    official = json.loads((root / "v1.0-generated" / "splits.json").read_text())
    assert tests == set(official["val"])
    tokens = {
        part: {seq.token(k) for seq in map(_opened, sources) for k in range(len(seq))}
        for part, sources in {
            "train": [client.source for client in scenario.clients],
            "test": [test.source for test in scenario.tests if test.split == "test"],
        }.items()
    }
    assert not tokens["train"] & tokens["test"]


def _opened(source: Any) -> Any:
    return open_source(source, Path())


def test_domain_with_one_training_scene_trains_on_it_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = write(tmp_path, boston_day_clear=(2, 1), singapore_night_rain=(1, 1))

    with caplog.at_level(logging.WARNING):
        scenario = DetectionKind().recorded(config(), root)

    assert scenes_of(scenario.clients[1]) == ("singapore_night_rain-train-0",)
    assert ("singapore_night_rain", "validation") not in by_owner(scenario)
    text = "singapore_night_rain has one training scene, singapore_night_rain-train-0: it trains, and none is left"
    assert text in caplog.text
    assert "lacks training or test scenes of boston_day_rain, singapore_day_clear, singapore_night_clear" in caplog.text


def test_domains_without_training_or_test_scenes_are_left_out_and_one_domain_is_no_study(tmp_path: Path) -> None:
    root = write(tmp_path, boston_day_clear=(2, 1), boston_day_rain=(2, 0))

    with pytest.raises(DataError, match=r"has training and test scenes of too few domains to compare \(boston_day_c"):
        DetectionKind().recorded(config(), root)


def test_cameras_are_those_of_the_folder_and_intervals_differ(tmp_path: Path) -> None:
    root = write(tmp_path, boston_day_clear=(2, 1), singapore_day_clear=(2, 1))

    scenario = DetectionKind().recorded(config(train_interval=2, score_interval=3, reader={"sweeps": 0}), root)

    options = scenario.clients[0].source.options
    assert (options["cameras"], options["sweeps"], options["load_interval"]) == (["CAM_FRONT", "CAM_BACK"], 0, 2)
    assert {test.source.options["load_interval"] for test in scenario.tests} == {3}
    one = DetectionKind().recorded(config(reader={"cameras": ["CAM_BACK"]}), root)
    assert one.clients[0].source.options["cameras"] == ["CAM_BACK"]
    with pytest.raises(ConfigError, match="detection.reader"):
        DetectionKind().recorded(config(reader={"colour": True}), root)


@pytest.mark.parametrize(("count", "share", "held"), [(1, 0.1, 0), (2, 0.1, 1), (3, 0.5, 2), (265, 0.1, 26)])
def test_how_many_scenes_are_held_out(count: int, share: float, held: int) -> None:
    kept, out = held_out("boston_day_clear", [f"s{n}" for n in range(count)], share)

    assert (len(kept), len(out)) == (count - held, held)
    assert [*kept, *out] == [f"s{n}" for n in range(count)]


def test_every_domain_is_rendered_by_itself_with_the_seed() -> None:
    pieces: Any = DetectionKind().pieces(config(), 2)

    assert [piece.name for piece in pieces] == list(DOMAINS.values())
    assert {piece.seed for piece in pieces} == {2}
    some: Any = DetectionKind().pieces(config(generator={"domains": ["E", "A"]}), 0)
    assert [(piece.letter, piece.name) for piece in some] == [("E", "singapore_night_rain"), ("A", "boston_day_clear")]


@pytest.mark.parametrize(
    ("generator", "text"),
    [
        ({"domains": ["A", "X"]}, "no generated domain is called 'X'; known: A, B, C, D, E"),
        ({"keyframs": 2}, "detection.generator: unknown key 'keyframs'; known: seed, domains"),
        ({"seed": 3}, "detection.generator: leave out 'seed'; a study numbers its own"),
    ],
)
def test_mistakes_in_what_is_rendered_are_told_before_anything_is(generator: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        DetectionKind().pieces(config(generator=generator), 0)


def test_a_detection_study_tunes_nothing() -> None:
    tree = {
        "title": "small",
        "scenario": "detection-domains",
        "models": {"cmt_tiny": {"strategies": ["fedavg"]}},
        "tuning": {"model": "cmt_tiny", "strategy": "fedepth", "parameter": "tau", "values": [0.1]},
    }
    with pytest.raises(ConfigError, match="a study of the scenario 'detection-domains' tunes nothing"):
        from_tree(StudyConfig, tree)


def test_a_folder_that_is_not_all_of_trainval_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = write(tmp_path, boston_day_clear=(3, 1), singapore_day_clear=(2, 1))
    (version,) = root.glob("v1.0-*")
    version.rename(root / "v1.0-trainval")

    with caplog.at_level(logging.WARNING):
        scenario = DetectionKind().recorded(config(), root)

    assert not scenario.synthetic
    told = "v1.0-trainval: domain boston_day_clear has 3 train scenes, published are 265; this is not the whole of"
    assert told in caplog.text
