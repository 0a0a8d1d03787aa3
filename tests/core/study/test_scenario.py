"""Scenarios: who trains, what is unseen, and where recordings come from."""

from collections import Counter
from pathlib import Path

import pytest

from fed_core.data.open import SourceConfig, open_source
from fed_core.data.store import write_store
from fed_core.errors import ConfigError, DataError
from fed_core.study.depth.generated import bmr, hpe
from fed_core.study.scenario import Scenario, ScoreRule, StudySequence, from_stores, held_out, prepare, prepared
from tests.core.study.small import CLIENTS, TESTS, config, recording, write_stores


def test_hpe_has_eleven_cells_and_no_world_twice() -> None:
    first, second = (hpe(config("fedavg"), seed) for seed in (0, 1))

    cells = Counter(client.cell for client in first.clients)
    assert (len(cells), set(cells.values())) == (11, {2})
    assert "ugv/indoor" not in cells
    assert Counter(test.cell for test in first.tests) == dict.fromkeys(cells, 1)
    sources = [s.source.generated for scenario in (first, second) for s in (*scenario.clients, *scenario.tests)]
    assert len({source.seed for source in sources if source}) == 66
    assert {test.score.near_cap_m for test in first.tests if test.environment == "indoor"} == {10.0}


def test_bmr_scores_rooms_and_streets_at_their_own_caps() -> None:
    scenario = bmr(config("fedavg", generated={"clients_per_cell": 3}), 0)

    caps = {test.environment: test.score.cap_m for test in scenario.tests}
    assert caps == {"indoor": 10.0, "urban_day": 80.0}
    assert Counter(client.environment for client in scenario.clients) == {"indoor": 6, "urban_day": 6}


def test_prepared_recordings_say_whose_they_are(tmp_path: Path) -> None:
    scenario = from_stores(write_stores(tmp_path))

    assert [client.name for client in scenario.clients] == sorted(CLIENTS)
    assert [test.name for test in scenario.tests] == sorted(TESTS)
    assert scenario.tests[0].cell == "arm/bright"
    assert scenario.tests[0].score == ScoreRule(cap_m=20.0)
    assert not scenario.synthetic
    write_store(recording("x", 0, 3), tmp_path / "x", info={"platform": "arm", "environment": "dark"})
    with pytest.raises(DataError, match=r"x: its index does not say what it is \(role\); prepare it again"):
        from_stores(tmp_path)
    with pytest.raises(DataError, match="holds no prepared recordings; run `fedperc prepare --help`"):
        from_stores(tmp_path / "x")


def test_held_out_frames_are_the_last_ones(tmp_path: Path) -> None:
    scenario = from_stores(write_stores(tmp_path))

    tuning = held_out(scenario, 1 / 3)

    train, scored = tuning.clients[0], tuning.tests[0]
    stamps = [[open_source(s.source, Path())[i].stamp_ns for i in range(n)] for s, n in ((train, 6), (scored, 3))]
    assert stamps == [[0, 1, 2, 3, 4, 5], [6, 7, 8]]
    assert {test.name for test in tuning.tests} == {f"{name}_held_out" for name in CLIENTS}
    with pytest.raises(ConfigError, match="has 9 frames; 5% of them are too few"):
        held_out(scenario, 0.05)


def test_generated_sequence_is_rendered_once(tmp_path: Path) -> None:
    sequence = hpe(config("fedavg", generated={"frames": 2, "step": 1, "width": 32, "height": 32}), 0).clients[0]

    prepare(sequence, tmp_path)
    index = tmp_path / sequence.name / "index.json"
    written_ns = index.stat().st_mtime_ns
    prepare(sequence, tmp_path)

    assert index.stat().st_mtime_ns == written_ns
    assert len(open_source(prepared(sequence, tmp_path).source, Path())) == 2


def test_names_must_be_robot_ids_and_differ() -> None:
    source = SourceConfig(data="x")
    with pytest.raises(ConfigError, match="'2nd floor' is no robot id"):
        StudySequence("2nd floor", "arm", "dark", source)
    one = StudySequence("one", "arm", "dark", source)
    with pytest.raises(ConfigError, match="sequence one is in the scenario twice"):
        Scenario((one,), (one,), synthetic=False)
    with pytest.raises(ConfigError, match="1 clients and 0 unseen sequences"):
        Scenario((one,), (), synthetic=False)
