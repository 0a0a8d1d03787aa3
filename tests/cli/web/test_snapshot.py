"""A fleet's state as the tree that the page draws."""

import json
from typing import Any

from fed_cli.fleetrun.state import Fault, FleetState
from fed_cli.web import snapshot
from fed_cli.web.snapshot import run_tree
from tests.cli.web.fleet_lines import NOW_S, fleet, member, plan, robot, selection


def state_of(*lines: dict[str, Any]) -> FleetState:
    state = FleetState(clock=lambda: NOW_S)
    for line in lines:
        state.add(line)
    return state


def test_a_fleet_that_trains() -> None:
    members = (member("ann", reported=True, clusters=[0, 2]), member("bob", alive=False, refused=3, last_text="large"))
    mask = {"kind": "mask", "id": "ann", "run": "yard", "round": 1, "units": 12, "shared": 3}
    lines = (fleet(*members), plan(deadline_s=60.0), robot("ann", round=1, loss=6.0), robot("ann"), mask, selection())

    tree = run_tree(state_of(*lines))

    facts = ("name", "strategy", "task", "network", "phase", "round", "rounds", "reported", "members", "moved_bytes")
    assert [tree[key] for key in facts] == ["yard", "fedepth", "depth", "adabins_s", "training", 2, 5, 1, 2, 4000]
    assert tree["deadline_left_s"] == 60.0
    ann, bob = tree["robots"]
    assert (ann["phase"], ann["loss"], ann["losses"], ann["shares"]) == ("training", 4.0, [6.0, 4.0], "3/12")
    assert (ann["clusters"], ann["said_s"], ann["troubled"]) == ([0, 2], NOW_S, False)
    assert (bob["phase"], bob["loss"], bob["refused"], bob["troubled"]) == ("away", None, 3, True)
    assert tree["clusters"] == [0, 2]
    assert tree["faults"] == [
        {"level": "warn", "where": "bob", "text": "away: no heartbeat"},
        {"level": "warn", "where": "bob", "text": "refused 3: large"},
    ]
    [served] = tree["selections"]
    assert (served["source"], served["clusters"], served["distance"]) == ("/live", [1], 0.25)


def test_losses_of_all_robots_by_round() -> None:
    told = [("ann", 1, 8.0), ("bob", 1, 2.0), ("ann", 2, 3.0)]
    tree = run_tree(state_of(fleet(), *(robot(name, round=number, loss=loss) for name, number, loss in told)))
    assert tree["losses"] == {
        "rounds": [1, 2],
        "mean": [5.0, 3.0],
        "low": [2.0, 3.0],
        "high": [8.0, 3.0],
        "robots": [{"name": "ann", "values": [8.0, 3.0]}, {"name": "bob", "values": [2.0, None]}],
        "robots_total": 2,
    }


def test_many_robots_have_no_lines_of_their_own_and_those_in_trouble_keep_their_rows(monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshot, "MOST_ROBOTS", 3)
    names = [f"r{k:02d}" for k in range(9)]
    lines = [fleet(*(member(name, alive=name != "r08") for name in names)), *map(robot, names)]
    tree = run_tree(state_of(*lines))
    assert [one["id"] for one in tree["robots"]] == ["r08", "r00", "r01"]
    assert tree["robots_total"] == 9
    assert tree["losses"]["robots"] == [] and tree["losses"]["robots_total"] == 9


def test_what_anybody_says_is_bounded() -> None:
    long = "x" * 10_000
    clusters = list(range(1000))
    lines = (fleet(member("ann", clusters=clusters, refused=1, last_text=long)), robot("ann", text=long), robot(long))
    tree = run_tree(state_of(*lines), [Fault("warn", long, long)] * 500)
    assert len(tree["robots"][0]["text"]) == snapshot.MOST_TEXT and tree["robots"][0]["text"].endswith("x…")
    assert max(len(one["id"]) for one in tree["robots"]) == snapshot.MOST_NAME
    assert len(tree["clusters"]) == snapshot.MOST_CLUSTERS and tree["clusters_total"] == 1000
    assert len(tree["faults"]) == snapshot.MOST_FAULTS and tree["faults_total"] == 501
    assert len(json.dumps(tree)) < 60_000


def test_an_empty_state_is_a_tree_too() -> None:
    tree = run_tree(FleetState())
    assert (tree["name"], tree["round"], tree["robots"], tree["faults"]) == ("", 0, [], [])
    assert tree["losses"]["rounds"] == []


def test_a_plan_of_another_run_tells_nothing_about_this_one() -> None:
    tree = run_tree(state_of(fleet(), plan(run="before")))
    assert (tree["task"], tree["network"], tree["deadline_left_s"]) == ("", "", None)
