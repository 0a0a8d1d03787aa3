"""What only some users need is imported on use; where it is absent, one line says how to get it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version

from fed_core.errors import ConfigError, FedError


def install(extra: str) -> str:
    """Return the command that adds an extra of ours to the environment."""
    return f"pip install 'fed_perception[{extra}]'"


@contextmanager
def needs(extra: str, what: str, error: type[FedError] = ConfigError) -> Iterator[None]:
    """Turn a failing import into one line that names the extra.

    Args:
        extra: a key of ``extras_require`` in ``setup.py``.
        what: who needs which package, as ``the engine ray needs Ray``.
        error: class of what is raised.
    """
    try:
        yield
    except ImportError as err:
        reason = " ".join(str(err).split())
        raise error(f"{what}, which cannot be imported ({reason}); run: {install(extra)}") from err


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
