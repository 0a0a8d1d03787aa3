"""Blobs over ROS 2: a service per reader on the sending side, windowed pulls on the reading side.

What is asked when is decided by :class:`fed_core.wire.chunks.Pull`; what lies on disk by
:class:`fed_core.store.blobs.BlobStore`. Here are only messages, one thread, and the way back into the executor.
"""

import array
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable

from fed_msgs.srv import ReadBlob
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.service import Service

from fed_core.errors import FedError, StoreError, WireError
from fed_core.store.blobs import BlobStore
from fed_core.types import BlobRef
from fed_core.wire.chunks import PullConfig, ReadCode
from fed_nodes import qos
from fed_nodes.blob_client import BlobClient

MAX_CHUNK_BYTES = 4 << 20


class BlobChannel(ABC):
    """How blobs come and go; the nodes know only this."""

    @abstractmethod
    def serve(self, service: str) -> None:
        """Let one reader read every blob of the store through ``service``; again for the same name is no error."""

    @abstractmethod
    def stop(self, service: str) -> None:
        """Take the service of a reader away; unknown names are no error."""

    @abstractmethod
    def fetch(
        self,
        ref: BlobRef,
        service: str,
        *,
        on_done: Callable[[BlobRef], None],
        on_error: Callable[[BlobRef, FedError], None],
        on_progress: Callable[[BlobRef, int], None] | None = None,
    ) -> None:
        """Bring a blob into the store; exactly one of ``on_done`` and ``on_error`` is called later.

        Args:
            ref: digest and size.
            service: full name of the sender's ReadBlob service.
            on_done: the blob is in the store, verified.
            on_error: it cannot be had; the error says why.
            on_progress: bytes on disk so far, a few times per second.
        """

    @abstractmethod
    def cancel(self, digest: str) -> None:
        """Stop a fetch without calling back; what came stays for the next try."""

    @property
    @abstractmethod
    def sent_bytes(self) -> int:
        """Bytes served since start."""

    @property
    @abstractmethod
    def received_bytes(self) -> int:
        """Bytes read since start."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything; call it before the node is destroyed."""


class BlobServer:
    """Answers ReadBlob requests from a store, one service per reader.

    Args:
        node: owner of the services.
        store: where the blobs are.
        window: largest window of a reader, sets the queue depth.
        group: callback group; an own one by default.
    """

    def __init__(
        self, node: Node, store: BlobStore, *, window: int = PullConfig().window, group: CallbackGroup | None = None
    ) -> None:
        self.sent_bytes = 0
        self._node = node
        self._store = store
        self._qos = qos.blobs(window)
        self._group = group or MutuallyExclusiveCallbackGroup()
        self._services: dict[str, Service] = {}

    def serve(self, service: str) -> None:
        """Create the service of one reader."""
        if service not in self._services:
            self._services[service] = self._node.create_service(
                ReadBlob, service, self.answer, qos_profile=self._qos, callback_group=self._group
            )

    def stop(self, service: str) -> None:
        """Destroy the service of one reader."""
        gone = self._services.pop(service, None)
        if gone is not None:
            self._node.destroy_service(gone)

    def close(self) -> None:
        """Destroy all services."""
        for service in list(self._services):
            self.stop(service)

    def answer(self, request: ReadBlob.Request, response: ReadBlob.Response) -> ReadBlob.Response:
        """Fill ``response`` with the bytes that ``request`` asks for, or with the code that says why not."""
        response.offset = request.offset
        try:
            response.code = self._read(request, response)
        except WireError:
            response.code = ReadCode.BAD_REQUEST
        except (FileNotFoundError, StoreError):
            response.code = ReadCode.NOT_FOUND
        except OSError as err:
            text = f"cannot read blob {request.digest[:12]}: {err.strerror}"
            self._node.get_logger().warning(text, throttle_duration_sec=2.0)
            response.code = ReadCode.READ_FAILED
        return response

    def _read(self, request: ReadBlob.Request, response: ReadBlob.Response) -> ReadCode:
        descriptor = os.open(self._store.path(request.digest), os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if not 0 < request.length <= MAX_CHUNK_BYTES or request.offset + request.length > size:
                return ReadCode.BAD_REQUEST
            data = array.array("B", b"\0") * request.length
            if os.preadv(descriptor, [data], request.offset) != request.length:
                return ReadCode.READ_FAILED
            # The kernel reads the next window ahead while the reader is busy with this one.
            os.posix_fadvise(descriptor, request.offset + request.length, 8 << 20, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)
        response.size_bytes = size
        response.crc32 = zlib.crc32(data)
        response.data = data  # an array; bytes, memoryview or ndarray would be slow on some ROS versions
        self.sent_bytes += request.length
        return ReadCode.OK


class RosBlobChannel(BlobChannel):
    """The channel of a node: a :class:`BlobServer` and a :class:`BlobClient` on one store."""

    def __init__(
        self, node: Node, store: BlobStore, config: PullConfig | None = None, *, max_parallel: int = 2
    ) -> None:
        config = config or PullConfig()
        self._server = BlobServer(node, store, window=config.window)
        self._client = BlobClient(node, store, config, max_parallel=max_parallel)

    def serve(self, service: str) -> None:
        """See :class:`BlobChannel`."""
        self._server.serve(service)

    def stop(self, service: str) -> None:
        """See :class:`BlobChannel`."""
        self._server.stop(service)

    def fetch(
        self,
        ref: BlobRef,
        service: str,
        *,
        on_done: Callable[[BlobRef], None],
        on_error: Callable[[BlobRef, FedError], None],
        on_progress: Callable[[BlobRef, int], None] | None = None,
    ) -> None:
        """See :class:`BlobChannel`."""
        self._client.fetch(ref, service, on_done=on_done, on_error=on_error, on_progress=on_progress)

    def cancel(self, digest: str) -> None:
        """See :class:`BlobChannel`."""
        self._client.cancel(digest)

    @property
    def sent_bytes(self) -> int:
        """Bytes served since start."""
        return self._server.sent_bytes

    @property
    def received_bytes(self) -> int:
        """Bytes read since start."""
        return self._client.received_bytes

    def close(self) -> None:
        """See :class:`BlobChannel`."""
        self._client.close()
        self._server.close()
