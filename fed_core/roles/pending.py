"""Updates whose blobs are being read."""

from collections.abc import Collection

from fed_core.roles import events as ev
from fed_core.roles.messages import UpdateReport


class PendingUpdates:
    """At most one update of each robot, and which of its blobs are still missing."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[UpdateReport, set[str]]] = {}

    def report(self, robot_id: str) -> UpdateReport | None:
        """Return what is being read of a robot."""
        found = self._of.get(robot_id)
        return found[0] if found else None

    def read(self, report: UpdateReport) -> list[ev.Effect]:
        """Begin to read an update, in place of an older one of its robot."""
        wanted = {blob.digest: blob for blob in report.blobs.values()}
        stale = self.drop(report.robot_id, keep=set(wanted))
        self._of[report.robot_id] = (report, set(wanted))
        return [*stale, *(ev.FetchBlob(blob, report.robot_id) for blob in wanted.values())]

    def arrived(self, digest: str) -> list[UpdateReport]:
        """Note a blob; return the updates that are whole now."""
        whole = []
        for report, missing in self._of.values():
            if digest in missing:
                missing.discard(digest)
                if not missing:
                    whole.append(report)
        return whole

    def lost(self, digest: str) -> list[str]:
        """Note a blob that cannot be had; return the robots that need it."""
        losers = [robot_id for robot_id, (_, missing) in self._of.items() if digest in missing]
        for robot_id in losers:
            self._of[robot_id][1].discard(digest)
        return losers

    def done(self, robot_id: str) -> None:
        """Forget an update that was read and checked."""
        del self._of[robot_id]

    def drop(self, *robot_ids: str, keep: Collection[str] = ()) -> list[ev.Effect]:
        """Forget updates; fetches that nobody else waits for are cancelled."""
        gone = [self._of.pop(robot_id)[1] for robot_id in robot_ids if robot_id in self._of]
        wanted = set().union(keep, *(missing for _, missing in self._of.values()))
        return [ev.CancelFetch(digest) for digest in sorted(set().union(*gone) - wanted)]

    def drop_all(self) -> list[ev.Effect]:
        """Forget all updates."""
        return self.drop(*list(self._of))
