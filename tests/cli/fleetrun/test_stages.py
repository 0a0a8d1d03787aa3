"""Which sequences are served at the same time."""

from pathlib import Path
from typing import Any

import pytest

from fed_cli.fleetrun.stages import AT_ONCE, served_together, waves
from fed_core.config import from_tree
from fed_core.deployment import Deployment, NodeSpec
from fed_core.fleet import FleetConfig, SequenceEntry


def deployment(task: str, count: int) -> Deployment:
    tree: dict[str, Any] = {
        "run": "t",
        "task": task,
        "robots": [{"id": "a", "source": {"data": "x"}}],
        "test": [{"name": f"t{k}", "source": {"data": f"x{k}"}} for k in range(count)],
    }
    return Deployment(from_tree(FleetConfig, tree, "fleet"), Path(), Path("/run"))


def test_one_camera_has_one_node_that_sees_one_sequence_after_the_other() -> None:
    one = deployment("depth", 3)
    (group,) = served_together(one, one.fleet.test)
    assert [entry.name for entry in group] == ["t0", "t1", "t2"]
    assert waves({entry.name: one.watcher(entry) for entry in group}) == [["t0"], ["t1"], ["t2"]]


def test_rigs_have_nodes_of_their_own_and_not_too_many_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files(self: Deployment, entry: SequenceEntry) -> dict[str, str]:
        return {"rig": entry.source.data}

    monkeypatch.setattr(Deployment, "_rig", no_files)
    many = deployment("bev", AT_ONCE + 1)
    first, second = served_together(many, many.fleet.test)
    assert (len(first), [entry.name for entry in second]) == (AT_ONCE, [f"t{AT_ONCE}"])
    nodes = {entry.name: many.watcher(entry) for entry in first}
    assert {(spec.namespace, spec.parameters["rig"]) for spec in nodes.values()} == {
        (f"/live/t{k}", f"x{k}") for k in range(AT_ONCE)
    }
    assert len({spec.parameters["state_dir"] for spec in nodes.values()}) == AT_ONCE
    assert waves(nodes) == [[f"t{k}" for k in range(AT_ONCE)]]


def test_waves_never_play_two_sequences_to_one_node() -> None:
    nodes = {"a": "x", "b": "y", "c": "x", "d": "x", "e": "y"}
    assert waves({name: NodeSpec("inference", node) for name, node in nodes.items()}) == [["a", "b"], ["c", "e"], ["d"]]
