"""Lines as the monitor writes them, and a monitor that is a plain program: it repeats what a test put into a file."""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from fed_cli.fleetrun.monitor import MonitorReader

NOW_S = 1_700_000_000.0


def member(name: str, **more: Any) -> dict[str, Any]:
    told = {"alive": True, "described": True, "reported": False, "clusters": [], "updates": 0, "refused": 0}
    return {"id": name, **told, "last_text": "", **more}


def fleet(*members: dict[str, Any], **more: Any) -> dict[str, Any]:
    told = {"run": "yard", "phase": "training", "round": 2, "rounds": 5, "strategy": "fedepth", "expected": 2}
    moved = {"sent_bytes": 3000, "received_bytes": 1000, "waiting_for": ""}
    return {"kind": "fleet", **told, "robots": list(members), **moved, "time_s": NOW_S, **more}


def robot(name: str, **more: Any) -> dict[str, Any]:
    told = {"phase": "training", "round": 2, "progress": 0.5, "loss": 4.0, "samples_per_s": 8.0, "samples": 64}
    used = {"sent_bytes": 2000, "received_bytes": 5000, "disk_free_bytes": 10**9, "gpu_used_bytes": 0, "text": ""}
    return {"kind": "robot", "id": name, **told, **used, "time_s": NOW_S, **more}


def plan(**more: Any) -> dict[str, Any]:
    told = {"run": "yard", "round": 2, "task": "depth", "network": "adabins_s", "finished": False, "deadline_s": None}
    return {"kind": "plan", **told, "sent_s": NOW_S, "time_s": NOW_S, **more}


def selection(source: str = "/live", **more: Any) -> dict[str, Any]:
    told = {"run": "yard", "round": 1, "sequence": "sequence_1", "models": ["cluster/1"], "clusters": [1]}
    near = {"distances": [0.5, 0.25], "threshold": 0.3, "fallback": False}
    return {"kind": "selection", "source": source, **told, **near, "time_s": NOW_S, **more}


def services(**types: str) -> dict[str, Any]:
    """Services of the robot /spot1 by name, as ``pause_training="SetBool"``."""
    told = [{"name": f"/spot1/{name}", "type": f"std_srvs/srv/{kind}"} for name, kind in types.items()]
    return {"kind": "services", "services": told, "time_s": NOW_S}


def png(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (32, 24)) -> bytes:
    Image.new("RGB", size, colour).save(path)
    return path.read_bytes()


def picture(data: bytes, source: str = "/live", **more: Any) -> dict[str, Any]:
    told = {"what": "depth", "mime": "image/png", "width": 32, "height": 24, "stamp_s": NOW_S}
    return {"kind": "picture", "source": source, "image": base64.b64encode(data).decode(), **told, **more}


#: Follows a file: waits for more at its end, ends with its parent.
_FOLLOW = """
import pathlib, sys, time
with open(sys.argv[1]) as file:
    while True:
        line = file.readline()
        if line.endswith("\\n"):
            print(line, end="", flush=True)
        else:
            file.seek(file.tell() - len(line))
            time.sleep(0.05)
"""


class FakeMonitor:
    """A monitor whose lines a test writes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lines"
        self._path.touch()
        program = [sys.executable, "-c", _FOLLOW, str(self._path)]
        self.reader = MonitorReader(program, dict(os.environ), str(folder / "monitor.log"))

    def say(self, *lines: dict[str, Any]) -> None:
        """Write lines and wait until they were heard."""
        wanted = self.reader.state.heard + len(lines)
        with self._path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        with self.reader.changed:
            assert self.reader.changed.wait_for(lambda: self.reader.state.heard >= wanted, 20.0)

    def close(self) -> None:
        self.reader.close()
