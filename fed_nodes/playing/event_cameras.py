"""What an M3ED recording has beside colour and depth: both event cameras, and depth as published, in the left one."""

from collections.abc import Callable, Mapping

import numpy as np
from geometry_msgs.msg import Quaternion, Transform, TransformStamped, Vector3
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from fed_core.data.m3ed.calibration import EVENT_LEFT, CameraCalibration
from fed_core.data.m3ed.sequence import M3edSequence
from fed_core.data.segment import whole_of
from fed_core.data.sequence import DepthSequence
from fed_nodes import qos
from fed_nodes.convert.images import depth_to_msg, info_to_msg, to_stamp
from fed_nodes.playing.static_frames import publish_static

#: Topics by frame name; the native depth belongs to the left camera.
INFOS = {EVENT_LEFT: "prophesee/left/camera_info", "prophesee_right": "prophesee/right/camera_info"}
NATIVE_DEPTH = "prophesee/left/depth/image_raw"


def event_cameras(node: Node, sequence: DepthSequence, *, reliable: bool) -> "EventCameras | None":
    """Return the publisher of the event cameras of an M3ED recording, or of a part of one; None for others."""
    found = whole_of(sequence, M3edSequence)
    return None if found is None else EventCameras(node, *found, reliable=reliable)


class EventCameras:
    """Publishes cameras and native depth of an M3ED recording.

    Args:
        node: owner of the publishers.
        recording: the whole recording.
        place: index of a frame in it.
        reliable: as the replay's other topics.

    Attributes:
        colour_distortion: (k1, k2, p1, p2, k3) of the colour frames; M3ED's images are not undistorted.
    """

    def __init__(self, node: Node, recording: M3edSequence, place: Callable[[int], int], *, reliable: bool) -> None:
        profile = qos.SENSORS_RELIABLE if reliable else qos.DRIVERS
        self._recording, self._place = recording, place
        self.colour_distortion = (*recording.camera.distortion, 0.0)
        known = {name: topic for name, topic in INFOS.items() if name in recording.cameras}
        self._infos = {name: node.create_publisher(CameraInfo, topic, profile) for name, topic in known.items()}
        self._depth = node.create_publisher(Image, NATIVE_DEPTH, profile)
        self._static = publish_static(node, static_transforms(recording.cameras), "the event cameras")

    def publish(self, index: int) -> None:
        """Publish what belongs to frame ``index`` of the replayed sequence, at the time of the depth map."""
        native = self._recording.native(self._place(index))
        stamp = to_stamp(native.stamp_ns)
        for name, publisher in self._infos.items():
            publisher.publish(camera_info(self._recording.cameras[name], Header(stamp=stamp, frame_id=name)))
        self._depth.publish(depth_to_msg(native.depth_m, Header(stamp=stamp, frame_id=native.frame_id)))


def camera_info(camera: CameraCalibration, header: Header) -> CameraInfo:
    """Return the camera of a distorted image at full size; M3ED's radtan is ROS's plumb_bob without k3."""
    info = info_to_msg(camera.matrix, camera.height, camera.width, header)
    info.d = [*camera.distortion, 0.0]
    return info


def static_transforms(cameras: Mapping[str, CameraCalibration]) -> list[TransformStamped]:
    """Return where each camera sits in the frame of the left event camera."""
    return [
        TransformStamped(
            header=Header(frame_id=EVENT_LEFT), child_frame_id=name, transform=_to_transform(camera.to_event_left)
        )
        for name, camera in cameras.items()
        if name != EVENT_LEFT
    ]


def _to_transform(pose: "np.ndarray") -> Transform:
    # Imported on use: replays of other recordings do not need SciPy.
    from scipy.spatial.transform import Rotation

    x, y, z, w = (float(value) for value in Rotation.from_matrix(pose[:3, :3]).as_quat())
    shift_x, shift_y, shift_z = (float(value) for value in pose[:3, 3])
    return Transform(translation=Vector3(x=shift_x, y=shift_y, z=shift_z), rotation=Quaternion(x=x, y=y, z=z, w=w))
