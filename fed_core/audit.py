"""Derives the rounds of a finished or running run again, from the updates that were kept, and compares.

A strategy's server half is a function of updates, memory and models, and the journal keeps what else it was told. So
everybody who has the run's folder can say whether the models in it are what its updates give.
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from fed_core.aggregation import AggregationJob, run_aggregation
from fed_core.bookkeeping import RunBook
from fed_core.errors import StoreError
from fed_core.roles.events import RoundOutcome
from fed_core.roles.messages import FleetPlan, RunConfig
from fed_core.store.blobs import BlobStore
from fed_core.store.journal import RoundRow, read_run
from fed_core.types import BlobRef


class Verdict(Enum):
    """What came out for a round."""

    SAME = "same"
    DIFFERENT = "different"
    DAMAGED = "damaged"
    NOT_KEPT = "not kept"


@dataclass(frozen=True)
class RoundCheck:
    """One round, compared.

    Attributes:
        round: its number; 0 = the start.
        verdict: what came out.
        text: what differs, is damaged or is missing; "" where all is the same.
        updates: updates that the round was made of.
    """

    round: int
    verdict: Verdict
    text: str = ""
    updates: int = 0


class Audit:
    """Opens a run to derive its rounds again; the run is only read.

    Args:
        folder: the run's folder.

    Raises:
        StoreError: there is no run, or it is of another version.
        UnknownNameError: its strategy is not known here.
    """

    def __init__(self, folder: Path) -> None:
        run_id, tree = read_run(folder / "journal.sqlite")
        try:
            run = RunConfig(**tree)
        except TypeError as err:
            raise StoreError(f"{folder} has another configuration than runs of this version: {err}") from err
        self._book = RunBook(folder, run_id, run)
        self.rounds = self._book.closed_rounds()

    def close(self) -> None:
        """Close the journal."""
        self._book.close()

    def checks(self) -> Iterator[RoundCheck]:
        """Yield every closed round, derived again from the one before as it was kept, in order."""
        before: RoundRow | None = None
        for row in self.rounds:
            yield self._check(row, before)
            before = row

    def _check(self, row: RoundRow, before: RoundRow | None) -> RoundCheck:
        job = self._book.plan_again(row, before)
        with tempfile.TemporaryDirectory(prefix="fedperc-verify-") as folder:
            scratch = BlobStore(Path(folder))
            found = self._bring(job, scratch)
            if found is None:
                found = self._compare(row, run_aggregation(job, self._book.strategy, scratch), scratch)
        verdict, text = found
        return RoundCheck(row.round, verdict, text, len(job.reports))

    def _bring(self, job: AggregationJob, scratch: BlobStore) -> tuple[Verdict, str] | None:
        """Link what the job reads into ``scratch``; return what is missing or damaged."""
        named = {f"model {key!r}": blob for key, blob in job.blobs.items()}
        for report in job.reports:
            named |= {f"{key} of robot {report.robot_id!r}": blob for key, blob in report.blobs.items()}
        if job.memory is not None:
            named["the strategy's memory"] = job.memory
        for what, blob in named.items():
            path = self._book.store.path(blob.digest)
            if not path.is_file():
                return Verdict.NOT_KEPT, f"{what}, blob {blob.digest[:12]}, was not kept"
            if not self._book.store.verify(blob.digest):
                return (
                    Verdict.DAMAGED,
                    f"{what}: the bytes of blob {blob.digest[:12]} are not those that it is named by",
                )
            link = scratch.path(blob.digest)
            if not link.exists():
                link.symlink_to(path.absolute())
        return None

    def _compare(self, row: RoundRow, derived: RoundOutcome, scratch: BlobStore) -> tuple[Verdict, str]:
        kept = FleetPlan.from_json(row.plan)
        for key in sorted({*kept.blobs, *derived.plan.blobs}):
            one, other = kept.blobs.get(key), derived.plan.blobs.get(key)
            if one is None or other is None:
                return Verdict.DIFFERENT, f"model {key!r} is only in the {'derived' if one is None else 'kept'} round"
            if one.digest != other.digest:
                return Verdict.DIFFERENT, f"model {key!r}: {self._difference(one, other, scratch)}"
            if self._book.store.has(one.digest) and not self._book.store.verify(one.digest):
                return Verdict.DAMAGED, f"model {key!r}: the bytes of blob {one.digest[:12]} were changed"
        pairs = {
            "the strategy's memory": (row.memory, derived.memory),
            "what inference chooses by": (kept.serving, derived.plan.serving),
            "the models for inference": (kept.models, derived.plan.models),
            "what robots start from": (kept.robots, derived.plan.robots),
            "clusters": (_plain(row.clusters), _plain(derived.clusters)),
        }
        other_than = [what for what, (one, other) in pairs.items() if one != other]
        return (Verdict.DIFFERENT, f"{other_than[0]} differ") if other_than else (Verdict.SAME, "")

    def _difference(self, kept: BlobRef, derived: BlobRef, scratch: BlobStore) -> str:
        """Return the first tensor that is another one, and by how much."""
        if not self._book.store.has(kept.digest):
            return f"the updates give {derived.digest[:12]}, the round has {kept.digest[:12]}"
        ours, theirs = scratch.open(derived.digest), self._book.store.open(kept.digest)
        for name in ours:
            if name not in theirs or ours[name].shape != theirs[name].shape or ours[name].dtype != theirs[name].dtype:
                return f"tensor {name!r} has another shape or type, or is missing"
            if not np.array_equal(ours[name], theirs[name]):
                gap = np.max(np.abs(ours[name].astype(np.float64) - theirs[name].astype(np.float64)))
                return f"tensor {name!r} is not what the updates give, largest difference {gap:.3g}"
        return "its tensors are equal, its file is not"


def _plain(clusters: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {robot: tuple(ids) for robot, ids in clusters.items()}
