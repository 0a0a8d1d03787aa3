"""One configuration tree: frozen dataclasses that are YAML, ROS parameters and CLI flags alike.

A field made with :func:`option` carries its help text, unit and bounds; the YAML reader here, the parameter
descriptors of the nodes and the CLI all read the same metadata. Unknown keys are errors.
"""

import collections.abc
import dataclasses
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fed_core.errors import ConfigError

C = TypeVar("C")


def option(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    live: bool = False,
) -> Any:
    """Return a dataclass field with a description and bounds (inclusive).

    Args:
        default: default value; without one the field is required.
        help: one line for people.
        unit: unit of a number ("s", "m", "count").
        low: smallest allowed value.
        high: largest allowed value.
        choices: allowed texts.
        live: may change while a node runs.
    """
    metadata = {"help": help, "unit": unit, "low": low, "high": high, "choices": choices, "live": live}
    return dataclasses.field(default=default, metadata=metadata)


def check(config: Any) -> None:
    """Check every field made with :func:`option` against its bounds; call it in ``__post_init__``."""
    for field in dataclasses.fields(config):
        low, high = field.metadata.get("low"), field.metadata.get("high")
        choices = field.metadata.get("choices", ())
        value = getattr(config, field.name)
        where = f"{type(config).__name__}.{field.name}"
        if choices and value not in choices:
            told = ", ".join(name or "''" for name in choices)
            raise ConfigError(f"{where} is {value!r}; choose one of {told}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if (low is not None and not value >= low) or (high is not None and not value <= high):
            raise ConfigError(f"{where} is {value}; it must {_bounds(low, high)}")


def _bounds(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"be at least {low}" if high is None else f"be at most {high}"
    return f"lie between {low} and {high}"


def from_tree(cls: type[C], tree: Any, where: str = "") -> C:
    """Build dataclass ``cls`` from a tree of dicts; unknown keys and wrong types raise :class:`ConfigError`."""
    place = where or cls.__name__
    if not isinstance(tree, dict):
        raise ConfigError(f"{place}: expected keys and values, got {tree!r}")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for key in tree:
        if key not in fields:
            raise ConfigError(f"{place}: unknown key {key!r}; known: {', '.join(fields)}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in tree:
            raise ConfigError(f"{place}: key {name!r} is missing")
    return cls(**{key: _convert(hints[key], value, f"{place}.{key}") for key, value in tree.items()})


def to_tree(config: Any) -> Any:
    """Return the plain tree of a dataclass, ready for YAML and JSON."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {f.name: to_tree(getattr(config, f.name)) for f in dataclasses.fields(config)}
    if isinstance(config, dict):
        return {key: to_tree(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [to_tree(value) for value in config]
    return str(config) if isinstance(config, Path) else config


def read_yaml(path: Path) -> Any:
    """Return the tree of a YAML file; a missing or broken file raises :class:`ConfigError`."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise ConfigError(f"cannot read {path}: {err.strerror}") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path} is not text in UTF-8 ({err.reason} at byte {err.start})") from err
    except yaml.YAMLError as err:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(err).split())}") from err


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(hint)
        if value is None and type(None) in options:
            return None
        return _convert(next(o for o in options if o is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else from_tree(hint, value, where)  # type: ignore[arg-type]
    if origin in (tuple, list):
        return _sequence(hint, value, where)
    if origin in (dict, collections.abc.Mapping) or hint is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where}: expected keys and values, got {value!r}")
        args = typing.get_args(hint)
        return {k: _convert(args[1], v, f"{where}.{k}") if args else v for k, v in value.items()}
    if hint is Path and isinstance(value, str | Path):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise ConfigError(f"{where}: expected {hint.__name__}, got {value!r}")
    return value


def _sequence(hint: Any, value: Any, where: str) -> Any:
    args = typing.get_args(hint)
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: expected a list, got {value!r}")
    if typing.get_origin(hint) is list or (len(args) == 2 and args[1] is Ellipsis):
        inner = [args[0]] * len(value)
    elif len(args) == len(value):
        inner = list(args)
    else:
        raise ConfigError(f"{where}: expected {len(args)} values, got {len(value)}")
    items = [_convert(h, v, f"{where}[{i}]") for i, (h, v) in enumerate(zip(inner, value, strict=True))]
    return items if typing.get_origin(hint) is list else tuple(items)
