"""Monocular depth: RGB in, metres out."""

from fed_core.tasks.depth.task import DepthBatch, DepthDataset, DepthTask

__all__ = ["DepthBatch", "DepthDataset", "DepthTask"]
