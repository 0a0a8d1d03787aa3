"""3D detection: boxes of ten classes from cameras and LiDAR."""

from fed_core.tasks.detection.network import DetectionBatch, DetectionNetwork
from fed_core.tasks.detection.task import DetectionDataset, DetectionTask

__all__ = ["DetectionBatch", "DetectionDataset", "DetectionNetwork", "DetectionTask"]
