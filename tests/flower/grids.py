"""Flower's grid in this process: real messages and contexts, node after node, and a tiny fleet to run on it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fed_core import requests
from fed_core.data.open import SourceConfig
from fed_core.fleet import FleetConfig, NamedOptions, RobotEntry
from fed_flower.client_app import FlowerRobot, client_app
from tests.core.training.tiny import toolbox

NAMES = ("ana", "ben", "cleo")


class LocalGrid(Grid):
    """Hands each message to the client app of its node and keeps what it answers.

    Args:
        app: of every node.
        nodes: their ids.
        on_reply: may change or lose (None) a reply.
    """

    def __init__(
        self, app: ClientApp, nodes: Iterable[int], on_reply: Callable[[Message], Message | None] = lambda reply: reply
    ) -> None:
        self.app, self.on_reply = app, on_reply
        # What Flower's own processes set before an app runs; messages are stamped with it.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.contexts = {
            node: Context(
                run_id=1, node_id=node, node_config={"partition-id": place}, state=RecordDict(), run_config={}
            )
            for place, node in enumerate(nodes)
        }
        self.sent: list[Message] = []
        self._replies: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def get_nodes(self) -> Iterable[Any]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:  # twice, as the grid over HTTP does
            message.metadata.__dict__["_message_id"] = str(uuid4())
        for message in messages:
            ids.append(message.metadata.message_id)
            self.sent.append(message)
            reply = self.on_reply(self.app(message, self.contexts[message.metadata.dst_node_id]))
            if reply is not None:
                self._replies[ids[-1]] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(each) for each in message_ids if each in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(list(self.push_messages(messages)))


def fleet(strategy: str, rounds: int = 2, **options: Any) -> FleetConfig:
    return FleetConfig(
        run="run",
        robots=tuple(RobotEntry(name, SourceConfig(data=name)) for name in NAMES),
        network=NamedOptions("tiny", {"height": 16, "width": 24}),
        strategy=NamedOptions(strategy, options),
        rounds=rounds,
        train={"lr": 1e-2, "batch_size": 3, "local_epochs": 2},
    )


def app(base: Path) -> ClientApp:
    def robot_of(context: Context) -> FlowerRobot:
        name = NAMES[int(context.node_config["partition-id"])]
        return FlowerRobot(name, requests.Samples(SourceConfig(data=name), base))

    return client_app(robot_of, toolbox=toolbox)
