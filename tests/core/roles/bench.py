"""One aggregator on a bench: fed event by event, its effects looked at."""

from dataclasses import replace
from typing import Any

from fed_core.errors import Refusal
from fed_core.roles import events as ev
from fed_core.roles.aggregator import Aggregator
from fed_core.roles.membership import AggregatorConfig
from fed_core.roles.messages import (
    FleetPlan,
    FleetStatus,
    Registration,
    RegistrationReply,
    RobotState,
    UpdateReport,
)
from tests.core.roles.fake_fleet import RUN, SIGNATURE, blob, plan_after


def registration(robot_id: str = "ana", **changes: Any) -> Registration:
    known = Registration(robot_id, f"{robot_id}-disk", False, 1, "0", "depth", "toy", SIGNATURE.digest, 10)
    return replace(known, **changes)


class Bench:
    """An aggregator with its last effects, and a clock."""

    def __init__(self, *, kind: str | None = None, run: Any = RUN, snapshot: Any = None, **options: Any) -> None:
        self.run, self.now_s = run, 0.0
        config = AggregatorConfig(**{"min_robots": 2, "round_deadline_s": 60.0, **options})
        self.role = Aggregator(config, "run", run, descriptor=kind, snapshot=snapshot)
        self.effects: list[Any] = []

    def feed(self, event: ev.Event, after_s: float = 0.0) -> list[Any]:
        self.now_s += after_s
        self.effects = self.role.handle(event, self.now_s)
        return self.effects

    def one(self, kind: type[Any]) -> Any:
        (found,) = [effect for effect in self.effects if isinstance(effect, kind)]
        return found

    def kinds(self) -> set[str]:
        return {type(effect).__name__ for effect in self.effects}

    @property
    def status(self) -> FleetStatus:
        self.feed(ev.Tick())
        return self.one(ev.PublishFleetStatus).status

    def robot(self, robot_id: str = "ana") -> RobotState:
        return next(robot for robot in self.status.robots if robot.robot_id == robot_id)

    def register(self, robot_id: str = "ana", **changes: Any) -> RegistrationReply:
        self.feed(registration(robot_id, **changes))
        return self.one(ev.ReplyRegistration).reply

    def ready(self) -> "Bench":
        self.feed(ev.InitialModel(blob("initial"), SIGNATURE))
        return self

    def outcome(self) -> FleetPlan:
        """Answer the aggregation that was just asked for, and return the new plan."""
        asked = self.one(ev.StartAggregation)
        robots = [member.robot_id for member in self.status.robots if member.described]
        plan = plan_after(self.run, asked, robots)
        self.feed(ev.RoundOutcome(plan, blob("memory"), {}, {}))
        return plan

    def training(self) -> FleetPlan:
        """Bring "ana" and "ben" into round 1."""
        self.ready()
        self.register("ana")
        self.register("ben")
        return self.outcome()

    def count(self, report: UpdateReport) -> None:
        self.feed(report)
        for wanted in report.blobs.values():
            self.feed(ev.BlobReady(wanted.digest))
        self.feed(ev.UpdateChecked(report, Refusal.ACCEPTED))

    def assert_refused(self, code: Refusal, words: str, robot_id: str = "ana") -> None:
        """The last message was dropped with this code, in the log and in the robot's state."""
        log = self.one(ev.Log)
        assert (log.level, code.name in log.text, words in log.text) == ("warning", True, True), log.text
        robot = self.robot(robot_id)
        assert (robot.refused, robot.last_code) == (1, code)
        assert words in robot.last_text
