"""How often real rooms and streets form exactly two clusters, by rule; needs the recordings of FED_PERCEPTION_DATA.

Robots are drawn anew 20 times for each size: parts of 7-Scenes and Redwood indoors, of KITTI and nuScenes outdoors, and
all of NYU. Figures are shares of draws with two clusters, one of all rooms and one of all streets.
"""

import json
import os

# Before NumPy and PyTorch load: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

from collections.abc import Mapping  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from machine import machine  # noqa: E402

from fed_core.data.image_files import COLOUR_SUFFIXES, read_rgb  # noqa: E402
from fed_core.similarity import descriptors  # noqa: E402
from fed_core.strategies.base import RobotInfo, ServerState, make_strategy  # noqa: E402
from fed_core.types import Array, Memory, ModelSignature  # noqa: E402
from fed_models.features import default_encoder  # noqa: E402

DRAWS = 20
SIZES = (3, 4, 5, 6, 8, 10, 13)
GAP = {"tau_rule": "gap"}
LOG = {**GAP, "features": "log"}
RULES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "plain": ("fedepth", GAP),
    "plain_corrected": ("fedepth", {**GAP, "noise_correction": True}),
    "prior_200": ("fedepth", {**GAP, "variance_prior": 200.0}),
    "log": ("fedepth", LOG),
    "log_prior_20": ("fedepth", {**LOG, "variance_prior": 20.0}),
    "log_prior_200": ("fedepth", {**LOG, "variance_prior": 200.0}),
    "log_prior_20_min_2": ("fedepth", {**LOG, "variance_prior": 20.0, "min_cluster": 2}),
    "log_prior_200_min_2": ("fedepth", {**LOG, "variance_prior": 200.0, "min_cluster": 2}),
    "hard_log_prior_200": ("hard", {**LOG, "variance_prior": 200.0}),
}
DATA_VARIABLE = "FED_PERCEPTION_DATA"


def pooled(*folders: Path) -> Array:
    """Return (N, D) float32 pooled features of the colour images in folders."""
    files = [f for folder in folders for f in sorted(folder.iterdir()) if f.suffix in COLOUR_SUFFIXES]
    return default_encoder().gem(read_rgb(file) for file in files if ".depth." not in file.name)


def draw(data: Mapping[str, Array], size: int, seed: int, more: bool) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return robots indoors and outdoors; ``more`` adds Redwood, which looks rendered."""

    def parts(name: str) -> dict[str, Array]:
        rows = rng.permutation(data[name]) if seed else data[name]
        return {f"{name}{n}": part for n, part in enumerate(np.array_split(rows, max(1, len(rows) // size)))}

    rng = np.random.default_rng(seed)
    indoor, outdoor = {"nyu": data["nyu"], **parts("scenes")}, {"kitti": data["kitti"], **parts("singapore")}
    return ({**indoor, "redwood": data["redwood"]} if more else indoor), outdoor


def separated(rule: str, indoor: Mapping[str, Array], outdoor: Mapping[str, Array]) -> bool:
    """Tell whether there are two clusters, one of each group."""
    name, options = RULES[rule]
    strategy = make_strategy(name, options)
    kind = str(strategy.descriptor)
    robots = {r: RobotInfo(r, len(x), descriptors.describe(kind, x, "")) for r, x in {**indoor, **outdoor}.items()}
    outcome = strategy.begin(ServerState(0, robots, Memory(), {}, ModelSignature("none", ())))
    inside, outside = ({outcome.clusters[r] for r in group} for group in (indoor, outdoor))
    return len(outcome.models) == 2 and len(inside) == len(outside) == 1 and inside != outside


def main() -> None:
    """Measure all rules and print one JSON line."""
    root = Path(os.environ.get(DATA_VARIABLE) or Path(__file__).resolve().parents[2] / "shared" / "data")
    if not root.is_dir():
        raise SystemExit(f"no recordings at {root}; set {DATA_VARIABLE} to the folder that holds them")
    data = {
        "nyu": pooled(root / "depth_nyu" / "rgb"),
        "scenes": pooled(root / "depth_7scenes"),
        "redwood": pooled(root / "depth_redwood" / "color"),
        "kitti": pooled(root / "depth_kitti" / "rgb", root / "kitti_object" / "image_2"),
        "singapore": pooled(*sorted((root / "nuscenes_cams_singapore").glob("CAM_*"))),
    }
    figures: dict[str, float] = {}
    for more in (False, True):
        for rule in RULES:
            by_size = {s: sum(separated(rule, *draw(data, s, k, more)) for k in range(DRAWS)) for s in SIZES}
            share = sum(by_size.values()) / (DRAWS * len(SIZES))
            name = f"{rule}_with_redwood" if more else rule
            figures[name] = round(share, 3)
            print(f"{name:40s} {share:6.1%}  right of {DRAWS} by frames a robot: {by_size}", flush=True)
    print(json.dumps({"bench": "indoor_outdoor", "figures": figures, "machine": machine()}))


if __name__ == "__main__":
    main()
