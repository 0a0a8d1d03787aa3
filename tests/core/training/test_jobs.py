"""The trainer's jobs: JSON in, JSON out, the same numbers for the same request."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fed_core.errors import ConfigError, DataError
from fed_core.strategies.base import LocalResult, LocalRule, LocalState, strategies
from fed_core.strategies.fedavg import FedAvg
from fed_core.tasks.depth.task import DepthTask
from fed_core.training import jobs
from fed_core.training.jobs import run_job
from fed_core.types import Memory, ModelSignature
from fed_core.wire.codec import load_memory, open_tensors, write_tensors
from tests.core.training.tiny import signature, state_arrays, tiny, toolbox, write_folder

pytestmark = pytest.mark.usefixtures("fresh_process")

NETWORK = {"network": "tiny", "network_options": {"height": 16, "width": 24}}


@pytest.fixture
def samples(tmp_path: Path) -> dict[str, Any]:
    return {"source": write_folder(tmp_path / "recording", 6), "base": str(tmp_path)}


def work(kind: str, **arguments: Any) -> dict[str, Any]:
    """Run a job the way a child process does: through JSON both ways."""
    told: list[tuple[float, float, float]] = []
    request = json.loads(json.dumps(arguments))
    return json.loads(json.dumps(run_job(kind, request, toolbox(), lambda *values: told.append(values))))


def order(tmp_path: Path, samples: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the arguments of a training job from the initial model."""
    initial = tmp_path / "initial.safetensors"
    if not initial.exists():
        work("init", **NETWORK, seed=4, out=str(initial))
    return {
        "robot_id": "ana", "round": 1, "total_rounds": 3, "strategy": "fedavg", "strategy_options": {}, "task": "depth",
        **NETWORK, "load": {"global": str(initial)}, "extras": {}, "values": {}, "own": "", "memory": "", "seed": 4,
        "train": {"lr": 1e-3, "batch_size": 4, "threads": 1, "device": "cpu"}, "out_dir": str(tmp_path / "out"),
        **samples, **changes,
    }  # fmt: skip


def weights(answer: dict[str, Any]) -> dict[str, np.ndarray]:
    opened = open_tensors(answer["weights_path"])
    return {name: opened[name].copy() for name in opened}


def test_the_initial_model_follows_from_the_seed_alone(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    answers = [work("init", **NETWORK, seed=seed, out=str(path)) for path, seed in zip(paths, (1, 1, 2), strict=True)]

    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()
    assert answers[0]["path"] == str(paths[0])
    read = ModelSignature.from_json(answers[0]["signature"])
    assert read == signature(tiny(), "tiny")
    assert open_tensors(paths[0], signature=read).specs[0].name == "encoder.0.weight"


def test_samples_are_counted_with_the_signature_of_the_model(samples: dict[str, Any]) -> None:
    answer = work("count", task="depth", **NETWORK, **samples)

    assert answer["num_samples"] == 6
    assert ModelSignature.from_json(answer["signature"]).digest == signature(tiny(), "tiny").digest


def test_broken_and_empty_frames_do_not_count_and_broken_ones_are_told(
    tmp_path: Path, samples: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recording"
    (folder / "rgb" / "000001.png").write_bytes(b"not an image")
    empty = folder / "depth" / "000003.png"
    import cv2

    cv2.imwrite(str(empty), np.zeros((24, 32), np.uint16))

    assert work("count", task="depth", **NETWORK, **samples)["num_samples"] == 4
    (told,) = [record.getMessage() for record in caplog.records]
    assert "2 of 6 samples of recording are broken and left out; the first: " in told
    assert "000001.png" in told


def test_a_recording_of_the_wrong_range_has_no_samples(tmp_path: Path, samples: dict[str, Any]) -> None:
    (tmp_path / "recording" / "sequence.yaml").write_text("depth_unit: m\nintrinsics: [20.0, 20.0, 16.0, 12.0]\n")

    with pytest.raises(DataError, match="lacks depth between 0.5 m and 20.0 m"):
        work("count", task="depth", **NETWORK, **samples)


def test_a_descriptor_travels_as_json(samples: dict[str, Any]) -> None:
    answer = work("describe", task="depth", kind_of="gaussian", robot_id="ana", **samples)

    assert answer["num_frames"] == 6 and answer["encoder"] == "mean colour"
    assert {name: len(values) for name, values in answer["tensors"].items()} == {"mean": 3, "variance": 3}
    assert answer == work("describe", task="depth", kind_of="gaussian", robot_id="ana", **samples)


def test_a_descriptor_is_drawn_by_robot(samples: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "DESCRIPTOR_FRAMES", 3)
    answers = {
        robot: work("describe", task="depth", kind_of="gaussian", robot_id=robot, **samples)
        for robot in ("ana", "bob", "cho")
    }

    assert all(answer["num_frames"] == 3 for answer in answers.values())
    assert len({tuple(answer["tensors"]["mean"]) for answer in answers.values()}) > 1


def test_a_descriptor_is_of_the_kind_asked_for(samples: dict[str, Any]) -> None:
    answer = work("describe", task="depth", kind_of="subspace", robot_id="ana", **samples)

    assert set(answer["tensors"]) <= {"direction0", "direction1", "direction2"}
    for row in answer["tensors"].values():
        assert np.linalg.norm(row) == pytest.approx(1.0)
    with pytest.raises(ConfigError, match="no descriptor is called 'smell'; known: gaussian, .*subspace"):
        work("describe", task="depth", kind_of="smell", robot_id="ana", **samples)


def test_one_frame_makes_no_descriptor(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "short", 1)

    told = r"robot 'ana' cannot describe its 1 frame\(s\): a descriptor needs at least 2 frames"
    with pytest.raises(DataError, match=told):
        work("describe", task="depth", kind_of="gaussian", robot_id="ana", source=source, base=str(tmp_path))


def test_training_changes_the_weights_and_repeats_itself(tmp_path: Path, samples: dict[str, Any]) -> None:
    first = work("train", **order(tmp_path, samples))
    jobs._prepared.clear()  # as after a restart
    again = work("train", **order(tmp_path, samples, out_dir=str(tmp_path / "again")))
    other = work("train", **order(tmp_path, samples, robot_id="bob", out_dir=str(tmp_path / "bob")))

    assert first["num_samples"] == 6 and first["loss"] > 0 and first["seconds"] > 0
    assert first["extras_path"] == first["memory_path"] == "" and first["mask"] is None
    assert first["loss"] == again["loss"] != other["loss"]
    assert Path(first["weights_path"]).read_bytes() == Path(again["weights_path"]).read_bytes()
    start, end = open_tensors(tmp_path / "initial.safetensors"), weights(first)
    assert list(end) == list(start)
    assert not np.array_equal(start["head.weight"], end["head.weight"])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["weights.safetensors"]


def test_rounds_differ_in_order_and_rate(tmp_path: Path, samples: dict[str, Any]) -> None:
    one = weights(work("train", **order(tmp_path, samples, round=1)))
    two = weights(work("train", **order(tmp_path, samples, round=2)))

    assert not np.array_equal(one["head.weight"], two["head.weight"])


def test_several_models_are_averaged_before_training(tmp_path: Path, samples: dict[str, Any]) -> None:
    still = {"lr": 0.0, "weight_decay": 0.0, "batch_size": 4, "device": "cpu", "threads": 1}
    low, high = state_arrays(tiny(1)), state_arrays(tiny(2))
    for name, state in (("low", low), ("high", high)):
        write_tensors(tmp_path / name, state)
    load = {"cluster/0": str(tmp_path / "low"), "cluster/1": str(tmp_path / "high")}

    got = weights(work("train", **order(tmp_path, samples, load=load, train=still)))

    np.testing.assert_allclose(got["head.weight"], (low["head.weight"] + high["head.weight"]) / 2, rtol=1e-6)


def test_prepared_samples_are_kept_until_they_fill_the_budget(
    tmp_path: Path, samples: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    open_source = DepthTask.open
    monkeypatch.setattr(DepthTask, "open", lambda *args: opened.append(args[1]) or open_source(*args))
    other = {**samples, "source": write_folder(tmp_path / "other", 4, seed=1)}

    for each in (samples, other, samples, other):
        work("count", task="depth", **NETWORK, **each)
    assert len(opened) == 2

    monkeypatch.setattr(jobs, "KEPT_BYTES", 1)
    third = {**samples, "source": write_folder(tmp_path / "third", 4, seed=2)}
    for each in (third, third, samples, other):
        work("count", task="depth", **NETWORK, **each)
    assert len(opened) == 5  # it was still there the second time, then each drove the one before out
    assert len(jobs._prepared) == 1


def test_another_input_size_is_prepared_anew(samples: dict[str, Any]) -> None:
    for height in (16, 32):
        work("count", task="depth", network="tiny", network_options={"height": height}, **samples)

    assert sorted(dataset.rgb.shape[1] for dataset in jobs._prepared.values()) == [16, 32]


class Remembering(LocalRule):
    """Counts rounds in its memory and sends a tensor, a number, a mask and zeroed weights."""

    def finish(self, state: LocalState) -> LocalResult:
        rounds = int(state.memory.values.get("rounds", 0)) + 1
        control = state.extras["control"]["c"] + 1.0 if "control" in state.extras else np.zeros(2, np.float32)
        return LocalResult(
            extras={"c": control},
            scalars={"rounds": float(rounds)},
            mask=np.array([True, True, False]),
            memory=Memory({"kept": np.arange(rounds, dtype=np.float32)}, {"rounds": rounds, "note": state.values}),
            weights={"encoder.0.bias": np.zeros(8, np.float32)},
        )


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> str:
    """A strategy whose norm layers stay on the robot, and whose mask keeps the head back, too."""

    @dataclass(frozen=True)
    class Private(FedAvg):
        def travels(self, signature: ModelSignature) -> frozenset[str]:
            return frozenset(t.name for t in signature.tensors if t.module != "BatchNorm2d")

        def local_rule(self) -> LocalRule:
            return Remembering()

    monkeypatch.setitem(strategies._entries, "private", Private)
    strategies.names()
    return "private"


def test_what_stays_and_what_travels(tmp_path: Path, samples: dict[str, Any], private: str) -> None:
    answer = work("train", **order(tmp_path, samples, strategy=private, values={"mu": 0.5}))

    assert list(weights(answer)) == ["encoder.0.weight", "encoder.0.bias"]  # no norm layer, no masked head
    assert (weights(answer)["encoder.0.bias"] == 0).all()
    assert answer["mask"] == [1, 1, 0] and answer["scalars"] == {"rounds": 1.0}
    assert open_tensors(answer["extras_path"])["c"].tolist() == [0.0, 0.0]
    memory = load_memory(answer["memory_path"])
    assert memory.values == {"rounds": 1, "note": {"mu": 0.5}}
    own = open_tensors(tmp_path / "out" / "own.safetensors")
    assert set(own) == set(signature(tiny(), "tiny").names)
    assert not (own["encoder.0.bias"] == 0).all()  # only what travels was zeroed


def test_the_next_round_takes_up_what_stayed(tmp_path: Path, samples: dict[str, Any], private: str) -> None:
    first = work("train", **order(tmp_path, samples, strategy=private))
    own = tmp_path / "out" / "own.safetensors"
    still = {"lr": 0.0, "weight_decay": 0.0, "batch_size": 4, "device": "cpu", "threads": 1}
    control = write_tensors(tmp_path / "control", {"c": np.array([4.0, 5.0], np.float32)}) and tmp_path / "control"
    request = order(
        tmp_path, samples, strategy=private, round=2, own=str(own), memory=first["memory_path"],
        load={"global": first["weights_path"]}, extras={"control": str(control)}, train=still,
        out_dir=str(tmp_path / "second"),
    )  # fmt: skip

    second = work("train", **request)

    assert second["scalars"] == {"rounds": 2.0}
    assert open_tensors(second["extras_path"])["c"].tolist() == [5.0, 6.0]
    before, after = open_tensors(own), open_tensors(tmp_path / "second" / "own.safetensors")
    np.testing.assert_array_equal(after["encoder.1.weight"], before["encoder.1.weight"])  # stayed, from own
    np.testing.assert_array_equal(after["head.weight"], before["head.weight"])
    assert (after["encoder.0.bias"] == 0).all()  # travelled, from the plan
    assert after["encoder.1.num_batches_tracked"] > before["encoder.1.num_batches_tracked"]


def test_a_strategy_that_merges_gets_its_own_weights_back(
    tmp_path: Path, samples: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True)
    class Own(FedAvg):
        def merge(self, name: str, own: Any, loaded: Any, memory: Memory) -> Any:
            return own

    strategies.names()
    monkeypatch.setitem(strategies._entries, "own", Own)
    still = {"lr": 0.0, "weight_decay": 0.0, "batch_size": 4, "device": "cpu", "threads": 1}
    first = work("train", **order(tmp_path, samples, strategy="own"))
    own = tmp_path / "out" / "own.safetensors"
    write_tensors(tmp_path / "other", state_arrays(tiny(9)))

    load, out = {"global": str(tmp_path / "other")}, str(tmp_path / "second")
    second = work(
        "train", **order(tmp_path, samples, strategy="own", own=str(own), load=load, train=still, out_dir=out)
    )

    np.testing.assert_array_equal(weights(second)["head.weight"], weights(first)["head.weight"])


def test_jobs_leave_the_global_random_state(tmp_path: Path, samples: dict[str, Any]) -> None:
    torch.manual_seed(11)
    expected = torch.random.get_rng_state()

    work("train", **order(tmp_path, samples))
    work("count", task="depth", **NETWORK, **samples)

    assert torch.equal(torch.random.get_rng_state(), expected)


def test_wrong_requests_are_named(tmp_path: Path, samples: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no job is called 'dance'; known: init, count, describe, train"):
        work("dance")
    with pytest.raises(ConfigError, match="train: unknown key 'epochs'"):
        work("train", **order(tmp_path, samples, train={"epochs": 3}))
    with pytest.raises(ConfigError, match="no strategy is called 'fedsum'"):
        work("train", **order(tmp_path, samples, strategy="fedsum"))
    with pytest.raises(ConfigError, match="no network is called 'huge'"):
        work("init", network="huge", network_options={}, seed=0, out=str(tmp_path / "x"))


def test_progress_is_told(tmp_path: Path, samples: dict[str, Any]) -> None:
    told: list[float] = []
    run_job("train", order(tmp_path, samples), toolbox(), lambda share, loss, speed: told.append(share))

    assert told[-1] == 1.0 and told == sorted(told)
