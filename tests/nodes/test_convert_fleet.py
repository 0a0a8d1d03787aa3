"""Messages of the fleet: what goes in comes out, and hostile ones are refused before anything is kept."""

import string
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fed_msgs.msg import BlobRef as BlobRefMsg
from fed_msgs.msg import RoundPlan
from hypothesis import given, settings
from hypothesis import strategies as st
from std_msgs.msg import Header

from fed_core.errors import Refusal, WireError
from fed_core.roles import messages as roles
from fed_core.roles.events import LoadModel
from fed_core.strategies.base import RobotPlan
from fed_core.types import BlobRef, Choice, Descriptor
from fed_nodes.convert import fleet

DIGEST = "0123456789abcdef" * 4
names = st.text(string.ascii_letters + string.digits + "_/", min_size=1, max_size=12)
numbers = st.floats(-1e6, 1e6, width=32)
counts = st.integers(0, 2**31 - 1)
blobs = st.builds(BlobRef, st.text("0123456789abcdef", min_size=64, max_size=64), st.integers(0, 2**63))
trees: Any = st.dictionaries(
    names, st.one_of(st.booleans(), counts, numbers, names, st.lists(numbers, max_size=3)), max_size=4
)


@st.composite
def plans(draw: Any) -> roles.FleetPlan:
    named = draw(st.dictionaries(names, blobs, min_size=1, max_size=4))
    keys = st.lists(st.sampled_from(sorted(named)), max_size=3).map(tuple)
    robots = draw(st.dictionaries(names, st.builds(RobotPlan, keys, keys, trees), max_size=4))
    config = roles.RunConfig(
        strategy=draw(names),
        strategy_options=draw(trees),
        task=draw(names),
        network=draw(names),
        network_options=draw(trees),
        train=draw(trees),
        total_rounds=draw(counts),
        seed=draw(counts),
    )
    return roles.FleetPlan(
        run_id=draw(names.filter(lambda name: "/" not in name)),
        config=config,
        round=draw(counts),
        finished=draw(st.booleans()),
        robots=robots,
        participants=tuple(robot for robot in robots if draw(st.booleans())),
        blobs=named,
        models=draw(keys),
        serving=draw(st.none() | blobs),
        deadline_s=draw(st.floats(0, 1e6)),
    )


@given(plans())
@settings(max_examples=60)
def test_plan_round_trip(plan: roles.FleetPlan) -> None:
    assert fleet.plan_from_msg(fleet.plan_to_msg(plan)) == published(plan)


def published(plan: roles.FleetPlan) -> roles.FleetPlan:
    return replace(plan, blobs={key: blob for key, blob in plan.blobs.items() if key in plan.named})


@given(plans(), names.map(lambda name: f"control of/{name}"), blobs)
@settings(max_examples=20)
def test_blobs_that_nobody_may_ask_for_are_not_published(plan: roles.FleetPlan, key: str, blob: BlobRef) -> None:
    """The last control of a robot is a gradient on its recordings: only the aggregator needs it."""
    more = replace(plan, blobs={**plan.blobs, key: blob})

    assert key not in plan.named
    assert key not in [ref.key for ref in fleet.plan_to_msg(more).blobs]
    assert fleet.plan_from_msg(fleet.plan_to_msg(more)) == published(plan)


reports = st.builds(
    roles.UpdateReport,
    robot_id=names,
    instance=names,
    run_id=names,
    round=counts,
    config_digest=names,
    num_samples=st.integers(1, 2**63),
    loss=numbers,
    seconds=numbers,
    blobs=st.fixed_dictionaries({"weights": blobs}, optional={"extras": blobs}),
    scalars=st.dictionaries(names, st.floats(allow_nan=False), max_size=5),
    mask=st.none() | st.lists(st.booleans(), min_size=1, max_size=70).map(lambda bits: np.array(bits, bool)),
    model_digest=names,
)


@given(reports)
@settings(max_examples=60)
def test_report_round_trip(report: roles.UpdateReport) -> None:
    back = fleet.report_from_msg(fleet.report_to_msg(report))
    digest = "" if report.mask is None else report.model_digest  # it is the mask's
    assert replace(back, mask=None) == replace(report, mask=None, model_digest=digest)
    assert (back.mask is None) == (report.mask is None)
    if report.mask is not None:
        np.testing.assert_array_equal(back.mask, report.mask)


@given(names, st.dictionaries(names, st.lists(numbers, max_size=5), max_size=3))
@settings(max_examples=60)
def test_descriptor_round_trip(kind: str, tensors: dict[str, list[float]]) -> None:
    arrays = {name: np.array(values, np.float32) for name, values in tensors.items()}
    message = roles.SequenceDescriptor("spot", "run", Descriptor(kind, arrays, 7, DIGEST))
    back = fleet.descriptor_from_msg(fleet.descriptor_to_msg(message))
    assert (back.robot_id, back.run_id) == ("spot", "run")
    assert (back.descriptor.kind, back.descriptor.num_frames, back.descriptor.encoder) == (kind, 7, DIGEST)
    assert list(back.descriptor.tensors) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.descriptor.tensors[name], array)


def test_status_round_trip() -> None:
    status = roles.RobotStatus("spot", "a1", roles.RobotPhase.TRAINING, 3, 0.5, 0.25, 12.5, 90, "busy")
    msg = fleet.status_to_msg(status, sent_bytes=5, received_bytes=6, disk_free_bytes=7)
    assert (msg.phase, msg.sent_bytes, msg.received_bytes, msg.disk_free_bytes) == (5, 5, 6, 7)
    assert fleet.status_from_msg(msg) == status
    msg.phase = 99
    with pytest.raises(WireError, match="robot 'spot' is in unknown phase 99"):
        fleet.status_from_msg(msg)


def test_fleet_status_round_trip() -> None:
    state = roles.RobotState("spot", True, True, False, (0, 2), 4, 1, Refusal.WRONG_ROUND, "late")
    status = roles.FleetStatus("run", "training", 2, 8, "fedepth", 3, (state,), "updates of spot")
    msg = fleet.fleet_to_msg(status, sent_bytes=1, received_bytes=2)
    assert (msg.sent_bytes, msg.received_bytes) == (1, 2)
    assert fleet.fleet_from_msg(msg) == status


@pytest.mark.parametrize("observer", [True, False])
def test_registration_round_trip(observer: bool) -> None:
    registration = roles.Registration(
        "spot", "a1", observer, 1, "0.1", "depth", "adabins_s", DIGEST, 90, "/spot/read_blob"
    )
    assert fleet.registration_from_request(fleet.registration_to_request(registration)) == registration


def plan_msg() -> RoundPlan:
    config = roles.RunConfig("fedavg", {}, "depth", "adabins_s", {}, {}, 8, 0)
    blob = BlobRef(DIGEST, 10)
    plan = roles.FleetPlan(
        "run", config, 1, False, {"spot": RobotPlan(("global",))}, ("spot",), {"global": blob}, ("global",)
    )
    return fleet.plan_to_msg(plan)


def test_selection_names_all_that_was_chosen() -> None:
    plan = fleet.plan_from_msg(plan_msg())
    choice = Choice(("global",), (1,), (0.5, 0.25), 0.3, True)
    msg = fleet.selection_to_msg(LoadModel("sequence_1", plan, choice, 8), Header(frame_id="camera"))
    assert (msg.header.frame_id, msg.sequence, msg.run_id, msg.round) == ("camera", "sequence_1", "run", 1)
    assert (msg.models, list(msg.clusters), list(msg.distances)) == (["global"], [1], [0.5, 0.25])
    assert msg.threshold == pytest.approx(0.3) and msg.fallback and msg.num_frames == 8
    assert len(msg.model_digest) == 64


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": 2}, "plan of schema 2, this robot reads 1"),
        ({"seed": 5}, "configuration does not match its digest"),
        ({"network_json": "{"}, "network_json is not valid JSON"),
        ({"train_json": "[1]"}, "train_json is not a JSON object"),
        ({"strategy_json": "[" * 60_000}, "strategy_json is not valid JSON"),
        ({"strategy_json": " " * 1_000_001}, "strategy_json of 1000001 bytes; at most 1000000"),
        ({"run_id": "../../other"}, "a plan of run '../../other', which can be no folder's name"),
        ({"run_id": ".."}, "a plan of run '..', which can be no"),
        ({"run_id": ""}, "a plan of run '', which can be no"),
        ({"models": ["other"]}, "names blobs that it does not list: other"),
        ({"blobs": [BlobRefMsg(key="global", digest="../../etc/passwd")]}, "blob 'global' is named '../../etc/passwd'"),
        ({"serving": BlobRefMsg(key="serving", digest="AB" * 32)}, "expected 64 hex digits"),
    ],
)
def test_hostile_plans(change: dict[str, Any], text: str) -> None:
    msg = plan_msg()
    for name, value in change.items():
        setattr(msg, name, value)
    with pytest.raises(WireError, match=text):
        fleet.plan_from_msg(msg)


def test_too_many_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MAX_ENTRIES", 2)
    msg = plan_msg()
    msg.blobs = [BlobRefMsg(key=str(number), digest=DIGEST) for number in range(3)]
    with pytest.raises(WireError, match="a message names 3 blobs; at most 2 are read") as caught:
        fleet.plan_from_msg(msg)
    assert caught.value.code is Refusal.TOO_LARGE


def descriptor_msg() -> Any:
    tensors = {"mean": np.ones(3, np.float32), "variance": np.ones(3, np.float32)}
    return fleet.descriptor_to_msg(roles.SequenceDescriptor("spot", "run", Descriptor("gaussian", tensors, 7, DIGEST)))


@pytest.mark.parametrize(
    ("change", "text", "code"),
    [
        ({"values": [1.0, 2.0, 3.0, 4.0, 5.0, float("nan")]}, "holds NaN or Inf", Refusal.NOT_FINITE),
        ({"values": [1.0, 2.0, 3.0, 4.0, 5.0, float("inf")]}, "holds NaN or Inf", Refusal.NOT_FINITE),
        ({"values": [1.0]}, "has 1 values, not 6", Refusal.BROKEN_BLOB),
        ({"lengths": [2**32 - 1, 7]}, "has 6 values, not 4294967302", Refusal.BROKEN_BLOB),
        ({"names": ["mean"]}, "malformed or too large", Refusal.TOO_LARGE),
        ({"names": ["mean", "mean"]}, "names 'mean' twice", Refusal.BROKEN_BLOB),
    ],
)
def test_hostile_descriptors(change: dict[str, Any], text: str, code: Refusal) -> None:
    msg = descriptor_msg()
    for name, value in change.items():
        setattr(msg, name, value)
    with pytest.raises(WireError, match=text) as caught:
        fleet.descriptor_from_msg(msg)
    assert caught.value.code is code


def report_msg() -> Any:
    report = roles.UpdateReport(
        "spot", "a1", "run", 1, DIGEST, 9, 0.5, 1.0, {"weights": BlobRef(DIGEST, 10)}, {"s": 1.0}
    )
    return fleet.report_to_msg(report)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scalar_names": []}, "names 0 of 1 scalars"),
        ({"blobs": []}, "expected weights, extras"),
        ({"blobs": [BlobRefMsg(key="weights", digest="x")]}, "expected 64 hex digits"),
        ({"num_samples": 0}, "counts 0 samples"),
    ],
)
def test_hostile_reports(change: dict[str, Any], text: str) -> None:
    msg = report_msg()
    for name, value in change.items():
        setattr(msg, name, value)
    with pytest.raises(WireError, match=text):
        fleet.report_from_msg(msg)


def test_mask_of_wrong_length() -> None:
    msg = report_msg()
    msg.mask.num_units, msg.mask.bits = 9, b"\xff"
    with pytest.raises(WireError, match="mask of 9 units has 1 bytes"):
        fleet.report_from_msg(msg)
    msg.mask.num_units = 2**32 - 1
    with pytest.raises(WireError, match="4294967295 units; at most"):
        fleet.report_from_msg(msg)
