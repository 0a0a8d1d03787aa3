"""Robots that are set aside because one update after the other was refused."""

from collections.abc import Mapping

from fed_core.errors import Refusal

#: What counts against a robot: updates that are wrong in themselves. Late ones, doubles and the like are the network's.
OFFENCES = frozenset(
    {
        Refusal.NOT_FINITE,
        Refusal.WRONG_TENSORS,
        Refusal.TOO_LARGE,
        Refusal.BROKEN_BLOB,
        Refusal.WRONG_MODEL,
    }
)


class Quarantine:
    """Counts refused updates in a row and sets robots aside.

    Args:
        after: refused updates in a row after which a robot is set aside; 0 = never.
        held: robots that are set aside already, with the reason.
    """

    def __init__(self, after: int, held: Mapping[str, str]) -> None:
        self._after = after
        self._held = dict(held)
        self._in_a_row: dict[str, int] = {}

    def __contains__(self, robot_id: object) -> bool:
        return robot_id in self._held

    def why(self, robot_id: str) -> str:
        """Return why a robot is set aside; "" = it is not."""
        return self._held.get(robot_id, "")

    def accepted(self, robot_id: str) -> None:
        """Note a good update: the count starts again."""
        self._in_a_row.pop(robot_id, None)

    def refused(self, robot_id: str, code: Refusal, text: str) -> str:
        """Note a refused update; return the reason where this one sets the robot aside, else ""."""
        if code not in OFFENCES or not self._after or robot_id in self._held:
            return ""
        count = self._in_a_row[robot_id] = self._in_a_row.get(robot_id, 0) + 1
        if count < self._after:
            return ""
        updates = "an update was" if count == 1 else f"{count} updates in a row were"
        self._held[robot_id] = f"set aside: {updates} refused, the last one because: {text}"
        return self._held[robot_id]

    def readmit(self, robot_id: str) -> bool:
        """Take a robot back, its count at 0; return whether it was set aside."""
        self._in_a_row.pop(robot_id, None)
        return self._held.pop(robot_id, None) is not None
