"""Recordings as the topics of a robot."""
