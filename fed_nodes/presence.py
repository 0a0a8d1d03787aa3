"""Whether an aggregator is heard on a fleet's topics, and whether there is more than one."""

import time
from collections.abc import Callable

from fed_msgs.msg import FleetStatus
from rclpy.node import Node

from fed_nodes import qos

#: A ``FleetStatus`` comes every second; after so long without one [s] its aggregator counts as gone.
HEARD_S = 5.0
#: Silence is told in these steps [s], so that whoever logs a changed text does it rarely.
STEPS_S = (10, 30, 60, 300, 1800, 3600, 21_600, 86_400)
#: A process that was killed counts as a publisher until DDS forgets it; two for longer than this [s] are two.
FORGOTTEN_S = 30.0
#: Time before the same warning is logged again [s].
WARN_EVERY_S = 30.0


class AggregatorPresence:
    """Tells when a robot hears no aggregator.

    Args:
        node: whose log it is.
        fleet: namespace of the fleet's topics.
        clock: monotonic time [s].

    Attributes:
        problem: one line for diagnostics, "" = all is well.
    """

    def __init__(self, node: Node, fleet: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._fleet, self._clock = node.get_logger(), fleet, clock
        self._heard_s = clock()
        self.problem = ""

    def heard(self) -> None:
        """The aggregator said something."""
        self._heard_s = self._clock()

    def look(self, *, needed: bool) -> None:
        """Judge, and log what changed. Called every second; where none is ``needed``, silence is no problem."""
        known, silent_s = self.problem, self._clock() - self._heard_s
        step = max((step for step in STEPS_S if step <= silent_s), default=0)
        self.problem = f"no aggregator on {self._fleet} for {step} s" if needed and step else ""
        if self.problem and self.problem != known:
            self._logger.warning(self.problem)
        elif known and not step:
            self._logger.info(f"an aggregator is on {self._fleet} again")

    def judged(self, level: str, text: str) -> tuple[str, str]:
        """Return level and text of diagnostics with the problem added."""
        if not self.problem:
            return level, text
        return "warn" if level == "ok" else level, f"{text}; {self.problem}"


class OtherAggregators:
    """Tells an aggregator of others on the same topics, which would share its robots' messages.

    Args:
        node: whose log it is.
        fleet: namespace of the fleet's topics.
        run: name of the own run.
        clock: monotonic time [s].

    Attributes:
        problem: one line for diagnostics, "" = it is alone.
    """

    def __init__(self, node: Node, fleet: str, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._node, self._fleet, self._run, self._clock = node, fleet, run, clock
        self._other, self._heard_s, self._alone_s = "", float("-inf"), clock()
        self._topic = f"{fleet}/status"
        node.create_subscription(FleetStatus, self._topic, self._on_status, qos.LATCHED)
        self.problem = ""

    def _on_status(self, msg: FleetStatus) -> None:
        if msg.run_id != self._run:
            self._other, self._heard_s = " ".join(msg.run_id.split())[:100], self._clock()

    def look(self) -> None:
        """Judge, and log what is wrong. Called every second."""
        now_s, self.problem = self._clock(), ""
        if self._node.count_publishers(self._topic) < 2:
            self._alone_s = now_s
        if now_s - self._heard_s < HEARD_S:
            self.problem = f"another aggregator on {self._fleet}: run {self._other}"
        elif now_s - self._alone_s > FORGOTTEN_S:
            self.problem = f"another aggregator on {self._fleet}: run {self._run}, as this one"
        if self.problem:
            advice = "; stop one of them, or give it another fleet_ns"
            self._node.get_logger().warning(self.problem + advice, throttle_duration_sec=WARN_EVERY_S)
