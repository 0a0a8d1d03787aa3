"""Flower (flwr) on one side, our strategies and our trainer on the other."""

try:
    import flwr  # noqa: F401 - only whether it is there
except ImportError as err:
    _HOW = "pip install 'fed_perception[flower]' (Python 3.11 or newer)"
    raise ImportError(f"fed_flower needs the package flwr, which cannot be imported ({err}); {_HOW}") from None
