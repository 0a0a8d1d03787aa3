"""Detectors of mmdet3d 1.4 as networks of a fleet: any config and checkpoint whose boxes lie in the LiDAR frame.

The library is imported when such a network is built, never before; nothing of it is copied here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from fed_core.config import check, option
from fed_core.errors import ConfigError
from fed_core.tasks.detection.network import DetectionBatch
from fed_core.types import IMAGE_MEAN, IMAGE_STD, Boxes3D
from fed_models.base import NetworkConfig, networks
from fed_models.openmmlab.boxes import WITH_VELOCITY, from_instances, to_tensors
from fed_models.openmmlab.checkpoints import load_checkpoint
from fed_models.openmmlab.configs import DetectorPlan, read_plan
from fed_models.openmmlab.libraries import Libraries, libraries, operations, reason, silent

#: Names under which detectors of mmdet3d hold the head that predicts boxes.
_HEADS = ("pts_bbox_head", "bbox_head", "roi_head", "rpn_head")
_BOX_VALUES = 7


class Mmdet3dDetector(nn.Module):
    """A detector of mmdet3d behind the contract of the detection task.

    Args:
        libs: the libraries.
        plan: what the config says of the inputs.
        detector: the model, built.

    Attributes:
        image_size: (H, W) of the pictures in pixels, None for a detector that takes points alone.
        num_cameras: 1 where it takes one picture, else 0 (all).
        point_range: (x_min, y_min, z_min, x_max, y_max, z_max) [m] of the LiDAR frame.
        max_points: 0, all points; voxels bound them.
        augmentation: how the task varies training samples: in space only, since these detectors expect all sensors.
    """

    augmentation: str = "light"

    def __init__(self, libs: Libraries, plan: DetectorPlan, detector: nn.Module) -> None:
        super().__init__()
        self.detector: Any = detector
        self.image_size = plan.image_size
        self.num_cameras = 1 if plan.single_view else 0
        self.point_range = plan.point_range
        self.max_points = 0
        self._libs, self._plan = libs, plan
        self._box_values = _box_values(detector)

    def head_modules(self) -> tuple[str, ...]:
        """Return the paths of the modules that predict boxes (FedRep keeps them on the robot)."""
        return tuple(f"detector.{name}" for name in _HEADS if isinstance(getattr(self.detector, name, None), nn.Module))

    def image_backbone_modules(self) -> tuple[str, ...]:
        """Return the paths of the backbone of the pictures, where it is a module of its own (it learns slower)."""
        return ("detector.img_backbone",) if getattr(self.detector, "img_backbone", None) is not None else ()

    def image_neck_modules(self) -> tuple[str, ...]:
        """Return the paths of the neck of the pictures, where it is a module of its own (it learns slower)."""
        return ("detector.img_neck",) if getattr(self.detector, "img_neck", None) is not None else ()

    def forward(self, batch: DetectionBatch) -> Any:
        """Return the losses by name in train mode, one ``Det3DDataSample`` with predictions per scan in eval mode.

        Args:
            batch: B scans; pictures are given to the model as its own readers do, 0 to 255 in the order BGR.
        """
        return self._run(batch, "loss" if self.training else "predict")

    def loss(self, batch: DetectionBatch, outputs: Any) -> Tensor:
        """Return the sum of the model's losses, () float32; what only informs (accuracy) is no part of it."""
        losses = outputs if isinstance(outputs, dict) else self._run(batch, "loss")
        total: Tensor = self.detector.parse_losses(losses)[0]
        return total

    def decode(self, batch: DetectionBatch, outputs: Any) -> Sequence[Boxes3D]:
        """Return the predicted boxes of each scan in the LiDAR frame, best score first; in eval mode."""
        return [from_instances(sample.pred_instances_3d, self._plan.labels) for sample in outputs]

    def _run(self, batch: DetectionBatch, mode: str) -> Any:
        device = next(self.parameters()).device
        inputs: dict[str, Any] = {"points": [self._cloud(points) for points in batch.points]}
        if self.image_size is not None:
            inputs["img"] = self._pictures(batch.images)
        samples = [self._sample(batch, index, mode == "loss") for index in range(len(batch.points))]
        preprocessor = self.detector.data_preprocessor.to(device)
        with operations(self._plan.path):
            data = preprocessor({"inputs": inputs, "data_samples": samples}, mode == "loss")
            return self.detector(data["inputs"], data["data_samples"], mode=mode)

    def _cloud(self, points: Tensor) -> Tensor:
        """Return the columns that the model takes of the points in its range; never none.

        Without a point a scan would have no voxel, and mmdet3d counts scans by the voxels of the last one.
        """
        low, high = (points.new_tensor(self.point_range[part]) for part in (slice(0, 3), slice(3, 6)))
        inside = points[((points[:, :3] >= low) & (points[:, :3] < high)).all(dim=1)]
        if not len(inside):
            inside = points.new_zeros(1, points.shape[1])
            inside[0, :3] = (low + high) / 2
        return inside[:, list(self._plan.columns)]

    def _pictures(self, images: Tensor) -> list[Tensor]:
        """Return the pictures (N, 3, H, W) of each scan, or (3, H, W), as OpenCV reads them: 0 to 255, BGR."""
        mean, std = (images.new_tensor(values).view(3, 1, 1) for values in (IMAGE_MEAN, IMAGE_STD))
        pixels = ((images * std + mean) * 255.0).clamp(0.0, 255.0).flip(dims=(2,))
        return [views[0] if self._plan.single_view else views for views in pixels]

    def _sample(self, batch: DetectionBatch, index: int, with_truth: bool) -> Any:
        sample = self._libs.sample(metainfo=self._meta(batch, index))
        instances = self._libs.instances()
        if with_truth:
            device = next(self.parameters()).device
            rows, labels = to_tensors(self._learnable(batch.boxes[index]), self._plan.labels, self._box_values)
            boxes = self._libs.lidar_boxes(rows.to(device), box_dim=self._box_values)
            instances.bboxes_3d, instances.labels_3d = boxes, labels.to(device)
        sample.gt_instances_3d = instances
        return sample

    def _learnable(self, boxes: Boxes3D) -> Boxes3D:
        """Return the boxes that mmdet3d would train with: points inside, the centre in range seen from above."""
        low, high = np.array(self.point_range[:2]), np.array(self.point_range[3:5])
        inside = ((boxes.centres[:, :2] >= low) & (boxes.centres[:, :2] < high)).all(axis=1)
        return boxes.take(inside & (boxes.num_points > 0))

    def _meta(self, batch: DetectionBatch, index: int) -> dict[str, Any]:
        """Return what mmdet3d's transforms would have told of a scan that none of them changed."""
        meta: dict[str, Any] = {
            "box_type_3d": self._libs.lidar_boxes,
            "box_mode_3d": 0,
            "sample_idx": index,
            "pcd_horizontal_flip": False,
            "pcd_vertical_flip": False,
        }
        if self.image_size is not None:
            matrices = batch.lidar_to_pixel[index].detach().cpu().double().numpy()
            shape = tuple(int(side) for side in batch.images.shape[-2:])
            single = self._plan.single_view
            meta["lidar2img"] = matrices[0] if single else list(matrices)
            for key in ("img_shape", "ori_shape", "pad_shape", "input_shape"):
                meta[key] = shape if single else [(*shape, 3)] * len(matrices)
            meta |= {"flip": False, "num_views": len(matrices)}
        return meta


@networks.register("mmdet3d")
@dataclass(frozen=True)
class Mmdet3d(NetworkConfig):
    """Any detector of mmdet3d 1.4 whose boxes lie in the LiDAR frame."""

    config: str = option(help="config file of mmdet3d, or mmdet3d::FOLDER/FILE of those shipped; a Python file is run")
    checkpoint: str = option("", help="checkpoint of that config; empty: random weights")

    def __post_init__(self) -> None:
        check(self)

    def build(self) -> Mmdet3dDetector:
        """Return the network; weights that the config itself would download are left out."""
        libs = libraries()
        plan = read_plan(libs, self.config)
        network = Mmdet3dDetector(libs, plan, _build(libs, plan))
        if self.checkpoint:
            load_checkpoint(network.detector, self.checkpoint)
        return network


def _build(libs: Libraries, plan: DetectorPlan) -> Any:
    try:
        with silent(), libs.default_scope.overwrite_default_scope("mmdet3d"):
            detector = libs.models.build(plan.model)
            detector.init_weights()
    except Exception as err:  # a model's constructor may raise anything
        raise ConfigError(_build_failure(err, plan.path, libs.version)) from err
    head = next((getattr(detector, name) for name in _HEADS if hasattr(detector, name)), None)
    classes = getattr(head, "num_classes", None)
    if isinstance(classes, int) and classes != len(plan.labels):
        text = f"mmdet3d config {plan.path} has {len(plan.labels)} class_names, but its head has {classes} classes"
        raise ConfigError(f"{text}; make them equal, in the order of the head")
    return detector


def _build_failure(err: Exception, path: str, version: str) -> str:
    text = reason(err)
    if "is not in the" in text and "registry" in text:
        name = text.split(" is not in the")[0].split()[-1].strip("'\"")
        return (
            f"mmdet3d config {path} needs {name!r}, which mmdet3d {version} here does not have; "
            "install what registers it and name that in the config's custom_imports"
        )
    if isinstance(err, ModuleNotFoundError):
        return f"mmdet3d config {path} needs the package {err.name!r}, which is absent; install it"
    return f"mmdet3d config {path} does not build: {text}"


def _box_values(detector: nn.Module) -> int:
    """Return how many values a box of the model has: 9 with a velocity, else 7."""
    for name in _HEADS:
        size = getattr(getattr(getattr(detector, name, None), "bbox_coder", None), "code_size", None)
        if isinstance(size, int):
            return WITH_VELOCITY if size >= WITH_VELOCITY else _BOX_VALUES
    return _BOX_VALUES
