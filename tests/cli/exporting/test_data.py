"""What a card says of the recordings that a model learned from."""

import json
from pathlib import Path

from fed_cli.exporting.choice import choose
from fed_cli.exporting.data import data_lines
from fed_cli.exporting.runs import find_runs
from fed_cli.fleetrun.folder import kept_fleet
from tests.cli.reports.folders import write_run

CLUSTERS = {"ann": (0,), "bob": (0, 1)}


def told(run: Path, model: str, fleet: dict[str, object]) -> list[str]:
    (run / "fleet.json").write_text(json.dumps({"base": "/data", "fleet": fleet}))
    found = find_runs(run)
    return data_lines(found, choose(found, model, None))


def test_made_and_recorded_data_are_told_apart(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", clusters=CLUSTERS)
    made = {"data": str(run / "traffic" / "train" / "client_1"), "options": {"domain": "boston"}}
    robots = [{"id": "ann", "source": {"data": "/home/me/city.mcap"}}, {"id": "bob", "source": made}]
    lines = told(run, "cluster/1", {"robots": robots, "traffic": {"seed": 1}})
    assert lines[2:] == [
        "| ann | 6 | 0 | no | recorded: city.mcap |",
        "| bob | 6 | 0 1 | yes | synthetic: made-up traffic, boston |",
    ]


def test_only_what_is_all_rendered_is_called_synthetic_as_a_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", clusters=CLUSTERS)
    source = {"generated": {"platform": "uav", "environment": "forest", "seed": 1}}
    lines = told(run, "cluster/0", {"robots": [{"id": name, "source": source} for name in ("ann", "bob")]})
    assert lines[2] == "| ann | 6 | 0 | yes | synthetic: platform uav, environment forest, seed 1 |"
    assert lines[-1] == "**All of it is synthetic**: rendered scenes, no recording of a real sensor."
    lines = told(run, "cluster/0", {"robots": [{"id": "ann", "source": source}]})
    assert lines[-1] == "| bob | 6 | 0 1 | yes | not known here |"


def test_a_fleet_file_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert kept_fleet(tmp_path) is None
    (tmp_path / "fleet.json").write_text("{")
    assert kept_fleet(tmp_path) is None
