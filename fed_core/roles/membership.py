"""Who belongs to a fleet: the aggregator's options, its members, and whom it refuses."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fed_core.config import check, option
from fed_core.errors import ConfigError, Refusal
from fed_core.roles.events import InitialModel, RoundOutcome
from fed_core.roles.messages import FleetPlan, Registration, RobotState, RunConfig, UpdateReport
from fed_core.types import PROTOCOL_VERSION, Descriptor, ModelSignature

_ROBOT_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
ROBOT_ID_RULE = "a robot id is letters, digits and _, starts with a letter, at most 63 long"
_RUN_ID = re.compile(r"[^/\0.][^/\0]{0,99}")  # no path, and no hidden folder


@dataclass(frozen=True)
class AggregatorConfig:
    """Options of one aggregator (``config/aggregator.yaml``)."""

    min_robots: int = option(2, help="robots that must be registered before round 1", unit="count", low=1, high=100_000)
    min_updates: int = option(
        1, help="updates without which a round never closes", unit="count", low=1, high=100_000, live=True
    )
    round_deadline_s: float = option(
        600.0, help="time for one round; 0 = none", unit="s", low=0.0, high=604_800.0, live=True
    )
    liveness_s: float = option(
        10.0, help="silence after which a robot counts as away", unit="s", low=1.0, high=3600.0, live=True
    )
    max_update_bytes: int = option(
        4_000_000_000, help="largest update that is read", unit="bytes", low=1, high=100_000_000_000
    )
    quarantine_after: int = option(
        5,
        help="refused updates in a row after which a robot is set aside; 0 = never",
        unit="count",
        low=0,
        high=100_000,
    )
    keep_updates: bool = option(
        False, help="keep all updates and models of all rounds, so that `fedperc verify` can derive the run again"
    )

    def __post_init__(self) -> None:
        check(self)
        if self.min_updates > self.min_robots:
            text = f"AggregatorConfig.min_updates is {self.min_updates}, more than min_robots ({self.min_robots})"
            raise ConfigError(f"{text}: a round might never close; lower min_updates or raise min_robots")


@dataclass
class Member:
    """A registered robot."""

    registration: Registration
    descriptor: Descriptor | None = None
    heard_s: float = 0.0
    updates: int = 0
    last_round: int = 0
    refused: int = 0
    refused_before: int = 0  # when the last round closed
    last_code: Refusal = Refusal.ACCEPTED
    last_text: str = ""

    def state(
        self, *, alive: bool, described: bool, reported: bool, clusters: tuple[int, ...], quarantine: str
    ) -> RobotState:
        """Return what the fleet is told of it."""
        return RobotState(
            robot_id=self.registration.robot_id,
            alive=alive,
            described=described,
            reported=reported,
            clusters=clusters,
            updates=self.updates,
            refused=self.refused,
            last_code=self.last_code,
            last_text=self.last_text,
            quarantine=quarantine,
        )


@dataclass(frozen=True)
class Snapshot:
    """What the journal gives back after a restart."""

    initial: InitialModel | None = None
    members: tuple[tuple[Registration, Descriptor | None], ...] = ()
    plan: FleetPlan | None = None
    clusters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reports: tuple[UpdateReport, ...] = ()
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # robot -> updates, last round
    quarantine: Mapping[str, str] = field(default_factory=dict)  # robot -> why it is set aside

    def restored(self, now_s: float) -> dict[str, Member]:
        """Return the members; they count as heard at ``now_s``, so that a restart makes nobody seem away."""
        members = {}
        for registration, descriptor in self.members:
            updates, last_round = self.counts.get(registration.robot_id, (0, 0))
            members[registration.robot_id] = Member(registration, descriptor, now_s, updates, last_round)
        return members


def is_robot_id(text: str) -> bool:
    """Return whether ``text`` can name a robot: it becomes a ROS namespace and the name of a folder."""
    return _ROBOT_ID.fullmatch(text) is not None


def is_run_id(text: str) -> bool:
    """Return whether ``text`` can name a run: it becomes the name of a folder, here and on the robots."""
    return _RUN_ID.fullmatch(text) is not None


def judge_registration(
    event: Registration, run: RunConfig, model: ModelSignature | None, *, rival: bool, quarantine: str = ""
) -> tuple[Refusal, str]:
    """Return ACCEPTED or why not, with the reason in words.

    Args:
        event: the registration.
        run: what the run has in common.
        model: signature of the run's model, None while it is being built.
        rival: another live installation holds the same robot id.
        quarantine: why the robot is set aside; "" = it is not.
    """
    if not is_robot_id(event.robot_id):
        return Refusal.BAD_NAME, ROBOT_ID_RULE
    if event.protocol != PROTOCOL_VERSION:
        return Refusal.WRONG_VERSION, f"protocol {event.protocol}, this aggregator speaks {PROTOCOL_VERSION}"
    if event.observer:
        return Refusal.ACCEPTED, "welcome"
    if quarantine:
        return Refusal.QUARANTINED, quarantine
    if event.task != run.task:
        return Refusal.WRONG_TASK, f"task {event.task!r}, this run trains {run.task!r}"
    if model is None:
        return Refusal.NOT_READY, "the aggregator is still building its initial model; ask again"
    if event.model_digest != model.digest:
        return Refusal.WRONG_MODEL, (
            f"model {event.architecture!r} ({event.model_digest[:12]}), "
            f"this run trains {run.network!r} ({model.digest[:12]})"
        )
    if event.num_samples <= 0:
        return Refusal.NO_SAMPLES, "no training sample"
    if rival:
        return Refusal.DUPLICATE_ROBOT, f"a live robot is already called {event.robot_id!r}; choose another id"
    return Refusal.ACCEPTED, "welcome"


def with_refusals(outcome: RoundOutcome, members: Mapping[str, Member]) -> RoundOutcome:
    """Return the outcome with "refused" in its log: whose messages were dropped since the last round, and why last."""
    found = {}
    for robot_id, member in sorted(members.items()):
        count, member.refused_before = member.refused - member.refused_before, member.refused
        if count:
            found[robot_id] = {"count": count, "code": member.last_code.name, "text": member.last_text}
    return replace(outcome, log={**outcome.log, "refused": found}) if found else outcome
