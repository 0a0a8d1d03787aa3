"""The plan that a node serves from while no aggregator is there."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fed_core.errors import FedError, StoreError
from fed_core.roles.last_plan import FILE, load_plan, save_plan
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_core.wire.codec import write_tensors

RUN = RunConfig("fedavg", {"min_updates": 2}, "depth", "net", {"width": 96}, {}, total_rounds=4, seed=0)


def put(store: BlobStore, value: float) -> BlobRef:
    path = store.scratch()
    write_tensors(path, {"w": np.full(3, value, np.float32)})
    return store.put_file(path)


def plan(store: BlobStore, *, serving: bool = False) -> FleetPlan:
    blobs = {f"cluster/{number}": put(store, number) for number in range(2)}
    return FleetPlan("run", RUN, 3, False, {}, (), blobs, tuple(blobs), put(store, 9.0) if serving else None)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


@pytest.mark.parametrize("serving", [False, True])
def test_a_kept_plan_comes_back_as_it_was(store: BlobStore, serving: bool) -> None:
    kept = plan(store, serving=serving)
    save_plan(store, kept)
    assert load_plan(store) == kept


def test_without_a_plan_there_is_none(store: BlobStore) -> None:
    assert load_plan(store) is None


def test_a_model_that_was_never_read_is_no_reason_to_serve_none(store: BlobStore) -> None:
    """A node reads the models of its own cluster only."""
    kept = plan(store)
    save_plan(store, kept)
    store.path(kept.blobs["cluster/0"].digest).unlink()
    assert load_plan(store) == kept


@pytest.mark.parametrize("lost", ["serving", "models"])
def test_a_plan_whose_files_are_gone_is_refused_in_one_line(store: BlobStore, lost: str) -> None:
    kept = plan(store, serving=True)
    save_plan(store, kept)
    for blob in kept.blobs.values() if lost == "models" else [kept.serving]:
        assert blob is not None
        store.path(blob.digest).unlink()
    with pytest.raises(StoreError, match=f"{FILE}: the models of round 3 are not in .* any more$"):
        load_plan(store)


def test_a_model_whose_bytes_changed_is_deleted_and_does_not_count(store: BlobStore) -> None:
    kept = plan(store)
    save_plan(store, kept)
    paths = [store.path(blob.digest) for blob in kept.blobs.values()]
    for path in paths:
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(StoreError, match="the models of round 3 are not"):
        load_plan(store)
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        json.dumps({"run_id": "x", "config": {}}),
        "\x00\x01",
        '{"blobs": {"a": {"digest": 1}}}',
    ],
)
def test_a_file_that_holds_no_plan_is_refused_in_one_line(store: BlobStore, text: str) -> None:
    (store.root / FILE).write_text(text)
    with pytest.raises(StoreError, match=f"^ignored .*{FILE}, it holds no plan ") as caught:
        load_plan(store)
    assert "\n" not in str(caught.value)


def test_a_digest_that_names_another_file_is_refused(store: BlobStore) -> None:
    kept = plan(store)
    save_plan(store, kept)
    tree = json.loads((store.root / FILE).read_text())
    tree["blobs"]["cluster/0"]["digest"] = "../../etc/passwd"
    (store.root / FILE).write_text(json.dumps(tree))
    with pytest.raises(FedError, match="is no blob digest"):
        load_plan(store)


def test_old_models_that_no_plan_names_are_deleted(store: BlobStore) -> None:
    import os

    old, young = store.path(put(store, 50.0).digest), store.path(put(store, 60.0).digest)
    os.utime(old, (0, 0))
    kept = plan(store)
    save_plan(store, kept)
    assert not old.exists() and young.exists() and load_plan(store) == kept


def test_models_of_a_newer_plan_stay_however_old_they_are(store: BlobStore) -> None:
    """The node may hold the newer plan's models already, and load them next."""
    import os

    kept = plan(store)
    named, memory = put(store, 50.0), put(store, 60.0)
    for blob in (named, memory):
        os.utime(store.path(blob.digest), (0, 0))
    save_plan(store, kept, replace(kept, round=4, blobs={"cluster/0": named}, models=("cluster/0",), serving=memory))
    assert store.has(named.digest) and store.has(memory.digest) and load_plan(store) == kept
