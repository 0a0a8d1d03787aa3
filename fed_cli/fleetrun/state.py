"""What is known of a fleet: the newest word of everybody, fed with the lines of the monitor."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

#: A fault that a node's diagnostics do not repeat is over, or its node is gone [s].
FAULT_S = 6.0
#: Rounds whose loss is kept of each robot.
KEPT_ROUNDS = 200
#: Most robots, nodes or runs that are kept of each kind; names are made up easily, and those silent longest go.
MOST_NAMES = 10_000
#: Most pictures that are kept, and characters of one; a monitor's are far smaller.
MOST_PICTURES, MOST_PICTURE_CHARS = 64, 400_000

Level = Literal["warn", "error"]


@dataclass(frozen=True)
class Fault:
    """Something that a person should look at.

    Attributes:
        level: "warn" or "error".
        where: robot or node.
        text: what is wrong.
    """

    level: Level
    where: str
    text: str


class FleetState:
    """The newest word of everybody, fed with the lines of the monitor or the statuses of a simulation.

    Args:
        clock: time of day in seconds; for lines that do not tell theirs.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.fleet: dict[str, Any] = {}
        self.robots: dict[str, dict[str, Any]] = {}
        self.plan: dict[str, Any] = {}
        self.plans: dict[str, dict[str, Any]] = {}
        self.masks: dict[str, dict[str, Any]] = {}
        self.selections: dict[str, dict[str, Any]] = {}
        self.pictures: dict[str, dict[str, Any]] = {}
        self.services: list[dict[str, Any]] = []
        self.fleets: list[str] = []
        self.looked = False
        self.heard = 0
        self._ill: dict[str, dict[str, Any]] = {}
        self._losses: dict[str, dict[int, float]] = {}
        self._run = ""

    def add(self, line: dict[str, Any]) -> None:
        """Take one line of the monitor; ``heard`` counts them."""
        self.heard += 1
        kind = line.get("kind")
        if kind == "fleet":
            self._begin(line["run"])
            self.fleet = line
        elif kind == "robot":
            _keep(self.robots, line["id"], line)
            self._keep_loss(line)
        elif kind == "plan":
            self.plan = line
            _keep(self.plans, line["run"], line)
        elif kind == "mask":
            _keep(self.masks, line["id"], line)
        elif kind == "selection":
            _keep(self.selections, line.get("source", "/"), line)
        elif kind == "diagnostics":
            self._ill.pop(line["name"], None)
            if line["level"] != "ok":
                _keep(self._ill, line["name"], {"time_s": self._clock(), **line})
        elif kind == "picture":
            if len(line["image"]) <= MOST_PICTURE_CHARS:
                _keep(self.pictures, f"{line['source']} {line['what']}", line, MOST_PICTURES)
        elif kind == "services":
            self.services = line["services"][:MOST_NAMES]
        elif kind == "graph":
            self.fleets, self.looked = line["fleets"], True

    def position(self) -> str:
        """Return a text that changes whenever anything in the fleet moves on."""
        robots = [(r["id"], r["phase"], r["round"], r["progress"], r["samples"]) for r in self.robots.values()]
        return repr((self.fleet.get("run"), self.fleet.get("phase"), self.fleet.get("round"), robots))

    def finished(self, run: str) -> bool:
        """Return whether the models of a run are final."""
        return bool(self.plans.get(run, {}).get("finished")) and self.fleet.get("run") == run

    def losses(self, robot_id: str) -> list[float]:
        """Return a robot's last loss of each round of this run that was seen."""
        return [loss for _, loss in sorted(self._losses.get(robot_id, {}).items())]

    def losses_by_round(self) -> dict[int, dict[str, float]]:
        """Return each robot's last loss of each round of this run that was seen, by round."""
        found: dict[int, dict[str, float]] = {}
        for name, kept in self._losses.items():
            for number, loss in kept.items():
                found.setdefault(number, {})[name] = loss
        return dict(sorted(found.items()))

    def served(self) -> list[tuple[str, dict[str, Any]]]:
        """Return (inference node, its choice) of those that serve this run; of all where no fleet is known."""
        run = self.fleet.get("run")
        return [(source, line) for source, line in sorted(self.selections.items()) if run in (None, line["run"])]

    def shares(self, robot_id: str) -> str:
        """Return how many layers a robot's last update of this run shared, "3/12"; "" where all are."""
        mask = self.masks.get(robot_id)
        return "" if mask is None or mask["run"] != self.fleet.get("run") else f"{mask['shared']}/{mask['units']}"

    def deadline_left_s(self) -> float | None:
        """Return the time left for this round in seconds, None where there is no deadline."""
        plan, fleet = self.plan, self.fleet
        current = (plan.get("run"), plan.get("round")) == (fleet.get("run"), fleet.get("round"))
        if not plan.get("deadline_s") or not current or plan["finished"]:
            return None
        return float(max(0.0, plan["deadline_s"] - (self._clock() - plan["sent_s"])))

    def faults(self) -> list[Fault]:
        """Return what is wrong now, the worst first."""
        found = []
        if self.fleet.get("phase") == "failed":
            found.append(Fault("error", "aggregator", "the run failed; see its log"))
        for robot in self.fleet.get("robots", ()):
            if not robot["alive"]:
                found.append(Fault("warn", robot["id"], "away: no heartbeat"))
            if robot.get("quarantine"):
                found.append(Fault("error", robot["id"], robot["quarantine"]))
            elif robot.get("refused"):
                found.append(Fault("warn", robot["id"], f"refused {robot['refused']}: {robot.get('last_text', '')}"))
        for name, robot in self.robots.items():
            if robot["phase"] == "failed":
                found.append(Fault("error", name, robot["text"]))
        now_s = self._clock()
        for name, line in self._ill.items():
            if now_s - line["time_s"] < FAULT_S:
                level: Level = "error" if line["level"] == "error" else "warn"
                found.append(Fault(level, name.removesuffix(": state"), line["text"]))
        return sorted(found, key=lambda fault: (fault.level != "error", fault.where))

    def _begin(self, run: str) -> None:
        if run != self._run:
            self._run, self._losses = run, {}

    def _keep_loss(self, line: dict[str, Any]) -> None:
        if line["loss"] is None or not line["round"]:
            return
        # Until it hears of a new run, a robot still tells the round of the one before.
        if self.fleet and line["round"] > self.fleet["round"]:
            return
        kept = self._losses.get(line["id"], {})
        _keep(self._losses, line["id"], kept)
        kept[line["round"]] = line["loss"]
        if len(kept) > KEPT_ROUNDS:
            del kept[min(kept)]


def nearest(choice: dict[str, Any]) -> float | None:
    """Return the distance between a sequence and the nearest of the clusters that serve it; None where untold."""
    distances = choice["distances"]
    near = [distances[k] for k in choice["clusters"] if 0 <= k < len(distances) and distances[k] is not None]
    return min(near, default=None)


def _keep(table: dict[str, Any], name: str, newest: Any, most: int = 0) -> None:
    """Put in the newest word of a name; where there are too many names, the one silent longest goes."""
    table.pop(name, None)
    table[name] = newest
    if len(table) > (most or MOST_NAMES):
        del table[next(iter(table))]
