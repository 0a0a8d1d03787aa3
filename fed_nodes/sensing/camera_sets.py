"""Puts images of several cameras together that were taken at one time."""

from collections import deque
from collections.abc import Mapping, Sequence

from sensor_msgs.msg import Image

from fed_nodes.convert.images import stamp_ns
from fed_nodes.sensing.waiting import most_waiting

#: Images of one camera that wait for those of the others, fewer where they are large.
WAITING = 10


class CameraSets:
    """Completes sets with whichever image comes last; the newest complete set is the one that counts.

    Args:
        names: cameras of a set.
        slop_ns: largest time between the first and the last image of a set.

    Attributes:
        dropped: images that found no set.
        since_last: images of each camera since the last complete set.
    """

    def __init__(self, names: Sequence[str], slop_ns: int) -> None:
        self._names, self._slop_ns = tuple(names), slop_ns
        self._waiting: dict[str, deque[Image]] = {name: deque() for name in names}
        self.since_last = dict.fromkeys(names, 0)
        self.dropped = 0

    def add(self, name: str, image: Image) -> tuple[Image, ...] | None:
        """Take an image; return the set that it completes, in the order of the names.

        Images that came before those of a set, by arrival, are dropped with it: a clock may be set back.
        """
        self.since_last[name] += 1
        waiting = self._waiting[name]
        waiting.append(image)
        while len(waiting) > min(WAITING, most_waiting(len(image.data))):
            waiting.popleft()
            self.dropped += 1
        found = self._nearest(name, stamp_ns(image.header.stamp))
        if found is None:
            return None
        for camera, member in found.items():
            self._forget_until(camera, member)
        self.since_last = dict.fromkeys(self._names, 0)
        return tuple(found[camera] for camera in self._names)

    def _nearest(self, name: str, now_ns: int) -> Mapping[str, Image] | None:
        """Return the set with the smallest spread that holds the newest image of a camera."""
        stamps = {
            camera: {
                time: image
                for image in waiting
                if abs((time := stamp_ns(image.header.stamp)) - now_ns) <= self._slop_ns
            }
            for camera, waiting in self._waiting.items()
        }
        stamps[name] = {now_ns: self._waiting[name][-1]}
        best: tuple[int, Mapping[str, Image]] | None = None
        for start_ns in {time for times in stamps.values() for time in times if time <= now_ns}:
            end_ns = start_ns + self._slop_ns
            inside = {camera: [t for t in times if start_ns <= t <= end_ns] for camera, times in stamps.items()}
            if not all(inside.values()):
                continue
            chosen = {camera: min(times, key=lambda time: abs(time - now_ns)) for camera, times in inside.items()}
            spread = max(chosen.values()) - min(chosen.values())
            if best is None or spread < best[0]:
                best = spread, {camera: stamps[camera][time] for camera, time in chosen.items()}
        return best[1] if best else None

    def _forget_until(self, camera: str, member: Image) -> None:
        waiting = self._waiting[camera]
        while waiting.popleft() is not member:
            self.dropped += 1
