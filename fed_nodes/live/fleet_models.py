"""The fleet's plans and the models they name: from the aggregator, or from disk while that is away."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from fed_msgs.msg import RoundPlan
from rclpy.node import Node

from fed_core.errors import FedError
from fed_core.roles import events as ev
from fed_core.roles.last_plan import load_plan, save_plan
from fed_core.roles.messages import FleetPlan
from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_nodes import qos
from fed_nodes.access import ReadAccess
from fed_nodes.blobs import RosBlobChannel
from fed_nodes.convert import fleet as convert
from fed_nodes.host import RoleHost, fetch_for, guarded


class FleetModels:
    """Follows the plans of a fleet and reads its models.

    A node that starts takes the plan whose models served last, if their files are whole; the aggregator's plan takes
    its place when it comes.

    Args:
        node: owner of topics and services.
        store: where the models are kept.
        fleet: namespace of the fleet's topics, without a slash at the end.
        reader_id: name under which models are read; unique in the fleet.
        use: receives the plans.

    Attributes:
        problem: why models cannot be had, for people; "" = all is well.
    """

    def __init__(
        self, node: Node, store: BlobStore, fleet: str, reader_id: str, use: Callable[[FleetPlan], None]
    ) -> None:
        self._node, self._store, self._use = node, store, use
        self._fleet, self._reader_id = fleet, reader_id
        self._early: FleetPlan | None = None
        self._newest: FleetPlan | None = None
        self.problem = ""

    def open(self, opened: ExitStack) -> None:
        """Open topics and services; ``opened`` closes them."""
        node = self._node
        self._channel = RosBlobChannel(node, self._store)
        opened.callback(self._channel.close)
        self._access = ReadAccess(node, self._fleet, self._reader_id, self._on_access)
        opened.callback(self._access.close)
        plans = guarded(node, convert.plan_from_msg, self._on_plan)
        subscription = node.create_subscription(RoundPlan, f"{self._fleet}/round", plans, qos.LATCHED)
        opened.callback(node.destroy_subscription, subscription)

    def restore(self) -> None:
        """Take the plan whose models served last."""
        try:
            plan = load_plan(self._store)
        except FedError as err:
            self._node.get_logger().warning(str(err))
            return
        if plan is not None:
            self._node.get_logger().info(f"run {plan.run_id}, round {plan.round}: taken from {self._store.root}")
            self._use(plan)

    def ask(self) -> None:
        """Ask the aggregator for access; call it about every second."""
        self._access.ask()

    def keep(self, plan: FleetPlan) -> None:
        """Keep a plan whose models are here, for the next start."""
        try:
            save_plan(self._store, plan, self._newest)
        except FedError as err:
            self._node.get_logger().warning(f"cannot keep the plan of round {plan.round}: {err}")

    def fetch(self, blob: BlobRef, host: RoleHost) -> Any:
        """Bring a blob into the store; returns an event if it is there, else the host gets one later."""
        if self._store.has(blob.digest):
            return ev.BlobReady(blob.digest)
        if self._access.service:
            fetch_for(self._channel, host, blob, self._access.service)
        else:  # the aggregator's plan will ask for it again
            self.problem = f"a chosen model is not in {self._store.root}, and no aggregator is there to send it"
        return None

    def _on_access(self) -> None:
        self.problem = ""
        if self._early is not None:
            plan, self._early = self._early, None
            self._use(plan)

    def _on_plan(self, plan: FleetPlan) -> None:
        self._newest = plan
        if self._access.service:
            self._use(plan)
        else:
            self._early = plan
