"""Starts, watches and stops the processes of a fleet through circus; none outlives the command.

circus runs as a child that dies with us, and each node dies with circus, also when we are killed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from circus.client import CircusClient
from circus.exc import CallError

from fed_cli.fleetrun.environment import tether
from fed_cli.fleetrun.shared_memory import remove_dead_segments
from fed_core.deployment import NodeSpec
from fed_core.errors import FedError

_GRACE_S = 8
_PATIENCE_S = 30.0


class Supervisor:
    """Processes by name.

    Args:
        folder: logs and parameter files go to ``<folder>/log`` and ``<folder>/params``.
        environment: variables of every process.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._logs, self._params = folder / "log", folder / "params"
        for path in (self._logs, self._params):
            path.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, **environment}
        self._logged: dict[str, int] = {}  # size of each log when its process was started
        self._sockets = Path(tempfile.mkdtemp(prefix="fedperc-"))  # socket paths must be short
        self._process = self._start()
        self._client = CircusClient(endpoint=f"ipc://{self._sockets}/control", timeout=30)
        self._call("globaloptions")

    def start(self, spec: NodeSpec, *, respawn: bool = False) -> None:
        """Start a node; with ``respawn`` it is started again whenever it ends."""
        command = self.command(spec)
        log = self._logs / f"{spec.name}.log"
        self._logged[spec.name] = log.stat().st_size if log.exists() else 0
        self._call(
            "add",
            name=spec.name,
            cmd=command[0],
            args=command[1:],
            start=True,
            options={
                "respawn": respawn,
                "copy_env": False,
                "env": self.environment,
                "graceful_timeout": _GRACE_S,
                "stdout_stream": {"class": "FileStream", "filename": str(self._logs / f"{spec.name}.log")},
                "stderr_stream": {"class": "FileStream", "filename": str(self._logs / f"{spec.name}.log")},
            },
        )

    def stop(self, name: str) -> None:
        """Stop a process (SIGTERM, then SIGKILL) and forget it."""
        self._call("rm", name=name, waiting=True)

    def running(self, name: str) -> bool:
        """Return whether the process runs."""
        return bool(self.pids(name))

    def pids(self, name: str) -> list[int]:
        """Return the process ids of a name."""
        return list(self._call("list", name=name).get("pids", []))

    def log_tail(self, name: str, lines: int = 3) -> str:
        """Return the last lines a process wrote."""
        path = self._logs / f"{name}.log"
        if not path.exists():
            return "it wrote nothing"
        return " | ".join(path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-lines:])

    def fault(self, name: str) -> str:
        """Return the error that a process ended with since it was started first; "" where its last word is none."""
        path = self._logs / f"{name}.log"
        if not path.exists():
            return ""
        with path.open("rb") as file:
            file.seek(self._logged.get(name, 0))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("error: ") if lines and lines[-1].startswith("error: ") else ""

    def command(self, spec: NodeSpec) -> list[str]:
        """Return the command line of a node; its parameters lie in a file beside the logs."""
        import yaml

        path = self._params / f"{spec.name}.yaml"
        tree = {"/**": {"ros__parameters": dict(spec.parameters)}}
        path.write_text(yaml.safe_dump(tree), encoding="utf-8")
        command = [*tether(), sys.executable, "-m", f"fed_nodes.{spec.executable}", "--ros-args"]
        if spec.namespace:
            command += ["-r", f"__ns:={spec.namespace}"]
        return [*command, "--params-file", str(path.absolute())]

    def close(self) -> None:
        """Stop everything."""
        try:
            self._call("quit", waiting=True)
            self._process.wait(timeout=2 * _GRACE_S)
        except (FedError, subprocess.TimeoutExpired):
            self._process.kill()
        self._client.stop()
        shutil.rmtree(self._sockets, ignore_errors=True)
        remove_dead_segments()

    def __enter__(self) -> "Supervisor":
        """Return self."""
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        """Stop everything."""
        self.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        ini = self._sockets / "circus.ini"
        ini.write_text(
            "[circus]\n"
            f"endpoint = ipc://{self._sockets}/control\npubsub_endpoint = ipc://{self._sockets}/events\n"
            "check_delay = 1\nwarmup_delay = 0\n",
            encoding="utf-8",
        )
        log = self._logs / "circus.log"
        command = [*tether(), sys.executable, "-m", "circus.circusd", "--log-level", "WARNING"]
        return subprocess.Popen(  # noqa: S603 - fixed program, no shell
            [*command, "--log-output", str(log), str(ini)], env=self.environment, start_new_session=True
        )

    def _call(self, command: str, **properties: Any) -> dict[str, Any]:
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer: dict[str, Any] = self._client.send_message(command, **properties)
            except CallError as err:
                log = self._logs / "circus.log"
                raise FedError(f"the process supervisor does not answer ({command}); see {log}") from err
            if answer.get("status") in ("ok", "active", None):
                return answer
            reason = str(answer.get("reason", answer))
            # circus does one thing at a time; while it still ends one process it wants to be asked again.
            if "already running" not in reason or time.monotonic() > deadline_s:
                raise FedError(f"the process supervisor refused {command}: {reason}")
            time.sleep(0.1)
