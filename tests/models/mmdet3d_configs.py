"""Small configs of mmdet3d for tests, on top of those that it ships, and scans for them."""

from pathlib import Path

import numpy as np
import torch

from fed_core.tasks.detection.network import DetectionBatch
from fed_core.types import Boxes3D, DetectionFrame

POINTPILLARS = """
_base_ = "mmdet3d::_base_/models/pointpillars_hv_secfpn_kitti.py"
class_names = ["Pedestrian", "Cyclist", "Car"]
point_cloud_range = [-16, -16, -3, 16, 16, 1]
voxel_size = [0.5, 0.5, 4]
model = dict(
    data_preprocessor=dict(
        voxel_layer=dict(
            max_num_points=8, point_cloud_range=point_cloud_range, voxel_size=voxel_size, max_voxels=(500, 500)
        )
    ),
    voxel_encoder=dict(feat_channels=[WIDTH], voxel_size=voxel_size, point_cloud_range=point_cloud_range),
    middle_encoder=dict(in_channels=WIDTH, output_shape=[64, 64]),
    backbone=dict(in_channels=WIDTH, layer_nums=[1, 1, 1], out_channels=[WIDTH, WIDTH, WIDTH]),
    neck=dict(in_channels=[WIDTH, WIDTH, WIDTH], out_channels=[WIDTH, WIDTH, WIDTH]),
    bbox_head=dict(
        in_channels=3 * WIDTH,
        feat_channels=3 * WIDTH,
        anchor_generator=dict(ranges=[[-16, -16, -1.8, 16, 16, -1.8]] * 3),
    ),
    test_cfg=dict(score_thr=0.0),
)
"""

#: One picture, no points: ImVoxelNet, whose backbone the shipped config would start from downloaded weights.
IMVOXELNET = """
_base_ = "mmdet3d::imvoxelnet/imvoxelnet_8xb4_kitti-3d-car.py"
model = dict(
    backbone=dict(depth=18, base_channels=8, frozen_stages=-1),
    neck=dict(in_channels=[8, 16, 32, 64], out_channels=8),
    neck_3d=dict(in_channels=8, out_channels=16),
    bbox_head=dict(in_channels=16, feat_channels=16),
    n_voxels=[16, 16, 12],
)
test_pipeline = [
    dict(type="LoadImageFromFileMono3D"),
    dict(type="Resize", scale=(96, 64), keep_ratio=True),
    dict(type="Pack3DDetInputs", keys=["img"]),
]
"""


def write_config(folder: Path, text: str = POINTPILLARS, width: int = 16) -> str:
    """Write a config; ``width`` are the channels of PointPillars."""
    path = folder / f"config_{len(list(folder.iterdir()))}.py"
    path.write_text(text.replace("WIDTH", str(width)))
    return str(path)


def batch_of(*frames: DetectionFrame) -> DetectionBatch:
    """Return scans without pictures."""
    return DetectionBatch(
        images=torch.zeros(len(frames), 0, 3, 1, 1),
        lidar_to_pixel=torch.zeros(len(frames), 0, 4, 4),
        points=tuple(torch.from_numpy(frame.points) for frame in frames),
        boxes=tuple(frame.boxes for frame in frames),
    )


def boxes_of(
    centres: list[list[float]], sizes: list[list[float]], yaws: list[float], labels: list[int], num_points: int = 9
) -> Boxes3D:
    """Return true boxes that stand."""
    count = len(labels)
    return Boxes3D(
        centres=np.array(centres, np.float64).reshape(-1, 3),
        sizes=np.array(sizes, np.float64).reshape(-1, 3),
        yaws=np.array(yaws, np.float64),
        velocities=np.full((count, 2), np.nan),
        labels=np.array(labels, np.int64),
        scores=np.ones(count),
        num_points=np.full(count, num_points, np.int64),
    )
