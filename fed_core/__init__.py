"""Federated perception without ROS: strategies, roles, training, data and storage."""

__version__ = "0.1.0"
