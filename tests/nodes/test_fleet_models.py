"""What an inference node keeps of the fleet's models; ROS is left out."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_nodes.live.fleet_models import FleetModels

RUN = RunConfig("fedavg", {}, "depth", "net", {}, {}, total_rounds=4, seed=0)


def put(store: BlobStore, data: bytes) -> BlobRef:
    path = store.scratch()
    path.write_bytes(data)
    blob = store.put_file(path)
    os.utime(store.path(blob.digest), (0, 0))
    return blob


def test_keeping_the_plan_that_serves_leaves_the_models_of_the_one_that_came_since(tmp_path: Path) -> None:
    store, used = BlobStore(tmp_path), []
    serving, next_one, old = (put(store, data) for data in (b"serving", b"next", b"old"))
    plan = FleetPlan("run", RUN, 1, False, {}, (), {"global": serving}, ("global",))
    node: Any = SimpleNamespace()
    models = FleetModels(node, store, "/fleet", "reader", used.append)
    access: Any = SimpleNamespace(service="/fleet/blobs")
    models._access = access
    newer = replace(plan, round=2, blobs={"global": next_one})
    models._on_plan(newer)
    models.keep(plan)
    assert used == [newer]
    assert [store.has(blob.digest) for blob in (serving, next_one, old)] == [True, True, False]
