"""What the dashboard asks of a fleet's state beside what ``top`` shows."""

from typing import Any

from fed_cli.fleetrun import state as states
from fed_cli.fleetrun.state import FleetState, nearest


def robot(name: str, number: int, loss: float | None) -> dict[str, Any]:
    return {"kind": "robot", "id": name, "round": number, "loss": loss}


def picture(source: str, image: str = "AAAA") -> dict[str, Any]:
    return {"kind": "picture", "source": source, "what": "depth", "image": image}


def test_losses_by_round_hold_the_last_word_of_each_robot_in_each_round() -> None:
    state = FleetState()
    for line in (robot("b", 2, 4.0), robot("a", 1, 9.0), robot("a", 2, 5.0), robot("a", 2, 3.0), robot("b", 3, None)):
        state.add(line)
    assert state.losses_by_round() == {1: {"a": 9.0}, 2: {"b": 4.0, "a": 3.0}}
    assert list(state.losses_by_round()) == [1, 2]


def test_losses_of_the_run_before_are_not_those_of_a_new_one() -> None:
    state = FleetState()
    for line in ({"kind": "fleet", "run": "new", "round": 1}, robot("a", 8, 3.0), robot("a", 1, 9.0)):
        state.add(line)
    assert state.losses_by_round() == {1: {"a": 9.0}}


def test_only_choices_of_the_present_run_are_served() -> None:
    state = FleetState()
    for source, run in (("/b", "new"), ("/a", "old")):
        state.add({"kind": "selection", "source": source, "run": run})
    assert [source for source, _ in state.served()] == ["/a", "/b"]
    state.add({"kind": "fleet", "run": "new", "round": 1})
    assert [source for source, _ in state.served()] == ["/b"]


def test_the_nearest_of_the_clusters_that_serve() -> None:
    assert nearest({"clusters": [0, 2], "distances": [0.5, 0.1, 0.25]}) == 0.25
    assert nearest({"clusters": [0, 1], "distances": [None, 0.5]}) == 0.5
    assert nearest({"clusters": [7, -1], "distances": [0.5]}) is None
    assert nearest({"clusters": [], "distances": []}) is None


def test_the_newest_picture_of_each_source_is_kept_and_few_of_them(monkeypatch: Any) -> None:
    monkeypatch.setattr(states, "MOST_PICTURES", 2)
    monkeypatch.setattr(states, "MOST_PICTURE_CHARS", 4)
    state = FleetState()
    for line in (picture("/a"), picture("/b"), picture("/a", "BBBB"), picture("/big", "BBBBB"), picture("/c")):
        state.add(line)
    assert {name: line["image"] for name, line in state.pictures.items()} == {"/a depth": "BBBB", "/c depth": "AAAA"}


def test_services_are_those_told_last() -> None:
    state = FleetState()
    state.add({"kind": "services", "services": [{"name": "/a/pause_training", "type": "std_srvs/srv/SetBool"}]})
    state.add({"kind": "services", "services": []})
    assert state.services == []
