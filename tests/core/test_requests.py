"""What the trainer is asked: a robot goes on from the last round it trained in, however long that is ago."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core import requests
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan
from fed_core.store.blobs import BlobStore
from fed_core.strategies.base import RobotPlan
from fed_core.wire.codec import write_tensors
from tests.core.roles.fake_fleet import RUN, blob


class Bench:
    def __init__(self, folder: Path) -> None:
        self.store = BlobStore(folder / "blobs")
        self.robot = requests.Installation("ana", "disk", folder, {"threads": 3})
        self.rounds = folder / "rounds" / "run"

    def request(self, number: int, run_id: str = "run") -> requests.JobRequest:
        plans = {"ana": RobotPlan(("global",), ("control",), {"mu": 0.1})}
        blobs = {"global": blob(1), "control": blob(2)}
        run = replace(RUN, train={"lr": 0.1, "threads": 1})
        plan = FleetPlan(run_id, run, number, False, plans, ("ana",), blobs, ("global",))
        return requests.train(plan, self.store, requests.Samples({"data": "a"}, Path("/base")), self.robot)

    def train(self, number: int, *, finish: bool = True) -> ev.Trained | None:
        """Write what the trainer writes; without ``finish`` the robot is killed before it takes the answer in."""
        request = self.request(number)
        out = Path(request.arguments["out_dir"])
        out.mkdir(parents=True, exist_ok=True)
        for name in ("weights", "own", "memory"):
            write_tensors(out / f"{name}.safetensors", {"w": np.full(2, number, np.float32)})
        answer: dict[str, Any] = {
            "weights_path": str(out / "weights.safetensors"), "extras_path": "", "scalars": {"kld": 2}, "mask": [1, 0],
            "num_samples": 5, "loss": 0.5, "seconds": 1.5,
        }  # fmt: skip
        return request.finish(answer) if finish else None  # type: ignore[return-value]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def from_round(request: requests.JobRequest) -> list[str]:
    """Return the round that own weights and memory come from."""
    return [Path(request.arguments[name]).parent.name for name in ("own", "memory")]


def test_asks_for_what_the_plan_names(bench: Bench) -> None:
    asked = bench.request(1).arguments
    assert asked["load"] == {"global": str(bench.store.path(blob(1).digest))}
    assert asked["extras"] == {"control": str(bench.store.path(blob(2).digest))}
    assert (asked["values"], asked["own"], asked["memory"]) == ({"mu": 0.1}, "", "")
    assert (asked["strategy"], asked["network"], asked["seed"], asked["base"]) == ("fedavg", "toy", 0, "/base")
    assert asked["train"] == {"lr": 0.1, "threads": 3}  # threads are this machine's business


def test_the_answer_becomes_a_report_with_its_blobs_in_the_store(bench: Bench) -> None:
    trained = bench.train(1)
    assert trained is not None
    report = trained.report
    assert (report.round, report.run_id, report.instance, report.num_samples) == (1, "run", "disk", 5)
    assert (report.loss, report.seconds, report.scalars) == (0.5, 1.5, {"kld": 2.0})
    assert report.mask is not None
    assert report.mask.tolist() == [True, False]
    assert bench.store.open(report.blobs["weights"].digest)["w"].tolist() == [1.0, 1.0]


def test_goes_on_from_the_last_round_it_trained_in_even_if_it_missed_some(bench: Bench) -> None:
    bench.train(1)
    assert from_round(bench.request(2)) == ["1", "1"]
    assert from_round(bench.request(9)) == ["1", "1"]
    assert bench.request(2, run_id="other").arguments["own"] == ""


def test_a_round_that_broke_off_does_not_count(bench: Bench) -> None:
    bench.train(1)
    bench.train(2, finish=False)
    assert from_round(bench.request(3)) == ["1", "1"]


def test_a_round_can_be_trained_again_and_older_ones_are_forgotten(bench: Bench) -> None:
    for number in (1, 2, 5):
        bench.train(number)
    assert sorted(path.name for path in bench.rounds.iterdir()) == ["2", "5"]
    assert from_round(bench.request(5)) == ["2", "2"]  # the aggregator may ask for the same round again


def test_trained_model_is_the_robots_own_before_what_it_sent(bench: Bench) -> None:
    """What was sent may lack private tensors, or hold noise in their place."""
    bench.train(1)
    plan = FleetPlan("run", RUN, 2, False, {}, (), {}, ("global",))

    assert requests.trained_file(plan, 1, bench.robot) == bench.rounds / "1" / "own.safetensors"
    (bench.rounds / "1" / "own.safetensors").unlink()
    assert requests.trained_file(plan, 1, bench.robot) == bench.rounds / "1" / "weights.safetensors"
    assert requests.trained_file(plan, 2, bench.robot) is None
