"""Which sequences are served at the same time."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fed_cli.fleetrun.stages import AT_ONCE, FleetRun, require_frames, served_together, waves
from fed_core.config import from_tree
from fed_core.deployment import Deployment, NodeSpec
from fed_core.errors import ConfigError
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


@pytest.mark.parametrize("frames", [8, 9])
def test_sequences_without_a_frame_to_score_are_refused_before_anything_starts(frames: int, tmp_path: Path) -> None:
    generated = {"platform": "uav", "environment": "forest", "frames": 2 * frames}
    test = [{"name": "wood", "source": {"generated": generated, "step": 2}}]
    tree = {"run": "t", "task": "depth", "robots": [{"id": "a", "source": {"data": "x"}}], "test": test}
    fleet = from_tree(FleetConfig, tree, "fleet")
    if frames > 8:
        require_frames(fleet, Path())
        return
    with pytest.raises(ConfigError) as caught:
        FleetRun(fleet, Path(), tmp_path, Console()).run()
    told = "wood has 8 frames; scoring needs more than descriptor_frames (8): hold out more, or write inference: "
    assert str(caught.value) == told + "{descriptor_frames: N} into the fleet file"
    assert not (tmp_path / "log").exists()
