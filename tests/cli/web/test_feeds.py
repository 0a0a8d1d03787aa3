"""States of a folder and of a live fleet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fed_cli.fleetrun.watching import Watch
from fed_cli.web import feeds
from fed_cli.web.feeds import FolderFeed, LiveFeed
from fed_core.errors import DataError, FedError
from tests.cli.reports.folders import run_config, write_run
from tests.cli.web.fleet_lines import FakeMonitor, fleet, picture, png, robot, services


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[FakeMonitor]:
    made = FakeMonitor(tmp_path)
    yield made
    made.close()


def test_a_finished_run(tmp_path: Path) -> None:
    refused = {"bob": {"count": 2, "code": "TOO_LARGE", "text": "too large"}}
    clusters = {"ann": (0,), "bob": (0, 1)}
    logs = {1: {"warnings": ["odd"], "refused": refused}}
    folder = write_run(tmp_path / "mine", clusters=clusters, masks=True, missing=[(2, "bob")], logs=logs)

    tree = FolderFeed(folder).tree()

    [run] = tree["runs"]
    assert (tree["mode"], tree["title"], tree["notes"], tree["pictures"]) == ("folder", "mine", [], [])
    assert (run["name"], run["phase"], run["round"], run["rounds"]) == ("mine", "finished", 2, 2)
    # Three updates of 1000 bytes; each closed round gives one model of 3000 bytes to ann and two to bob.
    assert run["moved_bytes"] == 3 * 1000 + 2 * (3000 + 6000)
    ann, bob = run["robots"]
    assert (ann["losses"], ann["samples"], ann["sent_bytes"], ann["received_bytes"]) == ([8.0, 4.0], 6, 2000, 6000)
    assert (ann["shares"], ann["said_s"]) == ("1/2", 1_700_000_003.0)
    assert (bob["losses"], bob["refused"], bob["clusters"]) == ([7.0], 2, [0, 1])
    assert [(fault["where"], fault["text"]) for fault in run["faults"]] == [
        ("bob", "refused 2: too large"),
        ("round 2", "without an update of bob"),
        ("method", "odd"),
    ]


def test_a_run_that_goes_on_is_read_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine", run_config(rounds=3), closed=1)
    feed = FolderFeed(folder)
    [run] = feed.tree()["runs"]
    assert (run["phase"], run["round"], run["rounds"]) == ("not finished", 1, 3)
    before = feed.version()
    assert feed.version() == before

    (folder / "journal.sqlite").unlink()
    write_run(folder, run_config(rounds=3), closed=2)

    assert feed.version() != before
    assert feed.tree()["runs"][0]["round"] == 2


def test_a_journal_that_breaks_leaves_what_was_read_and_says_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine")
    feed = FolderFeed(folder)
    (folder / "journal.sqlite").write_bytes(b"no journal")
    tree = feed.tree()
    assert tree["runs"][0]["round"] == 2
    assert len(tree["notes"]) == 1 and tree["notes"][0].startswith("cannot read the journal")


def test_a_demo_has_a_run_for_each_method_its_scores_and_its_picture(tmp_path: Path) -> None:
    for name in ("fedepth", "fedavg"):
        write_run(tmp_path / "aggregator" / name, run_config(name))
    scores: dict[str, Any] = {"abs_rel": {"fedavg": 0.5, "fedepth": 0.25}, "delta1": {"fedavg": 0.5, "fedepth": 0.75}}
    choice = {"name": "street", "frames": 4, "clusters": [0], "distances": [0.5], "threshold": 0.7, "fallback": False}
    summary = {"strategy": "fedepth", "task": "depth", "sequences": [{**choice, **scores}]}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    data = png(tmp_path / "predictions.png", (200, 20, 20))

    feed = FolderFeed(tmp_path)
    tree = feed.tree()

    assert [run["strategy"] for run in tree["runs"]] == ["fedepth", "fedavg"]
    captions = [table["caption"] for table in tree["tables"]]
    assert captions == ["The runs", "Models chosen for unseen sequences", "AbsRel on unseen sequences",
                        "delta1 on unseen sequences"]  # fmt: skip
    assert tree["tables"][2]["rows"][0] == [
        {"text": "street", "strong": False},
        {"text": "0.500", "strong": False},
        {"text": "0.250", "strong": True},
    ]
    [shown] = tree["pictures"]
    found = feed.picture(shown["digest"])
    assert found is not None and found.data == data
    assert feed.picture("0" * 32) is None


def test_folders_that_are_no_runs_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone does not exist; name the folder of a run, a demo or a study$"):
        FolderFeed(tmp_path / "gone")
    with pytest.raises(DataError, match=r"is empty; name the folder of a run"):
        FolderFeed(tmp_path)
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(DataError, match=r"is a study; its report shows it: fedperc report /"):
        FolderFeed(tmp_path)


def test_a_live_fleet(monitor: FakeMonitor, tmp_path: Path) -> None:
    feed = LiveFeed(monitor.reader, Watch("/fleet", 7))
    assert feed.tree()["notes"] == ["The monitor starts."]
    monitor.say({"kind": "graph", "fleets": ["/yard"]})
    told = "No fleet answers on /fleet yet; the page fills when its aggregator runs. Fleets there: /yard (--fleet-ns)."
    assert feed.tree()["notes"] == [told]

    data = png(tmp_path / "a.png", (10, 200, 10))
    monitor.say(fleet(), robot("ann"), services(pause_training="SetBool"), picture(data), picture(b"<svg>", "/bad"))

    tree = feed.tree()
    assert (tree["mode"], tree["title"], tree["notes"]) == ("live", "/fleet in ROS domain 7", [])
    assert tree["runs"][0]["robots"][0]["id"] == "ann"
    assert feed.services() == {"/spot1/pause_training": "std_srvs/srv/SetBool"}
    [shown] = tree["pictures"]
    assert (shown["title"], shown["width"]) == ("/live: depth", 32)
    found = feed.picture(shown["digest"])
    assert found is not None and (found.data, found.mime) == (data, "image/png")


@pytest.mark.parametrize("kept_s", [10.0, -1.0])
def test_a_picture_stays_for_slow_browsers_a_little(
    monitor: FakeMonitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_s: float
) -> None:
    feed = LiveFeed(monitor.reader, Watch())
    digests = []
    for colour in ((10, 20, 30), (200, 20, 30)):
        monitor.say(picture(png(tmp_path / "a.png", colour)))
        digests += [one["digest"] for one in feed.tree()["pictures"]]
    assert len(set(digests)) == 2
    monkeypatch.setattr(feeds, "_KEPT_S", kept_s)
    monitor.say(picture(b"no picture"))
    assert feed.tree()["pictures"] == []
    assert [feed.picture(digest) is not None for digest in digests] == [kept_s > 0, kept_s > 0]


@pytest.mark.parametrize("more", [{"mime": "image/svg+xml"}, {"mime": "image/jpeg"}, {"image": "no base64!"}])
def test_what_is_no_picture_is_left_out(monitor: FakeMonitor, tmp_path: Path, more: dict[str, str]) -> None:
    feed = LiveFeed(monitor.reader, Watch())
    monitor.say(picture(png(tmp_path / "a.png", (1, 2, 3)), **more))
    assert feed.tree()["pictures"] == []


def test_a_monitor_that_ended_is_told(monitor: FakeMonitor) -> None:
    feed = LiveFeed(monitor.reader, Watch())
    feed.check()
    monitor.close()
    with pytest.raises(FedError, match="the monitor ended: it wrote nothing"):
        feed.check()
