"""Where a LiDAR sits as a camera sees it: from parameters, or from TF where tf2_ros is installed."""

from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from rclpy.time import Time

from fed_core.errors import ConfigError, DataError
from fed_nodes.sensing.rigs import Mount

Floats = npt.NDArray[np.float64]

#: Where extrinsics come from.
MOUNTS, TF = "mounts", "tf"


class Extrinsics(Protocol):
    """Places a LiDAR in the optical frame of a camera."""

    def lidar_to_camera(self, camera_frame: str, lidar_frame: str) -> Floats:
        """Return the transform (4, 4) [m] between two frames; one that is not known raises ``DataError``."""

    def close(self) -> None:
        """Stop listening."""


class FixedExtrinsics:
    """Extrinsics of the robot's parameters, whatever the frames are called.

    Args:
        camera: where the camera's optical frame sits; None = it is the frame in which the LiDAR is placed.
        lidar: where the LiDAR sits in the same frame.
    """

    def __init__(self, camera: Mount | None, lidar: Mount) -> None:
        base_to_camera = np.eye(4) if camera is None else np.linalg.inv(camera.to_vehicle)
        self._matrix: Floats = base_to_camera @ lidar.to_vehicle

    def lidar_to_camera(self, camera_frame: str, lidar_frame: str) -> Floats:
        """Return the transform (4, 4) [m]."""
        return self._matrix

    def close(self) -> None:
        """Nothing is open."""


class TfExtrinsics:
    """Extrinsics of the frame tree, as it is when they are asked for.

    Args:
        node: owner of the subscriptions.

    Raises:
        ConfigError: ``tf2_ros`` is not installed.
    """

    def __init__(self, node: Node) -> None:
        try:
            self._tf2: Any = import_module("tf2_ros")
        except ImportError as err:
            text = "extrinsics is tf, but tf2_ros is not installed here"
            raise ConfigError(
                f"{text}; install ros-$ROS_DISTRO-tf2-ros-py, or say lidar_mount and leave it out"
            ) from err
        self._buffer = self._tf2.Buffer(node=node)
        self._listener = self._tf2.TransformListener(self._buffer, node)

    def lidar_to_camera(self, camera_frame: str, lidar_frame: str) -> Floats:
        """Return the newest transform (4, 4) [m] from the LiDAR's frame to the camera's."""
        if not camera_frame or not lidar_frame:
            empty = "image" if not camera_frame else "cloud"
            raise DataError(
                f"the {empty} names no frame (header.frame_id), so TF cannot place it; let the driver name it"
            )
        try:
            found = self._buffer.lookup_transform(camera_frame, lidar_frame, Time())
        except self._tf2.TransformException as err:
            text = f"TF does not lead from {lidar_frame} to {camera_frame}: {' '.join(str(err).split())}"
            raise DataError(f"{text}; publish the robot's frames, or say lidar_mount") from err
        place, turn = found.transform.translation, found.transform.rotation
        try:
            return Mount((place.x, place.y, place.z), (turn.x, turn.y, turn.z, turn.w)).to_vehicle
        except ConfigError as err:
            raise DataError(f"TF from {lidar_frame} to {camera_frame} is no pose: {err}") from err

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.unregister()
            self._listener = None
