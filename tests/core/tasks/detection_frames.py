"""Made-up scans: boxes whose sides hold points, on flat ground, before two cameras that see them as rectangles."""

import numpy as np
import numpy.typing as npt

from fed_core.types import Boxes3D, DetectionFrame

#: Class, length, width, height [m], intensity of the points.
_KINDS = ((0, 4.5, 1.9, 1.6, 40.0), (1, 8.0, 2.6, 3.2, 90.0), (8, 0.7, 0.7, 1.75, 160.0))
_GROUND_M = -1.8
_SIZE = (90, 160)


def made_frame(
    seed: int, *, boxes: int = 4, reach_m: float = 22.0, cameras: int = 2, token: str = ""
) -> DetectionFrame:
    """Return a scan with ``boxes`` boxes within ``reach_m`` along x and y."""
    rng = np.random.default_rng(seed)
    true, clouds = [], []
    for _ in range(boxes):
        label, *size, intensity = _KINDS[rng.integers(len(_KINDS))]
        centre = np.array([*rng.uniform(-reach_m, reach_m, 2), _GROUND_M + size[2] / 2.0])
        yaw, speed = rng.uniform(-np.pi, np.pi), rng.uniform(0.0, 5.0)
        true.append((centre, size, yaw, speed, label))
        clouds.append(_surface(rng, centre, np.array(size), yaw, intensity))
    ground = np.zeros((600, 5))
    ground[:, :2] = rng.uniform(-reach_m, reach_m, (600, 2))
    ground[:, 2], ground[:, 3] = _GROUND_M, 10.0
    made = made_boxes(true)
    intrinsics, poses = rig(cameras)
    return DetectionFrame(
        cameras=("CAM_FRONT", "CAM_BACK", "CAM_LEFT", "CAM_RIGHT")[:cameras],
        images=tuple(_picture(made, k, pose, rng) for k, pose in zip(intrinsics, poses, strict=True)),
        intrinsics=intrinsics,
        lidar_to_camera=poses,
        points=np.concatenate([*clouds, ground]).astype(np.float32),
        stamp_ns=0,
        token=token or f"frame{seed}",
        lidar_to_ego=np.eye(4),
        ego_to_global=np.eye(4),
        boxes=made,
    )


def made_boxes(rows: list[tuple[npt.NDArray[np.float64], list[float], float, float, int]]) -> Boxes3D:
    """Return boxes of centre, size, yaw, speed along it, and class."""
    yaws = np.array([yaw for _, _, yaw, _, _ in rows], np.float64)
    speeds = np.array([speed for _, _, _, speed, _ in rows], np.float64)
    return Boxes3D(
        centres=np.array([row[0] for row in rows], np.float64).reshape(-1, 3),
        sizes=np.array([row[1] for row in rows], np.float64).reshape(-1, 3),
        yaws=yaws,
        velocities=(np.stack((np.cos(yaws), np.sin(yaws)), 1) * speeds[:, None]).reshape(-1, 2),
        labels=np.array([row[4] for row in rows], np.int64),
        scores=np.ones(len(rows)),
        num_points=np.full(len(rows), 80, np.int64),
    )


def rig(cameras: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return intrinsics (N, 3, 3) and LiDAR to camera (N, 4, 4) of cameras that look ahead (+y), back, left, right."""
    k = np.array([[80.0, 0.0, 80.0], [0.0, 80.0, 45.0], [0.0, 0.0, 1.0]])
    poses = []
    for yaw in (0.0, np.pi, np.pi / 2.0, -np.pi / 2.0)[:cameras]:
        c, s = np.cos(yaw), np.sin(yaw)
        pose = np.eye(4)
        pose[:3, :3] = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]) @ [
            [c, s, 0],
            [-s, c, 0],
            [0, 0, 1],
        ]
        pose[:3, 3] = (0.0, -0.3, -0.5)
        poses.append(pose)
    return np.stack([k] * cameras), np.stack(poses)


def _surface(
    rng: np.random.Generator, centre: npt.NDArray[np.float64], size: npt.NDArray[np.float64], yaw: float, light: float
) -> npt.NDArray[np.float64]:
    """Return 80 points (80, 5) on the sides and the top of a box."""
    inner = rng.uniform(-0.5, 0.5, (80, 3))
    axis = rng.integers(0, 3, 80)
    inner[np.arange(80), axis] = np.where(axis == 2, 0.5, np.sign(inner[np.arange(80), axis]) * 0.5)
    inner *= size
    c, s = np.cos(yaw), np.sin(yaw)
    turned = inner @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    return np.concatenate((turned + centre, np.full((80, 1), light), np.zeros((80, 1))), 1)


def _picture(
    boxes: Boxes3D, k: npt.NDArray[np.float64], pose: npt.NDArray[np.float64], rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Return noise with a bright square around the centre of each box that the camera sees."""
    image = rng.integers(0, 60, (*_SIZE, 3), dtype=np.uint8)
    for centre, label in zip(boxes.centres, boxes.labels, strict=True):
        x, y, depth = pose[:3, :3] @ centre + pose[:3, 3]
        if depth > 0.5:
            u, v = round(k[0, 0] * x / depth + k[0, 2]), round(k[1, 1] * y / depth + k[1, 2])
            half = max(round(60.0 / depth), 1)
            image[max(v - half, 0) : max(v + half, 0), max(u - half, 0) : max(u + half, 0), label % 3] = 250
    return image
