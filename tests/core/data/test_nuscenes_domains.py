import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fed_core.data.nuscenes.domains import (
    DOMAINS,
    PUBLISHED_COUNTS,
    SPLITS,
    Scene,
    check_published_counts,
    domain_of,
    list_scenes,
    split_domains,
    split_scenes,
)
from fed_core.data.nuscenes.sequence import NuScenesOptions, NuScenesSequence
from fed_core.data.nuscenes.tables import open_tables
from fed_core.errors import DataError
from tests.core.data.nuscenes_trees import CAMERAS, VERSION, write_scenes

FIVE = [
    ("scene-1", "boston-seaport", "Parked cars", "train"),
    ("scene-2", "boston-seaport", "Rain, wait at a light", "train"),
    ("scene-3", "singapore-onenorth", "Many peds", "val"),
    ("scene-4", "singapore-hollandvillage", "Night, peds", "train"),
    ("scene-5", "singapore-queenstown", "Night, heavy rain", "val"),
]


def published(shared_data: Path) -> list[Scene]:
    """All 850 scenes of nuScenes v1.0-trainval with their official splits."""
    with (shared_data / "nuscenes_domains" / "scenes_trainval.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [Scene(row["name"], row["location"], row["description"], row["split"]) for row in rows]


@pytest.mark.parametrize(
    ("location", "description", "domain"),
    [
        ("boston-seaport", "Parked cars, train station", "boston_day_clear"),
        ("boston-seaport", "Rain, parked cars", "boston_day_rain"),
        ("boston-seaport", "After a rainy day", "boston_day_rain"),
        ("singapore-onenorth", "Terrain, construction", "singapore_day_clear"),
        ("singapore-queenstown", "NIGHT, peds", "singapore_night_clear"),
        ("singapore-hollandvillage", "Difficult lighting, at night after rain", "singapore_night_rain"),
        ("boston-seaport", "Night, peds", None),
        ("singapore-onenorth", "Rain at noon", None),
        ("paris", "Sun", None),
    ],
)
def test_domain_of_a_scene(location: str, description: str, domain: str | None) -> None:
    assert domain_of(location, description) == domain


def test_ten_published_counts_and_no_scene_in_two_domains(shared_data: Path) -> None:
    scenes = published(shared_data)
    split = split_scenes(scenes)
    check_published_counts(split)
    counts = {part: [len(split[domain][part]) for domain in DOMAINS.values()] for part in SPLITS}
    assert counts == {"train": [265, 125, 226, 71, 13], "val": [53, 24, 58, 12, 3]}
    names = [name for domain in split.values() for part in domain.values() for name in part]
    assert len(scenes) == len(names) == len(set(names)) == 850


def test_splits_of_the_devkit_are_the_official_ones(shared_data: Path) -> None:
    from nuscenes.utils.splits import create_splits_scenes

    official = create_splits_scenes()
    for part in SPLITS:
        assert {scene.name for scene in published(shared_data) if scene.split == part} == set(official[part])


def test_other_counts_are_named(shared_data: Path) -> None:
    scenes = [scene for scene in published(shared_data) if scene.name != "scene-0003"]  # val, Singapore, day, clear
    text = "domain singapore_day_clear has 57 val scenes, published are 58; this is not the whole of nuScenes"
    with pytest.raises(DataError, match=re.escape(text)):
        check_published_counts(split_scenes(scenes))
    with pytest.raises(DataError, match="boston_day_clear has 0 train scenes, published are 265"):
        check_published_counts({})


def test_real_tables(shared_data: Path) -> None:
    split = split_domains(open_tables(shared_data / "nuscenes_tables_mini_val"))
    assert split["boston_day_clear"] == {"train": [], "val": ["scene-0103"]}
    assert split["singapore_day_clear"] == {"train": ["scene-0061"], "val": ["scene-0916"]}


def test_own_scenes_are_split_by_a_file(tmp_path: Path) -> None:
    write_scenes(tmp_path, FIVE, frames=1)
    split = split_domains(open_tables(tmp_path))
    found = {domain: {part: names for part, names in parts.items() if names} for domain, parts in split.items()}
    assert found == {
        "boston_day_clear": {"train": ["scene-1"]},
        "boston_day_rain": {"train": ["scene-2"]},
        "singapore_day_clear": {"val": ["scene-3"]},
        "singapore_night_clear": {"train": ["scene-4"]},
        "singapore_night_rain": {"val": ["scene-5"]},
    }


def test_file_of_splits_that_is_broken(tmp_path: Path) -> None:
    write_scenes(tmp_path, FIVE[:1], frames=1)
    path = tmp_path / VERSION / "splits.json"
    trees: list[object] = [{"train": []}, {"train": 3, "val": []}]
    for text in ("{", *map(json.dumps, trees)):
        path.write_text(text)
        with pytest.raises(DataError, match=re.escape(f"{path} must hold")):
            list_scenes(open_tables(tmp_path))
    path.unlink()
    assert [scene.split for scene in list_scenes(open_tables(tmp_path))] == [""]  # not an official name


def test_domain_with_one_scene_and_one_without(tmp_path: Path) -> None:
    write_scenes(tmp_path, FIVE[:4], frames=2)
    options = NuScenesOptions(domain="singapore_night_clear", split="train", cameras=CAMERAS)
    sequence = NuScenesSequence("D", tmp_path, options)
    assert (sequence.scenes, len(sequence)) == (("scene-4",), 2)
    text = "has no scene of domain singapore_night_rain, split val; it has boston_day_clear (train), boston_day_rain"
    with pytest.raises(DataError, match=re.escape(text)):
        NuScenesSequence("E", tmp_path, NuScenesOptions(domain="singapore_night_rain", split="val", cameras=CAMERAS))


def test_counts_add_up_to_the_official_splits() -> None:
    totals: Mapping[str, int] = {part: sum(counts.values()) for part, counts in PUBLISHED_COUNTS.items()}
    assert totals == {"train": 700, "val": 150}


def test_no_validation_scene_trains_or_is_probed(tmp_path: Path) -> None:
    """Robots train and probe on sources of split train; of no domain does such a source give a scene to validate."""
    scenes = [(f"{name}-{split}", place, text, split) for name, place, text, _ in FIVE for split in SPLITS]
    write_scenes(tmp_path, scenes, frames=2)
    tokens: dict[str, set[str]] = {}
    for split in SPLITS:
        tokens[split] = set()
        for domain in DOMAINS.values():
            options = NuScenesOptions(domain=domain, split=split, cameras=CAMERAS)
            found = NuScenesSequence(domain, tmp_path, options)
            assert [found.scene(index)[-len(split) :] for index in range(len(found))] == [split] * 2
            tokens[split] |= {found.token(index) for index in range(len(found))}
    assert len(tokens["train"]) == len(tokens["val"]) == 10 and not tokens["train"] & tokens["val"]
