"""Which run a folder means, and its models where an inference node looks for them."""

import json
from pathlib import Path

import pytest

from fed_cli.fleetrun.served import hand_over, run_folder
from fed_core.errors import DataError, StoreError
from fed_core.roles.last_plan import load_plan
from fed_core.store.blobs import BlobStore
from tests.cli.fleetrun.run_folders import write_run


def test_of_a_demo_the_run_of_its_own_method(tmp_path: Path) -> None:
    for name in ("fedavg", "fedepth", "initial"):
        write_run(tmp_path / "aggregator" / name, network=False)
    (tmp_path / "demo.json").write_text(json.dumps({"strategy": {"name": "fedepth"}}))
    assert run_folder(tmp_path) == tmp_path / "aggregator" / "fedepth"
    assert run_folder(tmp_path / "aggregator" / "initial") == tmp_path / "aggregator" / "initial"


def test_of_a_launched_fleet_its_only_run(tmp_path: Path) -> None:
    yard = write_run(tmp_path / "aggregator" / "yard", network=False)
    assert run_folder(tmp_path) == yard
    write_run(tmp_path / "aggregator" / "barn", network=False)
    with pytest.raises(DataError, match=r"holds several runs, name one: .*aggregator/barn, .*aggregator/yard$"):
        run_folder(tmp_path)


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        run_folder(tmp_path / "none")
    advice = "name the folder of a demo, of a simulation or of a run (runs/demo)"
    assert str(caught.value) == f"{tmp_path}/none holds no run; {advice}"


def test_the_models_of_the_last_round_are_served_without_an_aggregator(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", network=False)
    plan = hand_over(run, tmp_path / "models")
    kept = load_plan(BlobStore(tmp_path / "models"))
    assert kept == plan
    assert (plan.run_id, plan.round, plan.models) == ("tiny", 2, ("global",))
    digest = plan.blobs["global"].digest
    assert (tmp_path / "models" / digest).read_bytes() == (run / "blobs" / digest).read_bytes()


def test_a_run_before_its_first_round(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", network=False, closed=False)
    with pytest.raises(StoreError, match=r"run has no models yet; wait for its first round$"):
        hand_over(run, tmp_path / "models")


def test_a_model_whose_bytes_changed_is_not_served(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", network=False)
    (model,) = (run / "blobs").iterdir()
    model.write_bytes(model.read_bytes()[:-1] + b"\1")
    with pytest.raises(StoreError, match=r"is damaged: its bytes have another digest than its name$"):
        hand_over(run, tmp_path / "models")
    model.unlink()
    with pytest.raises(StoreError, match=r"^blob .* is not in .*/run/blobs$"):
        hand_over(run, tmp_path / "models")
