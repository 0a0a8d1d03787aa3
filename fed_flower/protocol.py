"""What a server and its robots write into Flower's messages, beside the tensors.

Names of records: "arrays" (the model, as Flower's own strategies call it), "extras" and "extras.0", "extras.1", ...
(further tensors of the strategy), "metrics" (figures), "config" (the user's, with "server-round"), and "fed_perception"
(ours).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, ConfigRecordValues, MetricRecord, RecordDict

from fed_core.config import to_tree
from fed_core.errors import Refusal, RefusedError
from fed_core.roles.membership import is_run_id
from fed_core.roles.messages import Registration, RunConfig
from fed_core.types import PROTOCOL_VERSION, Array, Descriptor, Json
from fed_flower.records import arrays_of, from_record, to_record

ARRAYS, EXTRAS, METRICS, CONFIG, OURS = "arrays", "extras", "metrics", "config", "fed_perception"
DESCRIPTOR = "descriptor"
#: Prefix of a strategy's own numbers among the metrics of a reply.
_SCALAR = "scalar."


@dataclass(frozen=True)
class Order:
    """What a robot is asked to do in a round, without the tensors.

    Attributes:
        run_id: name of the run.
        run: what the whole run has in common.
        round: its number in the run, which after a restart differs from Flower's.
        loads: there is a model to start from.
        extras: key of each further set of tensors -> the record that holds it.
        values: numbers and text for the strategy's robot half.
    """

    run_id: str
    run: RunConfig
    round: int
    loads: bool
    extras: Mapping[str, str]
    values: Mapping[str, Json]


def run_record(run_id: str, run: RunConfig, kind: str) -> ConfigRecord:
    """Return what a robot must know to register: the run, and the kind of descriptor it has to send ("" = none)."""
    tree = {"protocol": PROTOCOL_VERSION, "run_id": run_id, "run": to_tree(run), "kind": kind}
    return ConfigRecord({"json": json.dumps(tree)})


def order_record(order: Order) -> ConfigRecord:
    """Return an order as a record; :func:`read_order` reads it."""
    tree = {"protocol": PROTOCOL_VERSION, **to_tree(order)}
    return ConfigRecord({"json": json.dumps(tree)})


def read_run(content: RecordDict) -> tuple[str, RunConfig, str]:
    """Return name and configuration of the run, and the kind of descriptor."""
    tree = _ours(content)
    try:
        return _run_id(tree), RunConfig(**tree["run"]), str(tree["kind"])
    except (KeyError, TypeError) as err:
        raise _not_understood("run", err) from None


def read_order(content: RecordDict) -> Order:
    """Return what :func:`order_record` wrote."""
    tree = _ours(content)
    try:
        return Order(
            run_id=_run_id(tree),
            run=RunConfig(**tree["run"]),
            round=int(tree["round"]),
            loads=bool(tree["loads"]),
            extras={str(key): str(name) for key, name in tree["extras"].items()},
            values=dict(tree["values"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise _not_understood("order", err) from None


def _run_id(tree: Mapping[str, Any]) -> str:
    """Return the name of the run, which becomes that of a folder here."""
    run_id = str(tree["run_id"])
    if not is_run_id(run_id):
        raise RefusedError(f"the server calls its run {run_id!r}; a name without / is needed", Refusal.BAD_NAME)
    return run_id


def _not_understood(what: str, err: Exception) -> RefusedError:
    text = f"the server's {what} is not understood ({type(err).__name__}: {err}); use one version on both sides"
    return RefusedError(text, Refusal.WRONG_VERSION)


def registration_record(registration: Registration) -> ConfigRecord:
    """Return a robot's answer to :func:`run_record`."""
    return ConfigRecord({"json": json.dumps({**to_tree(registration), "protocol": registration.protocol})})


def read_registration(content: RecordDict) -> Registration:
    """Return what :func:`registration_record` wrote."""
    try:
        return Registration(**_ours(content, protocol=False))
    except TypeError:
        raise RefusedError("the answer is no registration of a robot", Refusal.WRONG_VERSION) from None


def add_descriptor(answer: RecordDict, descriptor: Descriptor) -> None:
    """Put a robot's descriptor into its answer."""
    answer[DESCRIPTOR] = to_record(descriptor.tensors)
    told: dict[str, ConfigRecordValues] = {"kind": descriptor.kind, "num_frames": descriptor.num_frames}
    answer[f"{DESCRIPTOR}.about"] = ConfigRecord({**told, "encoder": descriptor.encoder})


def read_descriptor(content: RecordDict) -> Descriptor | None:
    """Return what :func:`add_descriptor` wrote; None where there is none."""
    about: Any = content.get(f"{DESCRIPTOR}.about")
    if about is None:
        return None
    tensors = from_record(arrays_of(content, DESCRIPTOR))
    try:
        return Descriptor(str(about["kind"]), tensors, int(about["num_frames"]), str(about["encoder"]))
    except (KeyError, TypeError, ValueError) as err:
        raise RefusedError(f"the descriptor cannot be read ({err})", Refusal.WRONG_VERSION) from None


@dataclass(frozen=True)
class Trained:
    """What a robot tells of its training, beside the tensors.

    Attributes:
        robot_id: sender.
        round: of the run.
        config_digest: of the run's configuration.
        num_samples: training samples.
        loss: mean training loss.
        seconds: of training.
        scalars: numbers of the strategy.
        mask: (units,) bool or None = everything is shared.
    """

    robot_id: str
    round: int
    config_digest: str
    num_samples: int
    loss: float
    seconds: float
    scalars: Mapping[str, float]
    mask: Array | None


def trained_records(trained: Trained) -> dict[str, ConfigRecord | MetricRecord]:
    """Return the records of a reply; :func:`read_trained` reads them."""
    mask = None if trained.mask is None else [int(unit) for unit in trained.mask]
    tree = {
        "robot_id": trained.robot_id, "round": trained.round, "config_digest": trained.config_digest, "mask": mask,
        "protocol": PROTOCOL_VERSION,
    }  # fmt: skip
    figures = {"num-examples": trained.num_samples, "loss": float(trained.loss), "seconds": float(trained.seconds)}
    scalars = {f"{_SCALAR}{name}": float(value) for name, value in trained.scalars.items()}
    return {OURS: ConfigRecord({"json": json.dumps(tree)}), METRICS: MetricRecord({**figures, **scalars})}


def read_trained(content: RecordDict) -> Trained:
    """Return what :func:`trained_records` wrote."""
    tree = _ours(content)
    metrics: Any = content.get(METRICS)
    try:
        figures = {name: float(metrics[name]) for name in metrics}
        return Trained(
            robot_id=str(tree["robot_id"]),
            round=int(tree["round"]),
            config_digest=str(tree["config_digest"]),
            num_samples=int(figures["num-examples"]),
            loss=figures["loss"],
            seconds=figures["seconds"],
            scalars={n.removeprefix(_SCALAR): value for n, value in figures.items() if n.startswith(_SCALAR)},
            mask=None if tree["mask"] is None else np.array(tree["mask"], bool),
        )
    except (KeyError, TypeError, ValueError) as err:
        text = f"the reply's figures cannot be read ({type(err).__name__}: {err}); use fed_flower's client app"
        raise RefusedError(text, Refusal.WRONG_VERSION) from None


def _ours(content: RecordDict, *, protocol: bool = True) -> dict[str, Any]:
    record: Any = content.get(OURS)
    try:
        tree: Any = json.loads(str(record["json"]))
        found = int(tree["protocol"])
    except (KeyError, TypeError, ValueError):
        text = f"the message has no record {OURS!r} of ours; both sides must run fed_flower"
        raise RefusedError(text, Refusal.WRONG_VERSION) from None
    if protocol and found != PROTOCOL_VERSION:
        text = f"protocol {found}, this side speaks {PROTOCOL_VERSION}; use one version on both sides"
        raise RefusedError(text, Refusal.WRONG_VERSION)
    return dict(tree)
