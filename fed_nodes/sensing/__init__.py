"""Sensor topics of a robot: subscriptions, their health, and frames out of their messages."""
