"""Small OPV2V folders for tests: grey pictures, car mounts, empty masks."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

SCENARIO = "2021_08_16_22_26_54"
#: Vehicle-frame poses of the car's cameras: x, y, z, roll, yaw, pitch (feddwa spec 6).
MOUNTS = {
    0: (2.5, 0, 1.0, 0, 0, 0),
    1: (0, 0.3, 1.8, 0, 100, 0),
    2: (0, -0.3, 1.8, 0, -100, 0),
    3: (-2, 0, 1.5, 0, 180, 0),
}
INTRINSIC = [[335.6399, 0.0, 400.0], [0.0, 335.6399, 300.0], [0.0, 0.0, 1.0]]
#: The same camera with pictures of 8 x 6 pixels.
SMALL = [[3.356399, 0.0, 4.0], [0.0, 3.356399, 3.0], [0.0, 0.0, 1.0]]


def pose_tree(intrinsic: Any = SMALL, **changes: Any) -> dict[str, Any]:
    """Return the YAML tree of a vehicle at the origin of the map; ``changes`` replace or (None) remove keys."""
    tree: dict[str, Any] = {"true_ego_pos": [0.0] * 6, "predicted_ego_pos": [9.0] * 6, "ego_speed": 30.0}
    for camera, cords in MOUNTS.items():
        tree[f"camera{camera}"] = {
            "cords": [float(value) for value in cords],
            "extrinsic": np.eye(4).tolist(),
            "intrinsic": intrinsic,
        }
    tree.update(changes)
    return {key: value for key, value in tree.items() if value is not None}


def write_image(path: Path, value: int = 0, size: tuple[int, int] = (8, 6)) -> None:
    """Write an even colour picture, ``size`` = width and height."""
    cv2.imwrite(str(path), np.full((size[1], size[0], 3), value, np.uint8))


def write_frame(vehicle: Path, frame: str, size: int = 16, **changes: Any) -> None:
    """Write one frame: camera k is a picture of brightness 10 k + 1."""
    vehicle.mkdir(parents=True, exist_ok=True)
    (vehicle / f"{frame}.yaml").write_text(yaml.safe_dump(pose_tree(**changes)))
    for camera in range(4):
        write_image(vehicle / f"{frame}_camera{camera}.png", 10 * camera + 1)
    for label in ("visibility", "dynamic", "static", "lane"):
        cv2.imwrite(str(vehicle / f"{frame}_bev_{label}.png"), np.zeros((size, size), np.uint8))
