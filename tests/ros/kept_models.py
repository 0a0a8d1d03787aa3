"""A folder as an inference node leaves it, so that the next one serves depth without an aggregator."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fed_core.roles.last_plan import save_plan
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.store.blobs import BlobStore
from fed_core.wire.codec import write_tensors
from tests.ros.fleets import NETWORK


def keep_models(folder: Path, network: Mapping[str, Any] = NETWORK) -> Path:
    """Write the folder of a node that served round 7 of run "tiny": an untrained network of depth."""
    from fed_models import build, state_arrays

    store = BlobStore(folder)
    path = store.scratch()
    write_tensors(path, state_arrays(build("adabins_s", network)))
    config = RunConfig("fedavg", {}, "depth", "adabins_s", network, {}, total_rounds=9, seed=0)
    blobs = {"global": store.put_file(path)}
    save_plan(store, FleetPlan("tiny", config, 7, False, {}, (), blobs, ("global",)))
    return folder
