"""A robot that sends rubbish over DDS is set aside, stays so when the aggregator is killed, and is taken back."""

import time

import numpy as np
import pytest
from fed_msgs.msg import FleetStatus, RobotState, RoundPlan
from std_srvs.srv import Trigger

from fed_core.errors import Refusal
from fed_core.wire.codec import open_tensors
from fed_nodes import qos
from tests.ros.fleets import NETWORK, Fleet, Watcher
from tests.ros.liar import Liar

pytestmark = pytest.mark.timeout(240)
STATUS, READMIT = "/fleet/status", "/fleet/readmit/liar"


def liar_of(status: FleetStatus) -> RobotState:
    return next((robot for robot in status.robots if robot.robot_id == "liar"), RobotState())


def take_back(watcher: Watcher) -> str:
    """Call the service until it answers: the killed aggregator seems to serve it for as long as its lease lasts."""
    client = watcher.node.create_client(Trigger, READMIT)
    calls = []

    def answered() -> bool:
        if client.service_is_ready() and (not calls or time.monotonic() - calls[-1][0] > 3.0):
            calls.append((time.monotonic(), client.call_async(Trigger.Request())))
        return any(future.done() for _, future in calls)

    watcher.until(answered, 60.0)
    (text,) = {future.result().message for _, future in calls if future.done()}
    return str(text)


def test_rubbish_sets_a_robot_aside_until_an_operator_takes_it_back(fleet: Fleet) -> None:
    from fed_models import build, signature

    digest = signature(build("adabins_s", NETWORK), "adabins_s").digest
    watcher = fleet.watcher
    watcher.watch(FleetStatus, STATUS, qos.LATCHED)
    watcher.watch(RoundPlan, "/fleet/round", qos.LATCHED)
    options = {"min_robots": 1, "quarantine_after": 3, "rounds": 1}
    aggregator = fleet.aggregator(**options)
    liar = Liar(fleet, "liar", "depth", "adabins_s")
    try:
        liar.register(digest)
        plan = watcher.wait("/fleet/round", lambda m: m.round == 1, 90.0)
        model = open_tensors(fleet.folder / "aggregator" / "tiny" / "blobs" / plan.blobs[0].digest)
        good = {name: np.array(model[name]) for name in model}
        spoiled = next(name for name in good if good[name].dtype == np.float32 and good[name].size > 1)
        for turn in (1, 2, 3):
            bad = {**good, spoiled: good[spoiled].copy()}
            bad[spoiled].flat[turn] = np.nan
            liar.report(plan, bad)
            status = watcher.wait(STATUS, lambda m, turn=turn: liar_of(m).refused == turn, 60.0)
            assert liar_of(status).last_code == Refusal.NOT_FINITE
        status = watcher.wait(STATUS, lambda m: bool(liar_of(m).quarantine), 30.0)
        assert liar_of(status).quarantine.startswith(
            "set aside: 3 updates in a row were refused, the last one because: "
        )
        assert spoiled in liar_of(status).quarantine
        aggregator.wait_line(r".*\[ERROR\].*robot 'liar' is set aside: 3 updates in a row were refused")

        aggregator.kill()
        aggregator = fleet.aggregator(**options)
        aggregator.wait_line(r".*run tiny resumes in round 1", 60.0)
        assert take_back(watcher) == "liar is taken back; it trains again from the next round on"
        watcher.until(lambda: not liar_of(watcher.messages[STATUS][-1]).quarantine, 30.0)
        watcher.until(lambda: not watcher.node.count_services(READMIT), 30.0)
        liar.register(digest)
        liar.report(plan, good)
        watcher.wait(STATUS, lambda m: m.phase == "finished", 60.0)
    finally:
        liar.channel.close()
