"""A whole study in several processes: order of its stages, what is done once, and what failures leave behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fed_core.config import from_tree
from fed_core.errors import ConfigError, StudyError
from fed_core.study.config import StudyConfig
from fed_core.study.depth.generated import _scenario
from fed_core.study.depth.kind import DepthKind
from fed_core.study.kinds import KINDS
from fed_core.study.runner import Progress, Study
from fed_core.study.scenario import Scenario, ScoreRule
from tests.core.study.small import config, write_stores
from tests.core.training.tiny import toolbox

TUNING = {"model": "tiny", "strategy": "fedepth", "parameter": "tau_quantile", "values": [0.1, 0.9], "rounds": 1}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stores(tmp_path_factory.mktemp("stores"))


def study(
    study_config: StudyConfig, folder: Path, data: Path | None, see: Callable[[Progress], None] = lambda p: None
) -> Study:
    return Study(study_config, folder, toolbox, data=data, jobs=2, command="fedperc study", on_progress=see)


def results(folder: Path) -> dict[str, Any]:
    return {str(p.relative_to(folder)): json.loads(p.read_text()) for p in sorted(folder.rglob("result.json"))}


def test_study_runs_every_cell_once_and_describes_itself(stores: Path, tmp_path: Path) -> None:
    first = study(config("fedavg", "fedepth", seeds=2), tmp_path, stores).run()
    done = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    starts: list[tuple[int, int]] = []
    more = config("fedavg", "fedepth", "local", seeds=2)
    second = study(more, tmp_path, stores, lambda p: starts.append((p.done, p.found))).run()

    assert (first.done, first.failures) == (4, [])
    assert (4, 4) in starts  # finished runs count at once
    assert (second.done, len(list(tmp_path.rglob("result.json")))) == (6, 6)
    assert all(path.stat().st_mtime_ns == when for path, when in done.items())
    tree = json.loads((tmp_path / "study.json").read_text())
    assert (tree["models"], tree["strategies"], tree["seeds"]) == (["tiny"], ["fedavg", "fedepth", "local"], [0, 1])
    assert tree["synthetic"] is False
    assert tree["tests"][0]["descriptor_frames"] == 2
    assert tree["tests"][0]["scored_frames"] == 8
    figures = results(tmp_path / "cells")
    assert figures["tiny/fedavg/seed0/result.json"]["macro"] != figures["tiny/fedavg/seed1/result.json"]["macro"]


def rooms(study_config: StudyConfig, seed: int) -> Scenario:
    return _scenario((("legged", "indoor"),), study_config.generated, seed, lambda environment: ScoreRule())


def test_option_is_tuned_on_clients_before_unseen_sequences_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rendered data: while the option is tuned, no unseen sequence exists on disk."""
    monkeypatch.setitem(KINDS, "depth-hpe", DepthKind(rooms))
    small = {"frames": 9, "test_frames": 4, "step": 1, "width": 32, "height": 32}
    there: dict[str, set[str]] = {}

    def see(progress: Progress) -> None:
        names = {path.parent.name for path in tmp_path.glob("data/*/*/index.json")}
        there.setdefault(progress.stage, set()).update(names)

    tuned_study = config("fedepth", "hard", tuning={**TUNING, "shared_with": ["hard"]}, generated=small)
    study(tuned_study, tmp_path, None, see).run()

    tuned = json.loads((tmp_path / "tuning" / "tuning.json").read_text())
    clients = {"legged_indoor_0", "legged_indoor_1"}
    assert there["tuning fedepth.tau_quantile"] == clients
    assert there["recordings of seed0"] >= clients
    assert there["runs"] == clients | {"unseen_legged_indoor_0"}
    best = min(tuned["values"], key=lambda value: tuned["values"][value]["abs_rel"])
    assert tuned["chosen"] == float(best)
    found = results(tmp_path / "cells")
    assert len(found) == 2
    for path, result in found.items():
        assert result["options"]["tau_quantile"] == tuned["chosen"], path


def test_a_failing_run_does_not_stop_the_others(stores: Path, tmp_path: Path) -> None:
    progress = study(config("fedavg", "scaffold:control=path"), tmp_path, stores).run()  # path needs plain SGD

    assert progress.done == 2
    assert [failure.what for failure in progress.failures] == ["tiny scaffold:control=path seed 0"]
    assert "sgd" in progress.failures[0].text.lower()
    assert list(results(tmp_path / "cells")) == ["tiny/fedavg/seed0/result.json"]


def test_mistakes_are_told_before_anything_is_prepared(tmp_path: Path) -> None:
    fine = config("fedavg")
    for settings, text in (
        ({"train": {"learning_rate": 1.0}}, "train of tiny: unknown key 'learning_rate'; known: lr"),
        ({"models": {"absent": {"strategies": ["fedavg"]}}}, "no network is called 'absent'"),
        ({"models": {"tiny": {"strategies": ["feddwa:cv_update=II"]}}}, "cv_update II with cv_space grad needs plain"),
        ({"generated": {"frames": 1}}, "frames is 1; it must be at least 2"),
    ):
        with pytest.raises(ConfigError, match=text):
            study(config("fedavg", **settings), tmp_path / "out", None).run()
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StudyError, match="cannot make the folder .*file.*; name another with --out"):
            study(fine, folder, None).run()


def test_broken_result_is_told(stores: Path, tmp_path: Path) -> None:
    study(config("fedavg", rounds=1), tmp_path, stores).run()
    path = next(tmp_path.rglob("result.json"))
    path.write_text("{")

    with pytest.raises(StudyError, match=r"cannot read .*result.json: .*; delete it to run this cell again"):
        study(config("fedavg", rounds=1), tmp_path, stores).run()


def test_settings_are_not_mixed_in_one_folder_from_the_first_moment(stores: Path, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study(config("fedavg", rounds=1, tuning=TUNING), tmp_path, stores, stop).run()
    with pytest.raises(ConfigError, match=r"other settings \(rounds\); use another"):
        study(config("fedavg", rounds=2, tuning=TUNING), tmp_path, stores)


def test_settings_are_not_mixed_in_one_folder(stores: Path, tmp_path: Path) -> None:
    study(config("fedavg", rounds=1), tmp_path, stores).run()

    with pytest.raises(
        ConfigError, match=r"holds a study with other settings \(rounds\); use another folder with --out"
    ):
        study(config("fedavg", rounds=2), tmp_path, stores)
    for text in ("{", "[]"):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(ConfigError, match="study.json is broken; use another folder with --out"):
            study(config("fedavg", rounds=1), tmp_path, stores)


def test_broken_choice_of_an_option_is_told(tmp_path: Path) -> None:
    (tmp_path / "tuning").mkdir()
    (tmp_path / "tuning" / "tuning.json").write_text("{")

    with pytest.raises(StudyError, match=r"cannot read .*tuning.json: .*; delete it to tune again"):
        study(config("fedepth", tuning=TUNING), tmp_path, None)._tune(None)  # type: ignore[arg-type]


def test_recording_that_cannot_be_rendered_ends_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "depth-hpe", DepthKind(rooms))
    folder = tmp_path / "data" / "seed0" / "legged_indoor_0"
    folder.mkdir(parents=True)
    (folder / "rgb").write_text("a file where a folder belongs")
    small = {"frames": 2, "test_frames": 4, "step": 1, "width": 32, "height": 32}

    with pytest.raises(StudyError, match="recording 'legged_indoor_0' cannot be prepared: cannot make the store .*rgb"):
        study(config("fedavg", generated=small), tmp_path, None).run()


def test_a_folder_of_something_else_is_refused(stores: Path, tmp_path: Path) -> None:
    """A demo and a study in one folder would overwrite each other."""
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"is not empty and holds no study, but summary.json; name a new folder"):
        study(config("fedavg"), tmp_path, stores)
    (tmp_path / "summary.json").unlink()
    (tmp_path / "recordings").mkdir()  # what `fedperc study --data` prepared
    assert study(config("fedavg"), tmp_path, stores).run().failures == []


def test_network_of_another_task_is_refused_at_once(tmp_path: Path) -> None:
    tree = {"title": "maps", "scenario": "bev", "models": {"tiny": {"strategies": ["fedavg"]}}}
    with pytest.raises(ConfigError, match="network 'tiny' does not learn the task 'bev': it has no map_size, extent_m"):
        study(from_tree(StudyConfig, tree), tmp_path, None)
