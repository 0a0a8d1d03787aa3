"""Who is where: vehicles on the lanes, in queues and parked, drawn once per scenario, then moving straight on."""

from dataclasses import dataclass

import numpy as np

from fed_core.scenes.driving.carriers import SIZES_M, ClientKind
from fed_core.scenes.driving.streets import Lane, Street
from fed_core.scenes.driving.vehicles import PAINTS, Vehicle

MIN_GAP_M = 2.5
#: Ids start here; those of vehicles with cameras come first.
FIRST_NUMBER = 100


@dataclass(frozen=True)
class Traffic:
    """All vehicles of a scenario at its start.

    Attributes:
        carriers: vehicles with cameras.
        others: all others.
    """

    carriers: tuple[Vehicle, ...]
    others: tuple[Vehicle, ...]

    def at(self, time_s: float) -> "Traffic":
        """Return all vehicles ``time_s`` later."""
        return Traffic(
            tuple(vehicle.moved(time_s) for vehicle in self.carriers),
            tuple(vehicle.moved(time_s) for vehicle in self.others),
        )


def drawn_traffic(rng: np.random.Generator, street: Street, kind: ClientKind, num_carriers: int) -> Traffic:
    """Return the traffic of a scenario; carriers start near the middle of the street."""
    carriers: list[Vehicle] = []
    for k in range(num_carriers):
        lane = street.lanes[int(rng.integers(street.own_lanes))]
        # Each has its own 30 m of the street, so that they cannot meet.
        place = lane.at(lane.length_m / 2 - 40.0 + 30.0 * (k + float(rng.uniform(0.3, 0.7))))
        carriers.append(_vehicle(rng, FIRST_NUMBER + k, kind.body, (*place, lane.yaw), lane.speed_mps))
    others: list[Vehicle] = []
    for lane in street.lanes:
        others += _on_lane(rng, lane, kind, carriers, FIRST_NUMBER + len(carriers) + len(others))
    for x, y, yaw in street.places:
        if rng.random() < kind.parked:
            number = FIRST_NUMBER + len(carriers) + len(others)
            turned = yaw + (np.pi if rng.random() < 0.2 else 0.0) + float(rng.normal(0, 0.03))
            body = "van" if rng.random() < kind.mix["van"] else str(rng.choice(["compact", "saloon"]))
            others.append(_vehicle(rng, number, body, (x, y, turned), 0.0, on_road=False))
    return Traffic(tuple(carriers), tuple(others))


def _on_lane(
    rng: np.random.Generator, lane: Lane, kind: ClientKind, carriers: list[Vehicle], first_number: int
) -> list[Vehicle]:
    """Fill a lane; vehicles with cameras keep their place."""
    found: list[Vehicle] = []
    waiting = lane.speed_mps == 0
    names, shares = list(kind.mix), np.array(list(kind.mix.values()))
    end_m = 0.0
    while True:
        body = str(rng.choice(names, p=shares / shares.sum()))
        length = SIZES_M[body][0]
        gap = float(rng.exponential(0.8) if waiting else rng.exponential(kind.gap_m))
        middle = end_m + MIN_GAP_M + gap + length / 2
        end_m = middle + length / 2
        if end_m > lane.length_m or (waiting and len(found) >= 5):
            return found
        x, y = lane.at(middle)
        aside = float(np.clip(rng.normal(0, 0.15), -0.3, 0.3))
        place = x - aside * float(np.sin(lane.yaw)), y + aside * float(np.cos(lane.yaw))
        yaw = lane.yaw + (np.pi if waiting else 0.0)  # a queue is filled from its front
        vehicle = _vehicle(rng, first_number + len(found), body, (*place, yaw), lane.speed_mps)
        if all(_apart(vehicle, carrier) for carrier in carriers):
            found.append(vehicle)


def _vehicle(
    rng: np.random.Generator,
    number: int,
    body: str,
    pose: tuple[float, float, float],
    speed_mps: float,
    *,
    on_road: bool = True,
) -> Vehicle:
    x, y, yaw = pose
    size = np.array(SIZES_M[body]) * rng.uniform(0.93, 1.07, 3)
    if body in ("truck", "bus") and rng.random() < 0.3:
        paint = PAINTS[2]
    else:
        paint = PAINTS[int(rng.integers(len(PAINTS)))]
    return Vehicle(
        number, body, (float(size[0]), float(size[1]), float(size[2])), (x, y), yaw, paint, speed_mps, on_road
    )


def _apart(a: Vehicle, b: Vehicle) -> bool:
    """Tell whether two vehicles leave room between them."""
    gap = np.abs(np.subtract(a.place, b.place))
    return bool(gap[0] > (a.size_m[0] + b.size_m[0]) / 2 + MIN_GAP_M or gap[1] > 2.6)
