"""Networks of fed_perception in pure PyTorch: built by name, exchanged as NumPy arrays."""

from fed_models.base import build, load_arrays, networks, signature, state_arrays

__all__ = ["build", "load_arrays", "networks", "signature", "state_arrays"]
