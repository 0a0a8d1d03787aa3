"""Files that come with the package: configurations and lists that are data."""

import sys
from pathlib import Path

import fed_core
from fed_core.errors import ConfigError


def shared_file(relative: str) -> Path:
    """Return a file of ``config/``: of the checkout, or of the installed share folder."""
    checkout = Path(fed_core.__file__).resolve().parent.parent / relative
    if checkout.exists():
        return checkout
    installed = Path(sys.prefix) / "share" / "fed_perception" / relative
    if installed.exists():
        return installed
    raise ConfigError(
        f"{relative} is neither in {checkout.parent} nor in {installed.parent}; install the package again"
    )
