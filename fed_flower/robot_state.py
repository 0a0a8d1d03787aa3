"""What a robot keeps between rounds, in the state that Flower keeps for each node.

Local layers, the strategy's memory and the optimiser lie in files while a job runs. Between two messages they are
bytes in the node's :class:`flwr.app.Context`, so the next message may be handled by any process.
"""

from pathlib import Path

from flwr.app import ConfigRecord, Context

_RECORD = "fed_perception"
#: Files of a round that later rounds need; what was sent is not among them.
_KEPT = frozenset({"own.safetensors", "memory.safetensors", "optimizer.safetensors", "done"})


def unpack_state(context: Context, folder: Path) -> None:
    """Write the files that the robot kept into its folder."""
    record = context.state.get(_RECORD)
    if not isinstance(record, ConfigRecord):
        return
    for name, data in record.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else b"")


def pack_state(context: Context, folder: Path) -> None:
    """Keep the files of the robot's folder that its next round needs, and nothing else."""
    files = (path for path in sorted(folder.rglob("*")) if path.name in _KEPT)
    context.state[_RECORD] = ConfigRecord({str(path.relative_to(folder)): path.read_bytes() for path in files})
