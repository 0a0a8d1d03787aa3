"""Checks of extras that are no single command; run by ``try_extras.py`` with the Python of the environment it tries.

Run: python -I extra_smokes.py onnx|nuscenes|dashboard
"""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from fed_core.errors import FedError

FEDPERC = str(Path(sys.executable).with_name("fedperc"))
SECONDS = 60


def onnx() -> None:
    """A depth network in ONNX Runtime gives the depth that PyTorch gives."""
    import numpy as np
    import torch

    from fed_core.tasks.depth import DepthTask
    from fed_models import build
    from fed_models.runtimes import make_runner

    torch.manual_seed(0)
    network = build("adabins_s", {}).eval()
    picture = np.random.default_rng(0).integers(0, 255, (72, 96, 3), np.uint8)
    task = DepthTask()
    runner = make_runner(network, "onnx", lambda found: task.predict(found, picture))
    wanted, found = task.predict(network, picture), task.predict(runner, picture)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def nuscenes() -> None:
    """The devkit scores a file without a single box: NDS 0."""
    from fed_core.data.nuscenes.tables import open_tables

    samples = [sample["token"] for sample in open_tables(Path("nuscenes")).sample]
    meta = {f"use_{sensor}": sensor == "lidar" for sensor in ("camera", "lidar", "radar", "map", "external")}
    Path("empty.json").write_text(json.dumps({"meta": meta, "results": {token: [] for token in samples}}))
    command = [FEDPERC, "evaluate", "detection", "--gt", "nuscenes", "--pred", "empty.json", "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout  # noqa: S603
    if json.loads(said)["mAP"] != 0:
        raise FedError(f"no boxes, but {said}")


def dashboard() -> None:
    """The page of a finished run answers on a port."""
    command = [FEDPERC, "dashboard", "run", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    try:
        lines = iter(server.stdout or ())
        address = next((word for line in lines for word in line.split() if word.startswith("http://")), "")
        if not address:
            raise FedError((server.stderr.read() if server.stderr else "").strip().removeprefix("error: "))
        with urllib.request.urlopen(address, timeout=SECONDS) as page:  # noqa: S310
            if page.status != 200 or b"<html" not in page.read():
                raise FedError(f"{address} answers with {page.status} and no page")
    finally:
        server.terminate()
        server.wait(SECONDS)


if __name__ == "__main__":
    try:
        {"onnx": onnx, "nuscenes": nuscenes, "dashboard": dashboard}[sys.argv[1]]()
    except FedError as err:
        sys.exit(f"error: {err}")
