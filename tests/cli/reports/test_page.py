import shutil
from pathlib import Path

import pytest

from fed_cli.reports.page import build
from fed_cli.reports.plots import COLOURS
from fed_cli.reports.robots import MOST_ROWS, MOST_TOLD
from fed_core.config import to_tree
from fed_core.errors import DataError, StoreError
from fed_core.store.journal import Journal
from fed_core.study.report.html import to_html
from tests.cli.fleetrun.scored import fleet, write_scores
from tests.cli.recorded import bags
from tests.cli.recorded.test_picture import depth_messages
from tests.cli.reports.folders import ROBOTS, run_config, write_run
from tests.cli.reports.parsed import Page
from tests.core.study.report.depth import folder as depth
from tests.core.study.report.detection import folder as detection

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=https://example.org/x onerror=alert(2)>',
    "</script><script>alert(3)</script>",
    "a{{7*7}}\u2028%{x}$e$",
)


BY_ROBOT = "Robots by round: training loss, training [s], sent [MB], given [MB]"


def page_of(*paths: Path) -> Page:
    return Page(to_html(build(paths)))


def test_tables_hold_the_figures_of_the_run(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "mine", clusters={"ann": (0, 1), "bob": (1,)}, missing=[(2, "bob")]))

    assert page.tables["The run"][1] == (
        ["mine", "depth", "tiny", "fedavg", "0", "2 of 2", "2", "3", "1"] + ["7.5", "4", "3", "3.0 kB", "18.0 kB"]
    )
    assert page.tables["Training loss"][1:] == [["1", "7.5 ± 0.707", "7", "8", "2"], ["2", "4", "4", "4", "1"]]
    assert page.tables["Seconds of each round"][1:] == [["1", "1", "1 ± 0", "1"], ["2", "2", "2", "2"]]
    assert page.tables["Bytes of each round"][1:] == [
        ["1", "2.0 kB", "9.0 kB"],
        ["2", "1.0 kB", "9.0 kB"],
        ["all", "3.0 kB", "18.0 kB"],
    ]
    assert page.tables["Robots"][2] == ["bob", "6", "1", "1", "7", "7", "1", "1.0 kB", "6.0 kB"]
    assert page.tables["Who learned with whom"][1:] == [["bob", "1", "1", "1"], ["ann", "0 1", "0 1", "0 1"]] or (
        page.tables["Who learned with whom"][1:] == [["ann", "0 1", "0 1", "0 1"], ["bob", "1", "1", "1"]]
    )
    assert page.tables[BY_ROBOT][1:] == [
        ["ann", "8, 1, 0.001, 0.006", "4, 2, 0.001, 0.006"],
        ["bob", "7, 1, 0.001, 0.003", "–, –, –, 0.003"],
    ]
    assert page.tables["Robots that were not counted"][1] == ["2", "1", "bob"]
    assert ["train.lr", "0.01"] in page.tables["All settings of mine"]
    assert page.tables["Versions"][1] == ["fed_perception on robots", "1.2.3"]


def test_charts_hold_the_same_figures(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "mine"))

    loss, seconds, traffic, robots = page.figures
    assert [trace["name"] for trace in loss["data"] if "name" in trace] == ["mean of the robots", *ROBOTS]
    assert loss["data"][1]["y"] == [7.5, 3.5]
    assert seconds["data"][0]["y"] == [1.0, 2.0]
    assert traffic["data"][0]["y"] == [0.002, 0.002]
    assert [trace["z"] for trace in robots["data"]][:2] == [[[8.0, 4.0], [7.0, 3.0]], [[1.0, 2.0], [1.0, 2.0]]]


def test_masks_and_cka_are_layers_by_rounds(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "r", run_config("fedcka", rounds=3), masks=True))

    assert page.tables["Shared layers by round"] == [
        ["Layer", "round 2", "round 3"],
        ["stem", "1", "1"],
        ["head", "0", "0"],
    ]
    assert page.tables["CKA by layer and round"][1:] == [["stem", "0.75", "0.75"], ["head", "0.25", "0.25"]]
    cka = page.figures[-1]
    assert cka["data"][0]["z"] == [[0.75, 0.75], [0.25, 0.25]]
    assert [button["label"] for button in cka["layout"]["updatemenus"][0]["buttons"]] == ["mean of all robots", *ROBOTS]


def test_a_page_loads_nothing_and_is_whole(tmp_path: Path) -> None:
    page = page_of(write_run(tmp_path / "r", clusters={"ann": (0,), "bob": (1,)}))

    assert page.problems == [] and page.loads == [] and page.handlers == []
    assert len(page.scripts) == 2  # plotly, and what draws
    policy = next(value for _, name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'; img-src data: blob:;") and "unsafe-eval" not in policy
    assert all(figure["layout"]["height"] > 0 for figure in page.figures)
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("div", "aria-label")]
    assert len(labels) == len(page.figures) and all(len(label) > 20 for label in labels)


def test_names_of_robots_cannot_do_anything(tmp_path: Path) -> None:
    clusters = {name: (place,) for place, name in enumerate(HOSTILE)}
    refused = {HOSTILE[1]: {"count": 3, "code": "NOT_FINITE", "text": HOSTILE[2]}}
    logs = {1: {"warnings": [HOSTILE[0]], "refused": refused}}
    folder = write_run(tmp_path / "r", run_config("fedcka"), HOSTILE, masks=True, clusters=clusters, logs=logs)

    page = page_of(folder)

    assert page.problems == [] and page.loads == [] and page.handlers == []
    assert len(page.scripts) == 2 and not any("alert(" in script[-5000:] for script in page.scripts)
    assert {row[0] for row in page.tables["Robots"][1:]} == set(HOSTILE)
    assert page.tables["Warnings of the method"][1] == ["1", "1", HOSTILE[0]]
    assert page.tables["Refused by the aggregator"][1] == ["1", HOSTILE[1], "3", "NOT_FINITE", HOSTILE[2]]
    assert "<script>" not in repr(page.figures) and "<img" not in repr(page.figures)


def test_a_report_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", run_config("fedcka"), masks=True)

    first = to_html(build([folder]))
    shutil.copytree(folder, tmp_path / "elsewhere" / "r")

    assert to_html(build([tmp_path / "elsewhere" / "r"])) == first
    assert str(tmp_path) not in first


def test_seeds_of_one_method_are_one_line_with_a_band(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / f"avg{seed}", run_config(seed=seed)) for seed in (0, 1)]
    folders.append(write_run(tmp_path / "pacfl", run_config("pacfl"), ["ann", "bob", "cid"]))

    page = page_of(*folders)

    curves = page.figures[0]["data"]
    assert [trace["name"] for trace in curves] == ["fedavg, 2 seeds", "pacfl (pacfl)"]  # no spread
    assert curves[0]["y"] == [7.5, 3.5] and curves[1]["y"] == [7.0, 3.0]
    assert [row[0] for row in page.tables["The runs"]] == ["Run", "avg0", "avg1", "pacfl"]
    assert page.tables["Settings that differ"] == [
        ["Setting", "avg0", "avg1", "pacfl"],
        ["strategy", "fedavg", "fedavg", "pacfl"],
        ["seed", "0", "1", "0"],
    ]


def test_a_run_that_goes_on_says_how_far_it_is(tmp_path: Path) -> None:
    begun = page_of(write_run(tmp_path / "begun", closed=0))
    half = page_of(write_run(tmp_path / "half", run_config(rounds=5), closed=2))

    assert "None of its 2 rounds has closed yet." in begun.text and begun.figures == []
    assert half.tables["The run"][1][5] == "2 of 5"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A demo that ended, with the journal of its own method."""
    from fed_cli.fleetrun.pictures import draw_grid
    from fed_cli.fleetrun.report import summarise

    write_scores(tmp_path / "demo")
    write_run(tmp_path / "demo" / "aggregator" / "fedepth", run_config("fedepth", rounds=3), ["a", "b", "c"])
    write_run(tmp_path / "demo" / "aggregator" / "fedavg", run_config(rounds=3), ["a", "b", "c"])
    draw_grid(tmp_path / "demo", summarise(tmp_path / "demo", fleet(), 60.0), ["initial", "fedavg", "fedepth"])
    (tmp_path / "demo" / "log").mkdir()
    line = "[WARN] [1796026484.2178] [aggregator]: refused 'a': update of round 1, the current round is 2\n"
    (tmp_path / "demo" / "log" / "aggregator.log").write_text(2 * line + "[INFO] [1.0] [aggregator]: fine\n")
    return tmp_path / "demo"


def test_a_demo_has_scores_pictures_and_its_logs(demo: Path) -> None:
    page = page_of(demo)

    assert page.tables["AbsRel on unseen sequences"][1:] == [
        ["unseen", "0.250", "0.500", "1.000"],
        ["mean", "0.250", "0.500", "1.000"],
    ]
    assert page.tables["Models chosen for unseen sequences"][1] == ["unseen", "2", "1", "0: 9, 1: 2", "4", "no"]
    assert page.tables["Lines of the logs"][1] == [
        *("aggregator", "warn", "2"),
        "refused 'a': update of round 1, the current round is 2",
    ]
    assert any("Rounds of demo/fedepth" in value for value in page.text.splitlines())
    assert len([1 for tag, name, _ in page.attributes if (tag, name) == ("img", "src")]) == 1


def test_a_demo_that_has_not_ended_tells_what_is_there(demo: Path) -> None:
    (demo / "summary.json").unlink()
    (demo / "aggregator" / "fedavg" / "journal.sqlite").write_bytes(b"broken" * 500)

    page = page_of(demo)

    assert "The demo has not ended: there are no scores yet." in page.text
    assert "cannot read the journal" in page.text
    assert [row[0] for row in page.tables["The run"][1:]] == ["demo/fedepth"]


def test_a_summary_of_another_version_is_one_clear_line(demo: Path) -> None:
    (demo / "summary.json").write_text('{"task": "depth", "sequences": [{"name": "x"}]}')
    with pytest.raises(StoreError, match=r"^.*/demo/summary.json cannot be read: KeyError\(.*\); it is broken or of"):
        build([demo])

    with pytest.raises(StoreError, match=r"^.*/demo/summary.json cannot be read"):
        build([demo, write_run(demo.parent / "other")])

    (demo / "summary.json").write_text("{")
    assert "summary.json cannot be read: Expecting" in Page(to_html(build([demo]))).text


def test_a_run_is_read_while_it_goes_on(tmp_path: Path) -> None:
    folder, config = tmp_path / "r", run_config(rounds=9)
    write_run(folder, config, closed=1)
    writer = Journal(folder / "journal.sqlite", "r", to_tree(config))
    writer.save_update(2, "ann", {"num_samples": 6, "loss": 3.5, "seconds": 1.0, "blobs": {}, "mask": None}, {})

    page = page_of(folder)

    writer.close()
    assert page.tables["The run"][1][5:9] == ["1 of 9", "2", "3", "0"]  # nobody is missed in a round that is open
    assert [row[0] for row in page.tables["Training loss"]] == ["Round", "1"]


def test_pictures_of_a_recording_go_with_a_run(tmp_path: Path) -> None:
    bag = bags.write(tmp_path / "drive.mcap", depth_messages())

    page = Page(to_html(build([write_run(tmp_path / "r")], [bag])))

    images = [value for tag, name, value in page.attributes if (tag, name) == ("img", "alt")]
    assert images == ["spot1_depth in drive.mcap: input, prediction, truth"]
    assert page.loads == []


def test_a_study_has_curves_memberships_and_every_run(tmp_path: Path) -> None:
    depth.write_study(tmp_path / "s", seeds=[0, 1])
    members = {depth.CLIENTS[0]: [0, 1], depth.CLIENTS[1]: [1]}
    for seed, value in ((0, 0.2), (1, 0.3)):
        depth.write_cell(tmp_path / "s", "fedepth", seed, value, curve=(1.0, 0.5, value), memberships=members)
    depth.write_cell(tmp_path / "s", "fedavg", 0, 0.4)

    page = page_of(tmp_path / "s")

    title = "AbsRel (less is better)"
    table = page.tables[f"adabins_s: {title}"]
    assert table[0] == ["Method", "Round", "Seeds", title] and ["fedepth", "3", "2", "0.25 ± 0.0707"] in table
    assert page.tables["Who learned with whom"][1:] == [["ugv_forest_0", "0 1"], ["uav_indoor_0", "1"]]
    every = page.tables["Every run"]
    assert every[2][:5] == ["adabins_s", "fedavg", "1", "not finished", "–"]
    assert every[3][:5] == ["adabins_s", "fedepth", "0", "0.2", "0.8"]
    assert page.problems == [] and page.loads == []


def test_a_study_of_an_unknown_task_is_told(tmp_path: Path) -> None:
    depth.write_study(tmp_path / "s", task="smell")

    with pytest.raises(DataError, match="is a study of task 'smell'; there are reports of depth, bev, detection"):
        build([tmp_path / "s"])


def test_a_study_without_a_finished_run_says_so(tmp_path: Path) -> None:
    page = page_of(depth.write_study(tmp_path / "s"))

    assert "No run is finished yet." in page.text and page.figures == []


def test_layers_of_a_detection_study_are_charts(tmp_path: Path) -> None:
    detection.write_study(tmp_path, seeds=[0])
    names = [name for name, _, _ in detection.UNITS]
    client = detection.CLIENTS[0]
    line = {
        "round": 1,
        "masks": {client: "1101"},
        "cka": {client: {name: 0.5 for name in names}},
        "losses": {client: 2.0},
        "loss": 2.0,
    }
    matrix = [[0.3] * 3] * 3
    detection.write_cell(tmp_path, detection.LOW, 0, matrix, [line])

    page = page_of(tmp_path)

    assert page.tables["Shared layers by round"][1:] == [[name, bit] for name, bit in zip(names, "1101", strict=True)]
    assert page.tables["CKA by layer and round"][1:] == [[name, "0.5"] for name in names]


def test_studies_are_put_side_by_side(tmp_path: Path) -> None:
    for name, value in (("one", 0.2), ("two", 0.4)):
        depth.write_study(tmp_path / name, seeds=[0], options={"train": {"lr": value}})
        depth.write_cell(tmp_path / name, "fedavg", 0, value)

    page = page_of(tmp_path / "one", tmp_path / "two")

    assert page.tables["depth: AbsRel of the studies"] == [
        ["Strategy", "Model", "one", "two"],
        ["fedavg", "adabins_s", "0.2", "0.4"],
    ]
    assert page.tables["Settings that differ"][1] == ["train.lr", "0.2", "0.4"]


@pytest.mark.timeout(60)
def test_a_fleet_of_a_thousand_fits_into_a_page(tmp_path: Path) -> None:
    robots = [f"robot_{number:04d}" for number in range(1000)]
    clusters = {robot: (place % 20,) for place, robot in enumerate(robots)}
    folder = write_run(tmp_path / "r", run_config(rounds=10), robots, clusters=clusters)

    text = to_html(build([folder]))

    page = Page(text)
    assert len(text.encode()) < 20e6
    assert len(page.tables["Robots"]) == 1 + MOST_TOLD and f"Shown are {MOST_TOLD} of 1000 robots." in page.text
    assert len(page.tables[BY_ROBOT]) == 1 + MOST_ROWS
    assert "(of 20 sets; colours come again)" in page.text and len(COLOURS) < 20
    assert page.tables["The run"][1][7] == "10000"  # updates: all are counted, though not all are shown
