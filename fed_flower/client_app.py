"""A Flower client app around our trainer: it registers, describes its samples, and trains when it is asked to."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fed_core import __version__, requests
from fed_core.errors import FedError
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, Registration
from fed_core.store.blobs import BlobStore
from fed_core.strategies.base import RobotPlan
from fed_core.training.jobs import Toolbox, run_job
from fed_core.types import PROTOCOL_VERSION, BlobRef
from fed_flower import protocol
from fed_flower.records import arrays_of, file_record, store_record, to_record
from fed_flower.robot_state import pack_state, unpack_state

#: Name of every installation: Flower tells its nodes apart itself.
INSTANCE = "flower"
#: Flower's code for an app that failed; the text says why.
_FAILED = 2


@dataclass(frozen=True)
class FlowerRobot:
    """The robot that a Flower node stands for.

    Attributes:
        robot_id: its name in the fleet, the same after every restart.
        samples: its training samples.
        threads: CPU threads of training.
        device: "cpu", "cuda" or "auto".
    """

    robot_id: str
    samples: requests.Samples
    threads: int = 1
    device: str = "auto"


RobotOf = Callable[[Context], FlowerRobot]


def client_app(robot_of: RobotOf | None = None, *, toolbox: Callable[[], Toolbox] | None = None) -> ClientApp:
    """Return a client app for :class:`~fed_flower.strategy.FedPerceptionStrategy`.

    Args:
        robot_of: who a node is and where its samples are; default: :func:`fed_flower.app_config.robot_of`, which reads
            a fleet file.
        toolbox: networks and encoder; default: those of ``fed_models``.
    """
    from fed_flower import app_config

    find, tools = robot_of or app_config.robot_of, toolbox or default_toolbox
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return _answer(message, lambda: register(message.content, find(context), tools()))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return _answer(message, lambda: train_round(message.content, context, find(context), tools()))

    return app


def default_toolbox() -> Toolbox:
    """Return networks and encoder of ``fed_models``."""
    from fed_models.toolbox import toolbox

    return toolbox()


def _answer(message: Message, work: Callable[[], RecordDict]) -> Message:
    """Return the reply; a known mistake travels as its one line, not as a traceback."""
    try:
        return Message(work(), reply_to=message)
    except FedError as err:
        return Message(Error(_FAILED, str(err)), reply_to=message)


def register(content: RecordDict, robot: FlowerRobot, toolbox: Toolbox) -> RecordDict:
    """Count the robot's samples and describe them, if the strategy asks for that."""
    _, run, kind = protocol.read_run(content)
    count = requests.count_samples(robot.samples, run.task, run.network, run.network_options)
    ready: Any = _work(count, toolbox)
    registration = Registration(
        robot_id=robot.robot_id,
        instance=INSTANCE,
        observer=False,
        protocol=PROTOCOL_VERSION,
        software=__version__,
        task=run.task,
        architecture=run.network,
        model_digest=ready.model_digest,
        num_samples=ready.num_samples,
    )
    answer = RecordDict({protocol.OURS: protocol.registration_record(registration)})
    if kind and ready.num_samples > 0:
        described: Any = _work(requests.describe(robot.samples, run.task, kind, robot.robot_id), toolbox)
        protocol.add_descriptor(answer, described.descriptor)
    return answer


def train_round(content: RecordDict, context: Context, robot: FlowerRobot, toolbox: Toolbox) -> RecordDict:
    """Train for one round and return what travels; what stays goes into the node's state."""
    order = protocol.read_order(content)
    with tempfile.TemporaryDirectory(prefix="fed_flower-") as scratch:
        folder, store = Path(scratch) / "robot", BlobStore(Path(scratch) / "blobs")
        unpack_state(context, folder)
        local = {"threads": robot.threads, "device": robot.device}
        installation = requests.Installation(robot.robot_id, INSTANCE, folder, local)
        request = requests.train(_plan(order, content, robot.robot_id, store), store, robot.samples, installation)
        trained: Any = _work(request, toolbox)
        pack_state(context, folder)
        return _reply(trained, store)


def _work(request: requests.JobRequest, toolbox: Toolbox) -> ev.Event:
    return request.finish(run_job(request.kind, request.arguments, toolbox, lambda *progress: None))


def _plan(order: protocol.Order, content: RecordDict, robot_id: str, store: BlobStore) -> FleetPlan:
    """Return the plan of a fleet of one, with its blobs in ``store``."""
    blobs: dict[str, BlobRef] = {}
    load: tuple[str, ...] = ()
    if order.loads:
        load = (protocol.ARRAYS,)
        blobs[protocol.ARRAYS] = store_record(arrays_of(content, protocol.ARRAYS), store)
    for key, record in order.extras.items():
        blobs[key] = store_record(arrays_of(content, record), store)
    return FleetPlan(
        run_id=order.run_id,
        config=order.run,
        round=order.round,
        finished=False,
        robots={robot_id: RobotPlan(load, tuple(order.extras), order.values)},
        participants=(robot_id,),
        blobs=blobs,
        models=(),
    )


def _reply(event: ev.Trained, store: BlobStore) -> RecordDict:
    report = event.report
    trained = protocol.Trained(
        robot_id=report.robot_id,
        round=report.round,
        config_digest=report.config_digest,
        num_samples=report.num_samples,
        loss=report.loss,
        seconds=report.seconds,
        scalars=report.scalars,
        mask=report.mask,
    )
    reply = RecordDict({protocol.ARRAYS: file_record(store.path(report.blobs["weights"].digest))})
    if "extras" in report.blobs:
        reply[protocol.EXTRAS] = to_record(store.open(report.blobs["extras"].digest))
    for name, record in protocol.trained_records(trained).items():
        reply[name] = record
    return reply
