"""Who is where in a scene of a domain: lanes, kerb, pavement and a site of works, then all move straight on."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from fed_core.scenes.domains.actors import KINDS, label_of
from fed_core.scenes.domains.kinds import DomainKind
from fed_core.scenes.driving.streets import Street
from fed_core.scenes.driving.traffic import drawn_traffic
from fed_core.scenes.driving.vehicles import PAINTS, Vehicle

#: Pedestrians and cycles stand and go within this distance of the ego vehicle's way [m].
_BESIDE_M = 55.0
#: Places at the kerb that a site of works takes, and how far they are apart.
_SITE_PLACES = 6
_PLACE_M = 6.2
_FREE_M = 8.0
_CARS = ("compact", "saloon")

Pose = tuple[float, float, float]


@dataclass(frozen=True)
class Cast:
    """Everybody in a scene at its start.

    Attributes:
        ego: the vehicle with the sensors.
        others: all other objects, numbered by their place in the tuple.
    """

    ego: Vehicle
    others: tuple[Vehicle, ...]

    def at(self, time_s: float) -> "Cast":
        """Return all ``time_s`` later."""
        return Cast(self.ego.moved(time_s), tuple(actor.moved(time_s) for actor in self.others))


def kerb_of(street: Street) -> tuple[float, float]:
    """Return the distance [m] from the middle of the street to the edge of the lanes and to the kerb."""
    middle = min(abs(y) for _, y, _ in street.places)
    return middle - 1.3, middle + 1.3


def drawn_cast(rng: np.random.Generator, street: Street, domain: DomainKind, full: bool) -> Cast:
    """Return the traffic of a scene.

    Args:
        rng: all is drawn from it.
        street: where; its places where something else stands are taken off it.
        domain: mix of traffic and absent classes.
        full: show every class that the domain has near the ego vehicle.
    """
    return _Casting(rng, street, domain, full).cast


class _Casting:
    def __init__(self, rng: np.random.Generator, street: Street, domain: DomainKind, full: bool) -> None:
        self._rng, self._street, self._domain, self._full = rng, street, domain, full
        self._edge, self._kerb = kerb_of(street)
        standing = [*self._site(1.0 if full else 0.35), *self._stop(1.0 if full else 0.15)]
        traffic = drawn_traffic(rng, street, domain.city.traffic, 1)
        self._x = traffic.carriers[0].place[0]
        queues = {lane.speed_mps for lane in street.lanes if rng.random() < 0.2}
        queues.discard(traffic.carriers[0].speed_mps)
        nearest = self._nearest_car(traffic.others) if full else None
        lanes = [self._on_lane(vehicle, queues, always=vehicle is nearest) for vehicle in traffic.others]
        beside = [*self._walkers(), *self._cyclists(), *self._parked_cycles()]
        found = [a for a in (*standing, *lanes, *beside) if label_of(a) not in domain.absent]
        self.cast = Cast(traffic.carriers[0], tuple(replace(a, number=k) for k, a in enumerate(found)))

    def _nearest_car(self, vehicles: Iterable[Vehicle]) -> Vehicle | None:
        """Return the car on the road that is nearest to the ego vehicle along the street."""
        cars = [v for v in vehicles if v.on_road and v.kind in _CARS]
        return min(cars, key=lambda v: abs(v.place[0] - self._x), default=None)

    def _on_lane(self, vehicle: Vehicle, queues: set[float], *, always: bool) -> Vehicle:
        """Return what drives there: some lanes wait, some vehicles are motorcycles (smaller, so there is room)."""
        rng = self._rng
        share = 1.0 if always else self._domain.city.motorcycles
        if vehicle.on_road and vehicle.kind in _CARS and rng.random() < share:
            aside = float(rng.uniform(-0.8, 0.8))
            x, y = vehicle.place
            place = x - aside * float(np.sin(vehicle.yaw)), y + aside * float(np.cos(vehicle.yaw))
            vehicle = replace(vehicle, kind="motorcycle", size_m=self._size("motorcycle"), place=place)
        return replace(vehicle, speed_mps=0.0) if vehicle.speed_mps in queues else vehicle

    def _site(self, chance: float) -> list[Vehicle]:
        """Return works at the kerb: machine and trailer behind barriers, with cones before and after."""
        run = self._claim(_SITE_PLACES, chance, (-32.0, 20.0))
        if run is None:
            return []
        x, y, yaw = run
        side = float(np.sign(y))
        found = [
            self._actor("construction_vehicle", (x + 9.0, y + side * 0.1, yaw)),
            self._actor("trailer", (x + 21.0, y + side * 0.1, yaw)),
        ]
        line = y - side * 1.15
        for k in range(int(self._rng.integers(4, 7))):
            # The long side of a barrier lies across its heading.
            at = (x + 4.0 + 3.0 * k, line - side * 0.4, yaw + np.pi / 2 + float(self._rng.normal(0, 0.04)))
            found.append(self._actor("barrier", at))
        for k in range(4):
            found.append(self._actor("traffic_cone", (x - 3.0 + 1.6 * k, y + side * (1.0 - 0.6 * k), yaw)))
            found.append(self._actor("traffic_cone", (x + 28.0 + 1.6 * k, line + side * 0.5 * k, yaw)))
        return found

    def _stop(self, chance: float) -> list[Vehicle]:
        """Return a bus and a lorry at the kerb."""
        run = self._claim(4, chance, (-30.0, 20.0))
        if run is None:
            return []
        x, y, yaw = run
        return [self._actor("bus", (x + 4.0, y, yaw)), self._actor("truck", (x + 17.0, y, yaw))]

    def _claim(self, count: int, chance: float, span: tuple[float, float]) -> Pose | None:
        """Take ``count`` neighbouring places off the kerb and return the first, None by chance or without room."""
        if self._rng.random() >= chance:
            return None
        places = self._street.places
        starts = [
            k
            for k in range(len(places) - count + 1)
            if span[0] <= places[k][0] <= span[1]
            and places[k][1] == places[k + count - 1][1]
            and abs(places[k + count - 1][0] - places[k][0] - _PLACE_M * (count - 1)) < 0.1
        ]
        if not starts:
            return None
        first = starts[int(self._rng.integers(len(starts)))]
        found = places[first]
        # One more on each side stays free for the ends of long things.
        self._street.places = [
            p for p in places if p[1] != found[1] or not -_FREE_M < p[0] - found[0] < _PLACE_M * (count - 1) + _FREE_M
        ]
        return found

    def _walkers(self) -> list[Vehicle]:
        rng = self._rng
        found: list[Vehicle] = []
        for side in (-1, 1):
            for x in self._spots(self._domain.city.walkers, 1.2):
                stands = rng.random() < 0.3
                speed = 0.0 if stands else float(rng.uniform(0.8, 1.7))
                yaw = float(rng.uniform(-np.pi, np.pi)) if stands else float(np.pi * rng.integers(2))
                y = side * (self._kerb + float(rng.uniform(1.2, 2.7)))
                red, green, blue = (float(c) for c in rng.uniform(0.05, 0.6, 3))
                found.append(replace(self._actor("pedestrian", (x, y, yaw), speed), paint=(red, green, blue)))
        return found

    def _cyclists(self) -> list[Vehicle]:
        found: list[Vehicle] = []
        for side in (-1, 1):
            speed = float(self._rng.uniform(2.5, 5.0))
            yaw = 0.0 if side < 0 else np.pi
            for x in self._spots(self._domain.city.cyclists, 5.0):
                found.append(self._actor("bicycle", (x, side * (self._edge + 0.05), yaw), speed))
        return found

    def _parked_cycles(self) -> list[Vehicle]:
        rng = self._rng
        found: list[Vehicle] = []
        for side in (-1, 1):
            for number, x in enumerate(self._spots(self._domain.city.parked_cycles, 2.5)):
                motor = rng.random() < self._domain.city.cycle_mix
                if self._full and number == 0:
                    motor = side < 0
                kind = "motorcycle_parked" if motor else "bicycle_parked"
                yaw = float(rng.normal(0, 0.3)) + float(np.pi * rng.integers(2))
                found.append(self._actor(kind, (x, side * (self._kerb + 0.7), yaw)))
        return found

    def _spots(self, mean: float, gap_m: float) -> Iterable[float]:
        """Return places along the street, at least ``gap_m`` apart, denser near the ego vehicle."""
        count = int(self._rng.poisson(mean))
        # Where all classes are to be shown there is one at least.
        wanted = np.sort(self._rng.normal(self._x + 10.0, 22.0, max(count, int(self._full))))
        last = -np.inf
        for x in np.clip(wanted, self._x - _BESIDE_M, self._x + _BESIDE_M):
            if x - last >= gap_m:
                last = x
                yield float(x)

    def _size(self, kind: str) -> tuple[float, float, float]:
        size = np.array(KINDS[kind].size_m) * self._rng.uniform(0.95, 1.05, 3)
        return float(size[0]), float(size[1]), float(size[2])

    def _actor(self, kind: str, pose: Pose, speed_mps: float = 0.0) -> Vehicle:
        x, y, yaw = pose
        paint = PAINTS[int(self._rng.integers(len(PAINTS)))]
        return Vehicle(0, kind, self._size(kind), (x, y), yaw, paint, speed_mps, on_road=False)
