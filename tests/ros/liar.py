"""A robot that says what a test wants it to say, with real blobs behind it."""

from typing import Any

import numpy as np
from fed_msgs.msg import RoundPlan, UpdateReport
from fed_msgs.srv import RegisterRobot

from fed_core.errors import Refusal
from fed_core.roles import messages as roles
from fed_core.store.blobs import BlobStore
from fed_core.types import PROTOCOL_VERSION
from fed_core.wire.codec import write_tensors
from fed_nodes import qos
from fed_nodes.blobs import RosBlobChannel
from fed_nodes.convert import fleet as convert
from tests.ros.fleets import Fleet


class Liar:
    """A robot of the test's own process that can say anything.

    Args:
        fleet: whom it joins.
        name: robot id.
        task: what it says that it learns.
        architecture: name of the network that it says it has.
    """

    def __init__(self, fleet: Fleet, name: str, task: str, architecture: str) -> None:
        self.name, self.watcher = name, fleet.watcher
        self._task, self._architecture = task, architecture
        node = self.watcher.node
        self.store = BlobStore(fleet.folder / name)
        self.channel = RosBlobChannel(node, self.store)
        self.channel.serve(f"/{name}/read_blob")
        self._reports = node.create_publisher(UpdateReport, "/fleet/updates", qos.LATCHED)
        self._registrar: Any = node.create_client(RegisterRobot, "/fleet/register")

    def register(self, digest: str) -> None:
        registration = roles.Registration(
            robot_id=self.name, instance="x", observer=False, protocol=PROTOCOL_VERSION, software="", task=self._task,
            architecture=self._architecture, model_digest=digest, num_samples=5, blob_service=f"/{self.name}/read_blob",
        )  # fmt: skip
        self.watcher.until(self._registrar.service_is_ready, 60.0)

        def accepted() -> bool:
            answer = self.watcher.call(self._registrar, convert.registration_to_request(registration))
            assert answer.code in (Refusal.ACCEPTED, Refusal.NOT_READY), answer.text
            return bool(answer.code == Refusal.ACCEPTED)

        self.watcher.until(accepted, 60.0)

    def report(self, plan: RoundPlan, tensors: Any, mask: np.ndarray | None = None, digest: str = "") -> None:
        path = self.store.scratch()
        write_tensors(path, tensors)
        report = roles.UpdateReport(
            robot_id=self.name, instance="x", run_id=plan.run_id, round=plan.round, config_digest=plan.config_digest,
            num_samples=5, loss=1.0, seconds=1.0, blobs={"weights": self.store.put_file(path)}, mask=mask,
            model_digest=digest,
        )  # fmt: skip
        self._reports.publish(convert.report_to_msg(report))
