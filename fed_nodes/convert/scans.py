"""What a vehicle's cameras and LiDAR see at one time: messages to one scan, and back.

Images are taken as the sensors give them, without distortion afterwards, so that K is their matrix; places are those of
the rig. What the vehicle moves between the LiDAR's time and a camera's is not known here, and left out.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from geometry_msgs.msg import Point, Pose, PoseWithCovariance, Quaternion
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_msgs.msg import Header

from fed_core.errors import DataError
from fed_core.types import Boxes3D, DetectionFrame, ScanFrame
from fed_nodes.convert.cameras import undistorted
from fed_nodes.convert.clouds import points_from_msg, points_to_msg
from fed_nodes.convert.images import colour_to_msg, info_to_msg, rgb_from_msg, stamp_ns, to_stamp
from fed_nodes.sensing.scan_rigs import ScanRig

Floats = npt.NDArray[np.float64]


def scan_from_msgs(
    rig: ScanRig,
    images: Sequence[Image],
    infos: Sequence[CameraInfo],
    cloud: PointCloud2,
    ego_to_global: Floats | None = None,
) -> ScanFrame:
    """Return the scan of one image and camera info per camera, in the order of the rig, and one cloud.

    Its time is that of the cloud.

    Args:
        rig: the sensors.
        images: one per camera.
        infos: their cameras.
        cloud: of the LiDAR.
        ego_to_global: (4, 4) [m] of the vehicle, where that is known.

    Raises:
        DataError: an image or the cloud cannot be read, or a camera info does not describe a camera of its size.
    """
    points = points_from_msg(cloud)
    pictures, matrices = [], []
    for name, mount, image, info in zip(rig.cameras.names, rig.cameras.mounts, images, infos, strict=True):
        try:
            picture, matrix = undistorted(rgb_from_msg(image), info, rectified=mount.rectified)
        except DataError as err:
            raise DataError(f"camera {name}: {err}") from err
        pictures.append(picture)
        matrices.append(matrix)
    return ScanFrame(
        cameras=rig.cameras.names,
        images=tuple(pictures),
        intrinsics=np.stack(matrices) if matrices else np.zeros((0, 3, 3)),
        lidar_to_camera=rig.lidar_to_camera,
        points=points,
        stamp_ns=stamp_ns(cloud.header.stamp),
        token=str(stamp_ns(cloud.header.stamp)),
        lidar_to_ego=rig.mount.to_vehicle,
        ego_to_global=np.eye(4) if ego_to_global is None else ego_to_global,
    )


def labelled(scan: ScanFrame, boxes: Boxes3D) -> DetectionFrame:
    """Return a scan with its true boxes."""
    return DetectionFrame(**vars(scan), boxes=boxes)


def images_to_msgs(frame: ScanFrame) -> list[tuple[Image, CameraInfo]]:
    """Return image (rgb8) and camera info of each camera, all with the scan's time."""
    made = []
    for name, picture, matrix in zip(frame.cameras, frame.images, frame.intrinsics, strict=True):
        header = Header(stamp=to_stamp(frame.stamp_ns), frame_id=f"{name}_optical_frame")
        height, width = picture.shape[:2]
        made.append((colour_to_msg(picture, header), info_to_msg(matrix, height, width, header)))
    return made


def cloud_to_msg(frame: ScanFrame, frame_id: str) -> PointCloud2:
    """Return the points of a scan in the LiDAR's frame."""
    return points_to_msg(frame.points, Header(stamp=to_stamp(frame.stamp_ns), frame_id=frame_id))


def odometry_to_msg(frame: ScanFrame, frame_id: str, child_frame_id: str) -> Odometry:
    """Return where the vehicle was, in the map."""
    header = Header(stamp=to_stamp(frame.stamp_ns), frame_id=frame_id)
    return Odometry(
        header=header,
        child_frame_id=child_frame_id,
        pose=PoseWithCovariance(pose=pose_of(frame.ego_to_global)),
    )


def odometry_from_msg(msg: Odometry) -> Floats:
    """Return the pose (4, 4) [m] of the vehicle; one that is not finite, or no rotation, raises ``DataError``."""
    from scipy.spatial.transform import Rotation

    place, turn = msg.pose.pose.position, msg.pose.pose.orientation
    quaternion = np.array([turn.x, turn.y, turn.z, turn.w])
    result = np.eye(4)
    result[:3, 3] = place.x, place.y, place.z
    if not np.isfinite(result).all() or not abs(np.linalg.norm(quaternion) - 1.0) < 1e-2:
        raise DataError("an odometry has no finite place or no quaternion of length 1")
    result[:3, :3] = Rotation.from_quat(quaternion).as_matrix()
    return result


def pose_of(matrix: Floats) -> Pose:
    """Return a matrix (4, 4) [m] as a pose."""
    # Imported on use: SciPy is slow to load, and only those who write poses down need it.
    from scipy.spatial.transform import Rotation

    qx, qy, qz, qw = Rotation.from_matrix(matrix[:3, :3]).as_quat().tolist()
    x, y, z = matrix[:3, 3].tolist()
    return Pose(position=Point(x=x, y=y, z=z), orientation=Quaternion(x=qx, y=qy, z=qz, w=qw))
