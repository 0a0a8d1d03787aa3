"""Metrics of each task, in NumPy."""
