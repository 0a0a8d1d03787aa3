"""Names to classes: a new strategy, network, task or reader is one new file."""

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from fed_core import plugins
from fed_core.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes by name; the modules of ``package`` and the plugins (:mod:`fed_core.plugins`) are imported on first use.

    Args:
        kind: what is registered, for messages ("strategy").
        package: dotted name of the package whose modules register themselves.
    """

    def __init__(self, kind: str, package: str) -> None:
        self._kind = kind
        self._package = package
        self._entries: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that enters its class (or function) under ``name``."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self._kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return enter

    def get(self, name: str) -> T:
        """Return the entry of ``name``; an unknown name raises :class:`UnknownNameError` with the known ones."""
        self._load()
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(sorted(self._entries))
            raise UnknownNameError(f"no {self._kind} is called {name!r}; known: {known}") from None

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self._load()
        return sorted(self._entries)

    def _load(self) -> None:
        if not self._loaded:
            self._load_package()
        plugins.load()

    def _load_package(self) -> None:
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{self._package}.{module.name}")
        self._loaded = True


def check_name(kind: str, name: str, package: str) -> None:
    """Refuse a name that no module of a package and no plugin registers.

    The modules are read, not imported: those of networks and tasks load PyTorch.

    Args:
        kind: what is registered, with the registry called ``<kind>s``.
        name: what is looked for.
        package: dotted name of a package; one whose text is not there accepts every name.

    Raises:
        UnknownNameError: with the known names.
    """
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    texts = [path.read_text(encoding="utf-8") for folder in folders or () for path in Path(folder).rglob("*.py")]
    entry = re.compile(rf"""^@{kind}s\.register\(["'](\w+)["']\)""", re.MULTILINE)
    known = sorted({found for text in (*texts, *plugins.texts()) for found in entry.findall(text)})
    if texts and known and name not in known:
        raise UnknownNameError(f"no {kind} is called {name!r}; known: {', '.join(known)}")
