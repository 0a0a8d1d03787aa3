"""Code of one's own beside the package: strategies, networks, tasks and readers that register themselves.

A plugin is a Python file or an importable module. It is named by ``fedperc --plugin``, by the variable
:data:`VARIABLE` (which child processes, nodes and workers inherit), or by an installed package's entry point of the
group :data:`GROUP`. Registries load all of them before they look a name up. A plugin runs with the rights of the user,
so it is only ever named by the user: never by a message, a fleet file or a model.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from functools import lru_cache
from pathlib import Path

from fed_core.errors import ConfigError

#: Plugins, with the separator of PATH between them.
VARIABLE = "FED_PERCEPTION_PLUGINS"
GROUP = "fed_perception.plugins"
#: Begins the module names of plugins that are files.
PREFIX = "fed_plugin_"

_failed: dict[str, str] = {}
#: Loaded or being loaded: a plugin that asks a registry while it is imported must not begin again.
_begun: set[str] = set()


def add(name: str) -> None:
    """Name a plugin for this process and those that it starts, and load it.

    Args:
        name: a Python file (``mine.py``), or a module that can be imported.

    Raises:
        ConfigError: it cannot be loaded.
    """
    plain = str(Path(name).absolute()) if _is_file(name) else name
    _load(plain)
    known = _named()
    if plain not in known:
        os.environ[VARIABLE] = os.pathsep.join([*known, plain])


def load() -> None:
    """Import every plugin that is named and not imported yet.

    Raises:
        ConfigError: one of them cannot be loaded.
    """
    for name in (*_named(), *_installed()):
        _load(name)


def files() -> list[Path]:
    """Return the files of all plugins without running them; those of modules that are not found are left out."""
    found = []
    for name in (*_named(), *_installed()):
        origin = name if _is_file(name) else _origin(name)
        if origin is not None and Path(origin).is_file():
            found.append(Path(origin))
    return found


def texts() -> list[str]:
    """Return the source of all plugins without running them."""
    return [path.read_text(encoding="utf-8", errors="replace") for path in files()]


def _named() -> list[str]:
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name.strip()]


@lru_cache(maxsize=1)
def _installed() -> list[str]:
    return sorted({entry.module for entry in importlib.metadata.entry_points(group=GROUP)})


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.sep in name


def _origin(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None else None


def _load(name: str) -> None:
    key = str(Path(name).resolve()) if _is_file(name) else name
    if key in _failed:  # what it registered before it failed would now be there twice
        raise ConfigError(_failed[key])
    if key in _begun:
        return
    _begun.add(key)
    try:
        if _is_file(name):
            _run_file(Path(key))
        else:
            importlib.import_module(name)
    except ConfigError as err:
        _failed[key] = f"plugin {name}: {err}"
        raise ConfigError(_failed[key]) from err
    except (Exception, SystemExit) as err:  # it may raise anything; the user learns which line
        _failed[key] = f"plugin {name} cannot be loaded: {_told(err, key)}; correct it, or leave the plugin out"
        raise ConfigError(_failed[key]) from err


def _run_file(path: Path) -> None:
    if not path.is_file():
        raise ConfigError("there is no such file; name a Python file or a module that can be imported")
    if any(_file_of(module) == path for module in list(sys.modules.values())):
        return  # imported before, under whatever name
    name = PREFIX + path.stem
    if name in sys.modules:
        other = getattr(sys.modules[name], "__file__", "")
        raise ConfigError(f"{other} has the same name and is loaded already; rename one of the two files")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError("it is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being run
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _file_of(module: object) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None


def _told(err: BaseException, file: str) -> str:
    """Return an error as one line, with the line of the plugin's file where it came from."""
    line = err.lineno if isinstance(err, SyntaxError) else None
    trace = err.__traceback__
    while trace is not None and not isinstance(err, SyntaxError):
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    text = " ".join(str(err.msg if isinstance(err, SyntaxError) else err).split())
    return f"{type(err).__name__}: {text}" + (f" (line {line})" if line is not None else "")
