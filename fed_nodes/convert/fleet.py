"""``fed_msgs`` to the roles' messages and back. Sizes are capped before anything is kept."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from fed_msgs.msg import BlobRef as BlobRefMsg
from fed_msgs.msg import FleetStatus as FleetStatusMsg
from fed_msgs.msg import LayerMask as LayerMaskMsg
from fed_msgs.msg import RobotPlan as RobotPlanMsg
from fed_msgs.msg import RobotState as RobotStateMsg
from fed_msgs.msg import RobotStatus as RobotStatusMsg
from fed_msgs.msg import RoundPlan as RoundPlanMsg
from fed_msgs.msg import Selection as SelectionMsg
from fed_msgs.msg import SequenceDescriptor as SequenceDescriptorMsg
from fed_msgs.msg import UpdateReport as UpdateReportMsg
from fed_msgs.srv import RegisterRobot
from std_msgs.msg import Header

from fed_core.config import to_tree
from fed_core.errors import Refusal, WireError
from fed_core.roles import messages as roles
from fed_core.roles.events import LoadModel
from fed_core.roles.membership import is_run_id
from fed_core.roles.messages import MAX_ENTRIES
from fed_core.strategies.base import RobotPlan
from fed_core.types import Array, BlobRef, Descriptor

PLAN_SCHEMA = 1
#: Largest JSON text that a message may carry [bytes] and most values in a descriptor [count].
MAX_JSON_BYTES = 1_000_000
MAX_DESCRIPTOR_VALUES = 1_000_000


def plan_to_msg(plan: roles.FleetPlan) -> RoundPlanMsg:
    """Return the latched message of a plan; blobs that nobody may ask for are left out."""
    config = plan.config
    msg = RoundPlanMsg(
        schema=PLAN_SCHEMA,
        run_id=plan.run_id,
        round=plan.round,
        total_rounds=config.total_rounds,
        phase=RoundPlanMsg.FINISHED if plan.finished else RoundPlanMsg.TRAINING,
        strategy=config.strategy,
        strategy_json=_dumps(config.strategy_options),
        task=config.task,
        network=config.network,
        network_json=_dumps(config.network_options),
        train_json=_dumps(config.train),
        config_digest=config.digest,
        seed=config.seed,
        deadline_s=plan.deadline_s,
        blobs=_blobs_to_msg({key: blob for key, blob in plan.blobs.items() if key in plan.named}),
        models=list(plan.models),
    )
    if plan.serving is not None:
        msg.serving = BlobRefMsg(key="serving", digest=plan.serving.digest, size_bytes=plan.serving.size_bytes)
    msg.robots = [
        RobotPlanMsg(
            robot_id=robot_id,
            participates=robot_id in plan.participants,
            load=list(entry.load),
            extras=list(entry.extras),
            values_json=_dumps(entry.values),
        )
        for robot_id, entry in plan.robots.items()
    ]
    return msg


def plan_from_msg(msg: RoundPlanMsg) -> roles.FleetPlan:
    """Return the plan of a message; one that does not hold together raises :class:`WireError`."""
    if msg.schema != PLAN_SCHEMA:
        raise WireError(f"plan of schema {msg.schema}, this robot reads {PLAN_SCHEMA}", Refusal.WRONG_VERSION)
    _cap(len(msg.robots), "robots")
    if not is_run_id(msg.run_id):  # robots have a folder of that name
        raise WireError(f"a plan of run {msg.run_id[:40]!r}, which can be no folder's name")
    config = roles.RunConfig(
        strategy=msg.strategy,
        strategy_options=_loads(msg.strategy_json, "strategy_json"),
        task=msg.task,
        network=msg.network,
        network_options=_loads(msg.network_json, "network_json"),
        train=_loads(msg.train_json, "train_json"),
        total_rounds=msg.total_rounds,
        seed=msg.seed,
    )
    if config.digest != msg.config_digest:
        raise WireError("the plan's configuration does not match its digest", Refusal.WRONG_VERSION)
    blobs = _blobs_from_msg(msg.blobs)
    robots = {
        r.robot_id: RobotPlan(tuple(r.load), tuple(r.extras), _loads(r.values_json, "values_json")) for r in msg.robots
    }
    serving = _blob_from_msg(msg.serving) if msg.serving.digest else None
    plan = roles.FleetPlan(
        run_id=msg.run_id,
        config=config,
        round=msg.round,
        finished=msg.phase == RoundPlanMsg.FINISHED,
        robots=robots,
        participants=tuple(r.robot_id for r in msg.robots if r.participates),
        blobs=blobs,
        models=tuple(msg.models),
        serving=serving,
        deadline_s=msg.deadline_s,
    )
    missing = sorted(plan.named - set(blobs))
    if missing:
        raise WireError(f"the plan names blobs that it does not list: {', '.join(missing[:5])}")
    return plan


def descriptor_to_msg(message: roles.SequenceDescriptor) -> SequenceDescriptorMsg:
    """Return the latched message of a descriptor."""
    found = message.descriptor
    flat = [np.asarray(array, np.float32).ravel() for array in found.tensors.values()]
    return SequenceDescriptorMsg(
        robot_id=message.robot_id,
        run_id=message.run_id,
        kind=found.kind,
        encoder=found.encoder,
        num_frames=found.num_frames,
        names=list(found.tensors),
        lengths=[part.size for part in flat],
        values=np.concatenate(flat).tolist() if flat else [],
    )


def descriptor_from_msg(msg: SequenceDescriptorMsg) -> roles.SequenceDescriptor:
    """Return the descriptor of a message."""
    if len(msg.values) > MAX_DESCRIPTOR_VALUES or len(msg.names) != len(msg.lengths):
        raise WireError(f"descriptor of {msg.robot_id!r} is malformed or too large", Refusal.TOO_LARGE)
    if sum(msg.lengths) != len(msg.values):
        raise WireError(f"descriptor of {msg.robot_id!r} has {len(msg.values)} values, not {sum(msg.lengths)}")
    twice = [name for name, count in Counter(msg.names).items() if count > 1]
    if twice:
        raise WireError(f"descriptor of {msg.robot_id!r} names {twice[0]!r} twice")
    values = np.asarray(msg.values, np.float32)
    if not np.isfinite(values).all():
        raise WireError(f"descriptor of {msg.robot_id!r} holds NaN or Inf", Refusal.NOT_FINITE)
    ends = np.cumsum(msg.lengths)
    parts = np.split(values, ends[:-1]) if len(ends) else []
    tensors = dict(zip(msg.names, parts, strict=True))
    return roles.SequenceDescriptor(
        msg.robot_id, msg.run_id, Descriptor(msg.kind, tensors, int(msg.num_frames), msg.encoder)
    )


def report_to_msg(report: roles.UpdateReport) -> UpdateReportMsg:
    """Return the latched message of an update's manifest."""
    return UpdateReportMsg(
        robot_id=report.robot_id,
        instance=report.instance,
        run_id=report.run_id,
        round=report.round,
        config_digest=report.config_digest,
        num_samples=report.num_samples,
        loss=report.loss,
        seconds=report.seconds,
        blobs=_blobs_to_msg(report.blobs),
        scalar_names=list(report.scalars),
        scalars=[float(value) for value in report.scalars.values()],
        mask=mask_to_msg(report, report.mask),
    )


def report_from_msg(msg: UpdateReportMsg) -> roles.UpdateReport:
    """Return the manifest of a message."""
    _cap(len(msg.scalars), "scalars")
    if len(msg.scalar_names) != len(msg.scalars):
        raise WireError(f"report of {msg.robot_id!r} names {len(msg.scalar_names)} of {len(msg.scalars)} scalars")
    return roles.UpdateReport(
        robot_id=msg.robot_id,
        instance=msg.instance,
        run_id=msg.run_id,
        round=msg.round,
        config_digest=msg.config_digest,
        num_samples=msg.num_samples,
        loss=msg.loss,
        seconds=msg.seconds,
        blobs=_blobs_from_msg(msg.blobs),
        scalars=dict(zip(msg.scalar_names, msg.scalars, strict=True)),
        mask=_mask_from_msg(msg.mask),
        model_digest=msg.mask.model_digest,
    )


def mask_to_msg(report: roles.UpdateReport, mask: Array | None) -> LayerMaskMsg:
    """Return the bits of a mask; an empty message where everything is shared."""
    if mask is None:
        return LayerMaskMsg()
    return LayerMaskMsg(
        robot_id=report.robot_id,
        run_id=report.run_id,
        round=report.round,
        model_digest=report.model_digest,
        num_units=len(mask),
        bits=np.packbits(np.asarray(mask, bool), bitorder="little").tobytes(),
    )


def _mask_from_msg(msg: LayerMaskMsg) -> Array | None:
    if msg.num_units == 0:
        return None
    _cap(msg.num_units, "units")
    if len(msg.bits) != (msg.num_units + 7) // 8:
        raise WireError(f"mask of {msg.num_units} units has {len(msg.bits)} bytes")
    return np.unpackbits(np.asarray(msg.bits, np.uint8), count=msg.num_units, bitorder="little").astype(bool)


def status_to_msg(status: roles.RobotStatus, **traffic: int) -> RobotStatusMsg:
    """Return a robot's heartbeat; ``traffic`` holds the byte counters of the message."""
    fields = {**to_tree(status), "phase": int(status.phase), **traffic}
    return RobotStatusMsg(**fields)


def status_from_msg(msg: RobotStatusMsg) -> roles.RobotStatus:
    """Return the heartbeat of a message."""
    try:
        phase = roles.RobotPhase(msg.phase)
    except ValueError as err:
        raise WireError(f"robot {msg.robot_id!r} is in unknown phase {msg.phase}", Refusal.WRONG_VERSION) from err
    return roles.RobotStatus(
        robot_id=msg.robot_id,
        instance=msg.instance,
        phase=phase,
        round=msg.round,
        progress=msg.progress,
        loss=msg.loss,
        samples_per_s=msg.samples_per_s,
        num_samples=msg.num_samples,
        text=msg.text,
    )


def fleet_to_msg(status: roles.FleetStatus, *, sent_bytes: int, received_bytes: int) -> FleetStatusMsg:
    """Return the latched state of the fleet."""
    robots = [
        RobotStateMsg(**{**vars(state), "clusters": list(state.clusters), "last_code": int(state.last_code)})
        for state in status.robots
    ]
    return FleetStatusMsg(**{**vars(status), "robots": robots}, sent_bytes=sent_bytes, received_bytes=received_bytes)


def fleet_from_msg(msg: FleetStatusMsg) -> roles.FleetStatus:
    """Return the fleet's state of a message."""
    _cap(len(msg.robots), "robots")
    states = tuple(
        roles.RobotState(
            robot_id=r.robot_id,
            alive=r.alive,
            described=r.described,
            reported=r.reported,
            clusters=tuple(r.clusters),
            updates=r.updates,
            refused=r.refused,
            last_code=Refusal(r.last_code),
            last_text=r.last_text,
            quarantine=r.quarantine,
        )
        for r in msg.robots
    )
    return roles.FleetStatus(
        run_id=msg.run_id,
        phase=msg.phase,
        round=msg.round,
        total_rounds=msg.total_rounds,
        strategy=msg.strategy,
        expected_robots=msg.expected_robots,
        robots=states,
        waiting_for=msg.waiting_for,
    )


def selection_to_msg(effect: LoadModel, first: Header) -> SelectionMsg:
    """Return the latched message of a choice; ``first`` is the header of the sequence's first image."""
    plan, choice = effect.plan, effect.choice
    digests = sorted(plan.blobs[key].digest for key in choice.keys)
    return SelectionMsg(
        header=first,
        sequence=effect.sequence,
        run_id=plan.run_id,
        round=plan.round,
        models=list(choice.keys),
        clusters=list(choice.clusters),
        distances=[float(distance) for distance in choice.distances],
        threshold=float(choice.threshold),
        fallback=choice.fallback,
        num_frames=effect.num_frames,
        model_digest=hashlib.sha256("".join(digests).encode()).hexdigest(),
    )


def registration_to_request(registration: roles.Registration) -> RegisterRobot.Request:
    """Return the service request of a registration."""
    fields = {**vars(registration)}
    observer = fields.pop("observer")
    role = RegisterRobot.Request.OBSERVER if observer else RegisterRobot.Request.ROBOT
    return RegisterRobot.Request(role=role, **fields)


def registration_from_request(request: RegisterRobot.Request) -> roles.Registration:
    """Return the registration of a service request."""
    return roles.Registration(
        robot_id=request.robot_id,
        instance=request.instance,
        observer=request.role == RegisterRobot.Request.OBSERVER,
        protocol=request.protocol,
        software=request.software,
        task=request.task,
        architecture=request.architecture,
        model_digest=request.model_digest,
        num_samples=request.num_samples,
        blob_service=request.blob_service,
    )


def _blobs_to_msg(blobs: Mapping[str, BlobRef]) -> list[BlobRefMsg]:
    return [BlobRefMsg(key=key, digest=blob.digest, size_bytes=blob.size_bytes) for key, blob in blobs.items()]


def _blobs_from_msg(messages: Iterable[BlobRefMsg]) -> dict[str, BlobRef]:
    messages = list(messages)
    _cap(len(messages), "blobs")
    return {msg.key: _blob_from_msg(msg) for msg in messages}


def _blob_from_msg(msg: BlobRefMsg) -> BlobRef:
    if len(msg.digest) != 64 or set(msg.digest) - set("0123456789abcdef"):
        raise WireError(f"blob {msg.key!r} is named {msg.digest[:70]!r}; expected 64 hex digits")
    return BlobRef(msg.digest, int(msg.size_bytes))


def _cap(count: int, what: str) -> None:
    if count > MAX_ENTRIES:
        raise WireError(f"a message names {count} {what}; at most {MAX_ENTRIES} are read", Refusal.TOO_LARGE)


def _dumps(tree: Any) -> str:
    return json.dumps(to_tree(tree), sort_keys=True)


def _loads(text: str, where: str) -> dict[str, Any]:
    if len(text) > MAX_JSON_BYTES:
        raise WireError(f"{where} of {len(text)} bytes; at most {MAX_JSON_BYTES} are read", Refusal.TOO_LARGE)
    try:
        tree = json.loads(text or "{}")
    except (ValueError, RecursionError) as err:  # brackets nested too deep end in the latter
        raise WireError(f"{where} is not valid JSON") from err
    if not isinstance(tree, dict):
        raise WireError(f"{where} is not a JSON object")
    return tree
