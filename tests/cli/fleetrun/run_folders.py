"""The folder of a run as an aggregator leaves it after its last round: an untrained network of depth, or none yet."""

from pathlib import Path

from fed_core.config import to_tree
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.store.blobs import BlobStore
from fed_core.store.journal import Journal, RoundRow
from fed_core.wire.codec import write_tensors

NETWORK = {"height": 96, "width": 96, "d_max": 20.0}


def write_run(folder: Path, *, task: str = "depth", closed: bool = True, network: bool = True) -> Path:
    """Write a run of two rounds of FedAvg.

    Args:
        folder: of the run.
        task: what it learns.
        closed: whether a round has closed.
        network: make the real network; else a file of one number, which nobody can serve.
    """
    import numpy as np

    store = BlobStore(folder / "blobs")
    path = store.scratch()
    if network:
        from fed_models import build, state_arrays

        write_tensors(path, state_arrays(build("adabins_s", NETWORK)))
    else:
        write_tensors(path, {"weight": np.ones(1, np.float32)})
    blob = store.put_file(path)
    config = RunConfig("fedavg", {}, task, "adabins_s", NETWORK, {}, total_rounds=2, seed=0)
    journal = Journal(folder / "journal.sqlite", "tiny", to_tree(config))
    if closed:
        plan = FleetPlan("tiny", config, 2, True, {}, (), {"global": blob}, ("global",))
        journal.commit_round(RoundRow(2, plan.to_json(), blob, {}, {}), plan.blobs)
    journal.close()
    return folder
