"""What runs in a process of Ray: robots' jobs, with the fleet's models kept once per node and round."""

import importlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fed_core import __version__
from fed_core.errors import FedError
from fed_core.simulation.engines import carry_out
from fed_core.simulation.shipping import with_paths, write_bytes, written
from fed_core.training.jobs import Toolbox
from fed_core.types import Array
from fed_core.wire.files import flushing

#: Folders of a run on a node are named after it.
_PREFIX = "fed-perception-"


class RobotWorker:
    """Carries out the jobs of any robot.

    Args:
        make_toolbox: "module:function" that makes the networks' toolbox.
        environment: variables that the robots' work reads.
        folder: of the driver; relative paths of sources start there, where the node has it.
        token: names the run on this node.
        threads: CPU threads of a job.
    """

    def __init__(
        self, make_toolbox: str, environment: Mapping[str, str], folder: str, token: str, threads: int
    ) -> None:
        settle(environment, folder)
        self._toolbox: Toolbox = made(make_toolbox)
        self._folder = folder_of(token)
        self._models, self._scratch = self._folder / "models", self._folder / "work"
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._threads = threads

    def ready(self) -> dict[str, str]:
        """Return where this process runs, and what."""
        return {"node": socket.gethostname(), "version": __version__}

    def work(self, text: str, shared: Mapping[str, Any], own: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
        """Return a job's answer as JSON text, and the bytes of the files it wrote.

        Args:
            text: JSON of kind, arguments, round, and the names of the shared files.
            shared: references into Ray's object store, by the names of the files.
            own: bytes of the robot's own files.
        """
        job = json.loads(text)
        out = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            paths = self._shared_paths(job, shared)
            for name, data in own.items():
                paths[name] = out / f"{name}.in"
                data.tofile(paths[name])
            arguments = with_paths(job["arguments"], paths, out / "out")
            with flushing(False):  # the driver keeps them
                result = carry_out(job["kind"], arguments, self._toolbox, self._threads)
            return json.dumps({"result": result}), written(out / "out")
        except FedError as err:
            where = f" (on node {socket.gethostname()})"
            return json.dumps({"error": type(err).__name__, "text": f"{err}{where}"}), {}
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def clean(self) -> None:
        """Delete what the run left on this node."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _forget_before(self, number: int) -> None:
        """Delete the models of rounds that are over; another worker of this node may be writing this round's."""
        for old in self._models.glob("*"):
            if int(old.name) < number:
                shutil.rmtree(old, ignore_errors=True)

    def _shared_paths(self, job: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Path]:
        """Return the paths of the fleet's models on this node; those of rounds that are over are deleted."""
        import ray

        folder = self._models / f"{job['round']}"
        if shared and not folder.is_dir():
            self._forget_before(job["round"])
            folder.mkdir(parents=True, exist_ok=True)
        for name, reference in shared.items():
            if not (folder / name).exists():
                with flushing(False):
                    write_bytes(folder / name, ray.get(reference))
        return {place: folder / name for place, name in job["shared"].items()}


def settle(environment: Mapping[str, str], folder: str) -> None:
    """Make this process work as the driver does.

    Args:
        environment: variables that the work reads.
        folder: of the driver; relative paths start there, where the node has it.
    """
    os.environ.update(environment)
    if Path(folder).is_dir():
        os.chdir(folder)


def folder_of(token: str) -> Path:
    """Return where a run keeps files on a node while it goes on."""
    return Path(tempfile.gettempdir()) / f"{_PREFIX}{token}"


def made(name: str) -> Any:
    """Return what the function "module:function" returns."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)()
