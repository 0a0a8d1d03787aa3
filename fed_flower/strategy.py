"""Any of our strategies as a Flower strategy (``flwr.serverapp.strategy.Strategy``, the message API)."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy as FlowerStrategy

from fed_core import requests
from fed_core.errors import ConfigError, Refusal, RefusedError, StrategyError, WireError
from fed_core.fleet import FleetConfig
from fed_core.roles import events as ev
from fed_core.roles.messages import FleetPlan, RunConfig, UpdateReport
from fed_core.strategies.base import RobotPlan
from fed_core.training.jobs import Toolbox, run_job
from fed_core.types import ModelSignature
from fed_core.wire.codec import check_specs
from fed_flower import protocol
from fed_flower.aggregator import Answer, FlowerAggregator
from fed_flower.client_app import INSTANCE, default_toolbox
from fed_flower.records import arrays_of, from_record, store_record, store_tensors, to_record

log = logging.getLogger("flwr")


class FedPerceptionStrategy(FlowerStrategy):
    """Runs one of our strategies over Flower's messages; robots run :func:`fed_flower.client_app.client_app`.

    Each robot gets a model of its own where the strategy says so: Flower's one global ``arrays`` are the start (the
    initial model) and the end (:attr:`models`), what happens in between follows the plans of our strategy. The run is
    kept in ``folder`` as by ``fedperc simulate``, so ``fedperc inspect`` and the like read it, and a server app that
    starts again in the same folder goes on after the last whole round.

    Args:
        run: strategy, network, task, training and number of rounds.
        folder: the run's folder.
        run_id: name of the run.
        min_robots: robots without which the run does not start.
        min_updates: updates without which a round is not closed; Flower's next round then repeats it.
        toolbox: networks; default: those of ``fed_models``.
        patience_s: how long robots may take to appear, and to register.
    """

    def __init__(
        self,
        run: RunConfig,
        folder: Path | str,
        *,
        run_id: str = "flower",
        min_robots: int = 2,
        min_updates: int = 1,
        toolbox: Callable[[], Toolbox] | None = None,
        patience_s: float = 600.0,
    ) -> None:
        self._run, self._min_robots, self._patience_s = run, min_robots, patience_s
        self._aggregator = FlowerAggregator(run_id, run, Path(folder), min_updates=min_updates)
        self._tools = toolbox or default_toolbox
        self._nodes: dict[int, str] = {}  # robot of each node that registered
        self._begun = False
        self._seeded: ev.InitialModel | None = None

    @classmethod
    def from_fleet(cls, fleet: FleetConfig, folder: Path | str, **options: Any) -> "FedPerceptionStrategy":
        """Return the strategy of a fleet file, which waits for all robots of the file; ``options`` as above."""
        return cls(fleet.run_config(), folder, **{"run_id": fleet.run, "min_robots": len(fleet.robots), **options})

    @property
    def initial_arrays(self) -> ArrayRecord:
        """The model that the run starts from, built from the run's seed; for Flower's ``start``."""
        return to_record(self._aggregator.book.store.open(self._initial().blob.digest))

    @property
    def rounds_left(self) -> int:
        """Rounds to go, for Flower's ``start``: all of them, or those that an interrupted run has left."""
        plan = self._aggregator.plan
        if plan is None:
            return self._run.total_rounds
        return 0 if plan.finished else self._run.total_rounds - plan.round + 1

    @property
    def models(self) -> dict[str, ArrayRecord]:
        """The models by key ("global", "cluster/0", ...), in the order of the clusters."""
        plan, store = self._aggregator.plan, self._aggregator.book.store
        if plan is None:
            return {}
        return {key: to_record(store.open(plan.blobs[key].digest)) for key in plan.models}

    def close(self) -> None:
        """Leave the run's folder to others; the end of the process does so, too."""
        self._aggregator.close()

    def summary(self) -> None:
        """Log what runs."""
        run = self._run
        options = " ".join(f"{name}={value}" for name, value in run.strategy_options.items())
        log.info("\t├──> Strategy: %s", f"{run.strategy} {options}".strip())
        log.info(
            "\t└──> %s on task %s, %d of %d rounds to go", run.network, run.task, self.rounds_left, run.total_rounds
        )

    # ---- training ------------------------------------------------------------------------------------------------

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Register the nodes that are new, and return what each robot of the round is asked to do.

        Args:
            server_round: Flower's round.
            arrays: before the first round of a new run, the model to start from; later they are not looked at.
            config: the user's, passed on to the robots.
            grid: to the nodes.
        """
        if self._aggregator.finished:
            raise StrategyError(
                f"the run is over after {self._run.total_rounds} rounds, and Flower asks for one more; "
                "call start with num_rounds=strategy.rounds_left"
            )
        self._take_initial(arrays)
        self._register_new(grid)
        config["server-round"] = server_round
        return list(self._orders(self._aggregator.open_round(), config))  # Flower's grid goes over them twice

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Count the updates and close the round; None where too few came, and the round is then repeated."""
        for reply in replies:
            self._count(reply)
        closed = self._aggregator.book.closed() if self._aggregator.close_round() else None
        if closed is None:
            log.warning("round %d has too few updates; the next one repeats it", server_round)
            return None, None
        samples = sum(report.num_samples for report in closed.reports)
        loss = sum(report.loss * report.num_samples for report in closed.reports) / samples
        metrics = MetricRecord({"num-examples": samples, "loss": loss, "updates": len(closed.reports)})
        return self._global(), metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return nothing: which model is right depends on the sequence, not on the node; see ``evaluate_fn``."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return None; see :meth:`configure_evaluate`."""
        return None

    def _global(self) -> ArrayRecord:
        """Return the one model; several become one record, with names like "cluster/0:encoder.weight"."""
        models = self.models
        if len(models) == 1:
            return next(iter(models.values()))
        return ArrayRecord({f"{key}:{name}": model[name] for key, model in models.items() for name in model})

    # ---- start ---------------------------------------------------------------------------------------------------

    def _initial(self) -> ev.InitialModel:
        """Return the run's initial model; before it has one, that of the run's seed."""
        known = self._aggregator.book.initial() or self._seeded
        if known is None:
            request = requests.initial_model(self._run, self._aggregator.book.store)
            answer = run_job(request.kind, request.arguments, self._tools(), lambda *progress: None)
            event = request.finish(answer)
            if not isinstance(event, ev.InitialModel):
                raise TypeError(f"the initial model came as {type(event).__name__}")
            known = self._seeded = event
        return known

    def _take_initial(self, arrays: ArrayRecord) -> None:
        """Start from the arrays that Flower was started with; a run that has begun has its own."""
        book, known = self._aggregator.book, self._initial()
        if book.initial() is not None:
            return
        tensors = from_record(arrays)
        try:
            check_specs(tensors, known.signature.tensors)
        except RefusedError as err:
            raise ConfigError(f"initial_arrays do not fit network {self._run.network}: {err}") from err
        ordered = {name: tensors[name] for name in known.signature.names}
        book.save_initial(ev.InitialModel(store_tensors(ordered, book.store), known.signature))

    def _register_new(self, grid: Grid) -> None:
        """Forget nodes that are gone, and ask those that are not known yet who they are."""
        if not self._begun:
            self._wait_for_nodes(grid)
        here = list(grid.get_node_ids())
        # A robot whose node was started again comes back under another node id.
        self._nodes = {node: robot_id for node, robot_id in self._nodes.items() if node in here}
        new = [node for node in here if node not in self._nodes]
        record = protocol.run_record(self._aggregator.run_id, self._run, self._aggregator.kind)
        messages = [_message({protocol.OURS: record}, node, MessageType.QUERY) for node in new]
        replies = grid.send_and_receive(messages, timeout=self._patience_s) if messages else []
        answers = [answer for reply in replies if (answer := self._read_answer(reply)) is not None]
        if self._begun:
            self._aggregator.join(answers)
            return
        self._aggregator.begin(answers, self._min_robots)
        self._begun = True

    def _wait_for_nodes(self, grid: Grid) -> None:
        until = time.monotonic() + self._patience_s
        pause, told = threading.Event(), -1
        while (found := len(list(grid.get_node_ids()))) < self._min_robots:
            if time.monotonic() >= until:
                text = f"{found} of at least {self._min_robots} Flower nodes are there after {self._patience_s:g} s"
                raise StrategyError(f"{text}; start more, or lower min_robots")
            if found != told:
                log.info("waiting for nodes: %d of at least %d are there", found, self._min_robots)
                told = found
            pause.wait(0.2)

    def _read_answer(self, reply: Message) -> Answer | None:
        node = reply.metadata.src_node_id
        try:
            if reply.has_error():
                raise RefusedError(str(reply.error.reason), Refusal.NO_SAMPLES)
            registration = protocol.read_registration(reply.content)
            if registration.robot_id in self._nodes.values():
                raise RefusedError(f"another node is called {registration.robot_id!r}", Refusal.DUPLICATE_ROBOT)
            answer = registration, protocol.read_descriptor(reply.content)
        except WireError as err:
            log.warning("node %d does not take part: %s", node, err)
            return None
        self._nodes[node] = registration.robot_id
        return answer

    # ---- messages ------------------------------------------------------------------------------------------------

    def _orders(self, plan: FleetPlan, config: ConfigRecord) -> Iterator[Message]:
        """Yield the messages of a round; robots that start from the same models share the record."""
        blends: dict[tuple[str, ...], ArrayRecord] = {}
        skipped = self._aggregator.reported
        for node, robot_id in sorted(self._nodes.items(), key=lambda item: item[1]):
            if robot_id not in plan.participants or robot_id in skipped:
                continue
            entry = plan.robots[robot_id]
            if entry.load not in blends:
                blends[entry.load] = self._blend(plan, entry.load)
            content: dict[str, Any] = {protocol.ARRAYS: blends[entry.load], protocol.CONFIG: config}
            extras = self._add_extras(plan, entry, content)
            order = protocol.Order(
                plan.run_id, plan.config, plan.round, bool(entry.load), extras, dict(entry.values)
            )  # fmt: skip
            content[protocol.OURS] = protocol.order_record(order)
            yield _message(content, node, MessageType.TRAIN)

    def _blend(self, plan: FleetPlan, load: tuple[str, ...]) -> ArrayRecord:
        """Return the mean of some models; a robot would make the same of them, bit by bit, but get them all."""
        if not load:
            return ArrayRecord()
        book = self._aggregator.book
        models = {key: book.store.open(plan.blobs[key].digest) for key in load}
        return to_record(dict(book.strategy.blend(models, self._signature)))

    def _add_extras(self, plan: FleetPlan, entry: RobotPlan, content: dict[str, Any]) -> dict[str, str]:
        """Put the strategy's further tensors into a message and return which record holds which key."""
        store = self._aggregator.book.store
        names: dict[str, str] = {}
        for key in entry.extras:
            if entry.load == (key,) and key in plan.models:
                names[key] = protocol.ARRAYS  # the very same tensors
                continue
            names[key] = f"{protocol.EXTRAS}.{len(names)}"
            content[names[key]] = to_record(store.open(plan.blobs[key].digest))
        return names

    @property
    def _signature(self) -> ModelSignature:
        return self._initial().signature

    def _count(self, reply: Message) -> None:
        """Offer a robot's update to the aggregator; a warning tells where there is none that can be read."""
        node = reply.metadata.src_node_id
        robot_id = self._nodes.get(node, f"node {node}")
        if reply.has_error():
            log.warning("robot %s: %s", robot_id, reply.error.reason)
            return
        try:
            trained = protocol.read_trained(reply.content)
            if trained.robot_id != robot_id:
                raise RefusedError(f"an update of {trained.robot_id!r} came from it", Refusal.UNKNOWN_ROBOT)
            report = self._report(trained, reply.content)
        except WireError as err:  # one bad robot stops no round; what goes wrong here, on the server, does
            log.warning("robot %s: %s", robot_id, err)
            return
        self._aggregator.count(report)

    def _report(self, trained: protocol.Trained, content: RecordDict) -> UpdateReport:
        store = self._aggregator.book.store
        blobs = {"weights": store_record(arrays_of(content, protocol.ARRAYS), store)}
        if protocol.EXTRAS in content:
            blobs["extras"] = store_record(arrays_of(content, protocol.EXTRAS), store)
        return UpdateReport(
            robot_id=trained.robot_id,
            instance=INSTANCE,
            run_id=self._aggregator.run_id,
            round=trained.round,
            config_digest=trained.config_digest,
            num_samples=trained.num_samples,
            loss=trained.loss,
            seconds=trained.seconds,
            blobs=blobs,
            scalars=trained.scalars,
            mask=trained.mask,
            model_digest="" if trained.mask is None else self._signature.digest,
        )


def _message(content: Mapping[str, Any], node: int, kind: str) -> Message:
    return Message(RecordDict(dict(content)), dst_node_id=node, message_type=kind)
