"""Federated methods, one file each; both halves of a method sit together."""

from fed_core.strategies.base import strategies

__all__ = ["strategies"]
