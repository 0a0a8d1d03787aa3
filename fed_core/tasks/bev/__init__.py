"""Bird's eye view: the cameras of a vehicle in, the cells around it that hold other vehicles out."""

from fed_core.tasks.bev.loss import vehicle_loss
from fed_core.tasks.bev.task import BevBatch, BevDataset, BevTask, Views

__all__ = ["BevBatch", "BevDataset", "BevTask", "Views", "vehicle_loss"]
