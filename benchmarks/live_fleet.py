"""The processes of ``bench_live``: aggregator, robot, inference node and camera, each of its own, on this host."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from fed_cli.fleetrun.environment import local_environment, tether
from fed_cli.fleetrun.shared_memory import remove_dead_segments

NETWORK = "adabins_s"
TRAIN = {"lr": 1e-4, "batch_size": 8, "local_epochs": 12, "schedule": "constant"}
SOURCE = {
    "generated": {"platform": "ugv", "environment": "urban_day", "seed": 4, "frames": 64, "width": 160, "height": 120}
}
HERE = Path(__file__).resolve().parent
_PATIENCE_S = 120.0
#: CPUs that a training process takes at least while it trains, and at most while it is paused.
_TRAINS, _RESTS = 0.1, 0.02


class Camera:
    """The camera process, see ``live_camera.py``."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        command = [*tether(), sys.executable, str(HERE / "live_camera.py")]
        self._process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._require(self.answer(_PATIENCE_S))

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)

    def ask(self, *command: object, patience_s: float = _PATIENCE_S) -> dict[str, Any]:
        """Return the answer to a command."""
        self._say(*command)
        return self._require(self.answer(patience_s))

    def _say(self, *command: object) -> None:
        if self._process.stdin is None:
            raise RuntimeError("the camera takes no commands")
        self._process.stdin.write(" ".join(map(str, command)) + "\n")
        self._process.stdin.flush()

    def begin(self, rate_hz: float, seconds: float) -> None:
        """Begin to play; :meth:`answer` tells when it has ended."""
        self._say("play", rate_hz, seconds)

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Return the next answer, None where none comes in time."""
        try:
            return dict(json.loads(self._lines.get(timeout=seconds)))
        except queue.Empty:
            return None

    def play(self, rate_hz: float, seconds: float) -> dict[str, Any]:
        """Play and return what came."""
        return self.ask("play", rate_hz, seconds, patience_s=seconds + _PATIENCE_S)

    def until_depth(self) -> None:
        """Publish until a depth comes."""
        if not self.ask("wait", _PATIENCE_S, patience_s=2 * _PATIENCE_S)["came"]:
            raise RuntimeError("no depth came")

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(20.0)

    @staticmethod
    def _require(answer: dict[str, Any] | None) -> dict[str, Any]:
        if answer is None:
            raise RuntimeError("the camera does not answer")
        return answer


class Robot:
    """The robot's process and its training child."""

    def __init__(self, process: "subprocess.Popen[bytes]", camera: Camera) -> None:
        self.pid, self._camera = process.pid, camera

    def train(self, wanted: bool) -> None:
        """Let it train, or pause it, and wait until that is so."""
        answer = self._camera.ask("pause", int(not wanted))
        if not answer["success"]:
            raise RuntimeError(answer["text"])
        deadline_s = time.monotonic() + 2 * _PATIENCE_S
        while time.monotonic() < deadline_s:
            pid = self.trainer_pid()
            share = psutil.Process(pid).cpu_percent(2.0) / 100.0 if pid else 0.0
            # A training process may also load its libraries: it trains when batches are done.
            trains = share > _TRAINS and self._camera.ask("rounds")["progress"] > 0.0
            if pid and (trains if wanted else share < _RESTS):
                return
        raise RuntimeError(f"the robot does not {'train' if wanted else 'pause'}")

    def trainer_cpu_s(self) -> float:
        """Return the CPU time that the training child took so far [s]."""
        pid = self.trainer_pid()
        times = psutil.Process(pid).cpu_times() if pid else None
        return times.user + times.system if times else 0.0

    def trainer_pid(self) -> int | None:
        """Return the process id of the training child."""
        children = psutil.Process(self.pid).children()
        return children[0].pid if children else None


class Fleet:
    """One run in a folder; its model stays cached for the inference node."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self._device = folder, device
        self._environment = {**os.environ, **local_environment(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
        (folder / "log" / "ros").mkdir(parents=True)
        self.camera = Camera(self._environment)
        self._bare: subprocess.Popen[str] | None = None
        with self.aggregator(), self.robot(), self.inference():  # a model to begin with
            self.camera.until_depth()

    def aggregator(self) -> Any:
        """Run the aggregator of a run that never ends."""
        own = {
            "runs_dir": str(self.folder / "aggregator"), "strategy": "fedavg", "min_robots": 1, "rounds": 100_000,
            "network": NETWORK, "train": json.dumps(TRAIN),
        }  # fmt: skip
        return self._node("fed_nodes.aggregator", "/", own)

    @contextmanager
    def robot(self) -> Iterator[Robot]:
        """Run the robot, with the parameters that it has by default."""
        own = {"robot_id": "robot", "state_dir": str(self.folder / "robot"), "source": json.dumps(SOURCE)}
        with self._node(
            "fed_nodes.robot_client", "/robot", own | {"network": NETWORK, "device": self._device}
        ) as process:
            yield Robot(process, self.camera)

    def inference(self, module: str = "", environment: Mapping[str, str] | None = None) -> Any:
        """Run the inference node, or a file of this folder that wraps it."""
        own = {"state_dir": str(self.folder / "inference"), "reliable_sensors": True, "device": self._device}
        return self._node(module or "fed_nodes.inference", "/live", own, environment)

    @contextmanager
    def _node(
        self, module: str, namespace: str, own: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> Iterator["subprocess.Popen[bytes]"]:
        place = ["-m", module] if module.startswith("fed_nodes.") else [str(HERE / f"{module}.py")]
        path = self.folder / f"{module}.json"  # JSON is YAML
        path.write_text(json.dumps({"/**": {"ros__parameters": dict(own)}}), encoding="utf-8")
        command = [
            *tether(),
            sys.executable,
            *place,
            "--ros-args",
            "-r",
            f"__ns:={namespace}",
            "--params-file",
            str(path),
        ]
        with (self.folder / "log" / f"{module}.log").open("ab") as log:
            process = subprocess.Popen(
                command, env={**self._environment, **(environment or {})}, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()

    def bare_forward_ms(self) -> float:
        """Return the median time of 100 forward passes of the network alone, in a process of its own."""
        if self._bare is None:
            self._bare = subprocess.Popen(
                [*tether(), sys.executable, str(HERE / "live_forward.py"), NETWORK, self._device],
                env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        if self._bare.stdin is None or self._bare.stdout is None:
            raise RuntimeError("no pipe")
        self._bare.stdin.write("100\n")
        self._bare.stdin.flush()
        return float(np.median(json.loads(self._bare.stdout.readline())))

    def counts(self) -> dict[str, int]:
        """Return the numbers of the inference node's diagnostics."""
        values = self.camera.ask("counts")
        return {name: int(value) for name, value in values.items() if value.isdigit()}

    def rounds(self) -> int:
        """Return the fleet's round."""
        return int(self.camera.ask("rounds")["round"])

    def __enter__(self) -> "Fleet":
        """Return self."""
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        """End what still runs; after an error, tell what the nodes wrote last."""
        if kind is not None:
            for log in sorted((self.folder / "log").glob("*.log")):
                sys.stderr.write(f"{log.name}: {log.read_text(encoding='utf-8')[-1500:]}\n")
        self.camera.close()
        if self._bare is not None and self._bare.stdin is not None:
            self._bare.stdin.close()
            self._bare.wait(20.0)
        remove_dead_segments()
