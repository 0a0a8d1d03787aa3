"""Recordings in which all is known: a car with four cameras on a generated street, and one bus near it."""

import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from fed_core.scenes.driving.carriers import SIZES_M, client_kind
from fed_core.scenes.driving.scenario import Recording, Scenario
from fed_core.scenes.driving.traffic import Traffic
from fed_core.scenes.driving.vehicles import Vehicle

RECORDING = Recording(
    width=96, height=72, map_size=256, radius_m=50.0, min_visible_px=4, period_s=0.5, frames=1, carriers=1
)
NAME = "2000_01_01_00_00_{:02d}"


def write_client(folder: Path, places: list[tuple[float, float]]) -> Path:
    """Write a client in OPV2V's layout: a scenario of one frame for each place, metres forward and left."""
    for number, (forward_m, left_m) in enumerate(places):
        _write(folder / NAME.format(number), forward_m, left_m)
    return folder


def _write(folder: Path, forward_m: float, left_m: float) -> None:
    scenario = Scenario(client_kind("car_a"), RECORDING, (5, 0, 0, 0))
    (carrier,) = scenario.traffic.carriers
    c, s = math.cos(carrier.yaw), math.sin(carrier.yaw)
    place = (carrier.place[0] + c * forward_m - s * left_m, carrier.place[1] + s * forward_m + c * left_m)
    bus = Vehicle(500, "bus", SIZES_M["bus"], place, carrier.yaw, (0.55, 0.04, 0.04))
    scenario.traffic = Traffic((carrier,), (bus,))
    for vehicle, recorded in scenario.frame(0).items():
        base = folder / str(vehicle) / "000000"
        base.parent.mkdir(parents=True)
        for camera, image in enumerate(recorded.images):
            cv2.imwrite(f"{base}_camera{camera}.png", np.ascontiguousarray(image[..., ::-1]))
        for label, picture in recorded.maps.items():
            cv2.imwrite(f"{base}_bev_{label}.png", picture)
        base.with_suffix(".yaml").write_text(yaml.safe_dump(recorded.poses))


class Shot:
    """One written frame, read with nothing but a YAML parser, an image decoder and school trigonometry."""

    def __init__(self, client: Path, number: int) -> None:
        (self._base,) = (path.with_suffix("") for path in (client / NAME.format(number)).rglob("*.yaml"))
        self.tree: dict[str, Any] = yaml.safe_load(self._base.with_suffix(".yaml").read_text())

    def bgr(self, camera: int) -> np.ndarray:
        """Return a picture (H, W, 3) uint8, blue first."""
        return np.asarray(cv2.imread(f"{self._base}_camera{camera}.png"))

    def beside(self, pose: list[float]) -> tuple[float, float, float]:
        """Return metres forward and left of the carrier, and radians to the left, of a pose.

        Poses are x, y, z [m], roll, yaw, pitch [deg]; y and yaw go to the right.
        """
        x, y, _, _, yaw_deg, _ = self.tree["true_ego_pos"]
        heading, (east, south) = math.radians(yaw_deg), (pose[0] - x, pose[1] - y)
        forward = east * math.cos(heading) + south * math.sin(heading)
        right = south * math.cos(heading) - east * math.sin(heading)
        return forward, -right, -math.radians(pose[4] - yaw_deg)

    def mount(self, camera: int) -> dict[str, Any]:
        """Return where a camera sits, for the parameter ``rig``."""
        pose = self.tree[f"camera{camera}"]["cords"]
        forward, left, turn = self.beside(pose)
        up = pose[2] - self.tree["true_ego_pos"][2]
        quarter = math.pi / 2
        return {"id": camera, "position": [forward, left, up], "rotation": [-quarter, 0.0, turn - quarter]}

    def matrix(self, camera: int) -> np.ndarray:
        """Return the camera's matrix (3, 3) as ROS counts pixels."""
        matrix = np.array(self.tree[f"camera{camera}"]["intrinsic"])
        matrix[:2, 2] -= 0.5
        return matrix

    @property
    def bus(self) -> tuple[float, float]:
        """Metres forward and left of the bus's middle."""
        (vehicle,) = self.tree["vehicles"].values()
        forward, left, _ = self.beside([*vehicle["location"], *vehicle["angle"]])
        return forward, left
