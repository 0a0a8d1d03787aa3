"""Robots that learn the bird's eye view by the same jobs as all others, from folders of OPV2V's layout."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import fed_models
from fed_core.bookkeeping import RunBook
from fed_core.config import to_tree
from fed_core.data.open import SourceConfig, open_source
from fed_core.data.opv2v.sequence import BevOptions, Opv2vSequence
from fed_core.errors import ConfigError, DataError
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_core.similarity.descriptors import describe
from fed_core.simulation import Simulation
from fed_core.tasks.bev import BevTask
from fed_core.training import jobs
from fed_core.training.jobs import Toolbox, run_job
from fed_core.types import ModelSignature
from fed_core.wire.codec import open_tensors
from tests.core.data.opv2v_trees import SCENARIO, write_frame

pytestmark = pytest.mark.usefixtures("fresh_process")

NETWORK = {"network": "fax_tiny", "network_options": {}}
#: Small masks, as small as the network's map.
OPTIONS = {"map_size": 32, "label": "dynamic"}


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """A client of one scenario with four frames, a vehicle in front of it in each."""
    vehicle = tmp_path / "bus" / SCENARIO / "641"
    for number in range(4):
        write_frame(vehicle, f"{number:06d}", size=32)
        mask = np.zeros((32, 32), np.uint8)
        mask[8 + number, 14:18] = 255
        cv2.imwrite(str(vehicle / f"{number:06d}_bev_dynamic.png"), mask)
    return tmp_path / "bus"


def source(folder: Path, **changes: Any) -> dict[str, Any]:
    return {"data": str(folder), "reader": "opv2v", "options": OPTIONS, **changes}


def toolbox() -> Toolbox:
    def mean_colours(images: Any, kind: str) -> Any:
        return describe(kind, np.stack([image.mean(axis=(0, 1)) for image in images]), "mean colour")

    return Toolbox(
        fed_models.build, fed_models.signature, fed_models.state_arrays, fed_models.load_arrays, mean_colours
    )


def work(kind: str, **arguments: Any) -> dict[str, Any]:
    """Run a job the way a child process does: through JSON both ways."""
    request = json.loads(json.dumps({"task": "bev", "base": "", **arguments}))
    return json.loads(json.dumps(run_job(kind, request, toolbox(), lambda *values: None)))


def test_samples_are_counted(client: Path) -> None:
    answer = work("count", **NETWORK, source=source(client))

    assert answer["num_samples"] == 4
    assert ModelSignature.from_json(answer["signature"]).architecture == "fax_tiny"


def test_a_broken_frame_does_not_count(client: Path) -> None:
    (client / SCENARIO / "641" / "000001_camera2.png").unlink()

    assert work("count", **NETWORK, source=source(client))["num_samples"] == 3
    without = {**OPTIONS, "cameras": [0, 3]}
    assert work("count", **NETWORK, source=source(client, options=without))["num_samples"] == 4


def test_a_descriptor_takes_the_pictures_of_all_cameras(client: Path) -> None:
    """Camera k shows the grey 10 k + 1, so a robot's mean is that of its cameras."""
    answer = work("describe", kind_of="gaussian", robot_id="bus", source=source(client))
    front = {**OPTIONS, "cameras": [0]}
    other = work("describe", kind_of="gaussian", robot_id="bus", source=source(client, options=front))

    assert (answer["num_frames"], other["num_frames"]) == (16, 4)
    assert answer["tensors"]["mean"] == pytest.approx([16.0] * 3)
    assert other["tensors"]["mean"] == pytest.approx([1.0] * 3)


def test_a_robot_trains_and_repeats_itself(tmp_path: Path, client: Path) -> None:
    initial = tmp_path / "initial.safetensors"
    work("init", **NETWORK, seed=4, out=str(initial))
    request = {
        "robot_id": "bus", "round": 1, "total_rounds": 3, "strategy": "fedavg", "strategy_options": {}, **NETWORK,
        "load": {"global": str(initial)}, "extras": {}, "values": {}, "own": "", "memory": "", "seed": 4,
        "train": {"lr": 1e-3, "batch_size": 2, "threads": 1, "device": "cpu"}, "source": source(client),
    }  # fmt: skip

    first = work("train", **request, out_dir=str(tmp_path / "first"))
    jobs._prepared.clear()
    again = work("train", **request, out_dir=str(tmp_path / "again"))

    assert first["num_samples"] == 4 and 0.0 < first["loss"] < 10.0
    assert Path(first["weights_path"]).read_bytes() == Path(again["weights_path"]).read_bytes()
    trained, start = open_tensors(first["weights_path"]), open_tensors(initial)
    counters = [name for name in start if name.endswith("num_batches_tracked")]
    assert counters and all(trained[name].dtype == np.int64 and trained[name] == 2 for name in counters)
    assert all((trained[name] > 0).all() for name in start if name.endswith("running_var"))
    assert not np.array_equal(trained["levels.0.camera.weight"], start["levels.0.camera.weight"])


def test_every_round_draws_vehicles_anew(tmp_path: Path, client: Path) -> None:
    """Two vehicles of 4 and 2 frames: the count tells which one a round trains on (feddwa spec 6)."""
    for number in range(2):
        write_frame(client / SCENARIO / "700", f"{number:06d}", size=32)
    initial = tmp_path / "initial.safetensors"
    work("init", **NETWORK, seed=4, out=str(initial))
    request = {
        "robot_id": "bus", "total_rounds": 9, "strategy": "fedavg", "strategy_options": {}, **NETWORK,
        "load": {"global": str(initial)}, "extras": {}, "values": {}, "own": "", "memory": "", "seed": 4,
        "train": {"batch_size": 4, "max_steps": 1, "device": "cpu"}, "out_dir": str(tmp_path / "out"),
    }  # fmt: skip

    def counts(rounds: range, options: dict[str, Any], **pool: Any) -> list[int]:
        entry = source(client, options={**OPTIONS, **options})
        entry = {"parts": [entry]} if pool else entry
        return [work("train", **request, round=n, source=entry)["num_samples"] for n in rounds]

    drawn = counts(range(1, 8), {"vehicle": "drawn"})

    options = [BevOptions(vehicle="drawn", map_size=32, epoch=epoch) for epoch in range(7)]
    assert drawn == [len(Opv2vSequence("bus", [client / SCENARIO], each)) for each in options] and set(drawn) == {4, 2}
    assert len(jobs._prepared) == 1, "what earlier rounds drew is kept"
    assert counts(range(3, 6), {"vehicle": "drawn"}, pooled=True) == drawn[2:5]
    assert counts(range(1, 4), {"vehicle": "drawn", "epoch": 2}) == drawn[2:5]
    assert counts(range(1, 4), {}) == [4, 4, 4]


def test_an_entry_that_draws_nothing_is_the_same_in_every_round(client: Path) -> None:
    entry = source(client)
    assert BevTask().at_round(entry, 5) is entry
    pool = SourceConfig(parts=(SourceConfig(data="bus", reader="opv2v"),))
    assert BevTask().at_round(pool, 5) is pool


def test_an_entry_of_a_fleet_file_opens(client: Path) -> None:
    config = SourceConfig(data="bus", reader="opv2v", start=1, step=2, options={**OPTIONS, "cameras": [1]})

    whole = BevTask().open(config, client.parent)
    through_json = BevTask().open(json.loads(json.dumps(to_tree(config))), client.parent)

    assert [frame.stamp_ns for frame in whole] == [frame.stamp_ns for frame in through_json]
    assert len(whole) == 2 and whole[0].cameras == (1,)
    assert np.argwhere(whole[0].mask)[0].tolist() == [9, 14]


def test_parts_are_pooled(client: Path) -> None:
    """A pool of rigs with one and four cameras trains as one data set."""
    parts = [source(client, options={**OPTIONS, "cameras": [0]}), source(client, start=1)]
    pooled = BevTask().open({"parts": parts, "step": 3, "name": "pool"}, Path())

    assert pooled.name == "pool" and len(pooled) == 3
    assert [frame.cameras for frame in pooled] == [(0,), (0,), (0, 1, 2, 3)]
    assert work("count", **NETWORK, source={"parts": parts})["num_samples"] == 7


def test_sources_of_another_task_are_named(client: Path) -> None:
    with pytest.raises(ConfigError, match="task bev reads folders of the layout 'opv2v', not the layout 'kitti'"):
        BevTask().open(source(client, reader="kitti"), Path())
    generated = {"generated": {"platform": "legged", "environment": "indoor"}}
    with pytest.raises(ConfigError, match="not a generated sequence"):
        BevTask().open(generated, Path())
    with pytest.raises(ConfigError, match="unknown key 'labels'"):
        BevTask().open(source(client, options={"labels": "dynamic"}), Path())
    with pytest.raises(ConfigError, match="'scenarios' and 'options' belong to folders of opv2v"):
        open_source(source(client), Path())
    with pytest.raises(DataError, match="is not a folder"):
        BevTask().open(source(client / "nothing"), Path())


def test_a_fleet_of_different_rigs_learns_together(tmp_path: Path, client: Path) -> None:
    """One vehicle with one camera, one with four; the whole of a simulated run, with descriptors."""
    sources = {"one": {**OPTIONS, "cameras": [0]}, "four": OPTIONS}
    fleet = FleetConfig(
        run="run",
        robots=tuple(
            RobotEntry(name, SourceConfig(data=str(client), reader="opv2v", options=options), frames=3)
            for name, options in sources.items()
        ),
        task="bev",
        network=NamedOptions("fax_tiny"),
        strategy=NamedOptions("fedepth"),
        rounds=2,
        train={"lr": 2e-3, "batch_size": 3},
    )

    final = Simulation(fleet, tmp_path, tmp_path / "runs", toolbox(), threads=1).run()

    assert (final.finished, final.round, set(final.robots)) == (True, 2, {"one", "four"})
    book = RunBook(tmp_path / "runs", "run", fleet.run_config())
    losses = {(robot, number): value for number, robot, name, value in book._journal.metrics() if name == "loss"}
    book.close()
    assert len(losses) == 4 and all(0.0 < loss < 10.0 for loss in losses.values())
