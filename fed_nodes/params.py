"""Configuration dataclasses as ROS parameters: declared with help text, unit and bounds, read back as the dataclass.

Numbers, texts and flags become parameters of the same type. Trees (mappings, nested dataclasses) become one text
parameter that holds YAML, since ROS has no nested values of free shape. Fields made with ``live=True`` may change
while the node runs; a change goes through the checks of the dataclass, as a value at the start does.
"""

import dataclasses
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from fed_core.config import from_tree, to_tree
from fed_core.errors import ConfigError

C = TypeVar("C")

_LARGEST = 2**53


def load(node: Node, cls: type[C], on_change: Callable[[C], None] | None = None) -> C:
    """Declare the fields of dataclass ``cls`` as parameters of ``node`` and return their values.

    Args:
        node: gets the parameters.
        cls: dataclass whose fields were made with :func:`fed_core.config.option`.
        on_change: receives the new values, on the executor's thread, each time live ones were changed; without it
            nothing can be changed.

    Raises:
        ConfigError: a value is missing, of the wrong type or out of bounds; one line that names the parameter.
    """
    hints = typing.get_type_hints(cls)
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    tree = {}
    for field in fields:
        value = _declare(node, field, hints[field.name], live=on_change is not None and is_live(field))
        if value is not None:
            tree[field.name] = value
    config = from_tree(cls, tree, where=node.get_name())
    if on_change is not None:
        _LiveValues(node, config, {field.name: hints[field.name] for field in fields if is_live(field)}, on_change)
    return config


def is_live(field: "dataclasses.Field[Any]") -> bool:
    """Return whether a field may change while a node runs."""
    return bool(field.metadata.get("live", False))


class _LiveValues(Generic[C]):
    """Checks changes of live parameters before they happen, and tells of them afterwards."""

    def __init__(self, node: Node, config: C, hints: dict[str, Any], on_change: Callable[[C], None]) -> None:
        self._node, self._config, self._hints, self._on_change = node, config, hints, on_change
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._apply)

    def _check(self, changes: Sequence[Parameter[Any]]) -> SetParametersResult:
        try:
            self._changed(changes)
        except ConfigError as err:
            return SetParametersResult(successful=False, reason=str(err))
        return SetParametersResult(successful=True)

    def _apply(self, changes: Sequence[Parameter[Any]]) -> None:
        config = self._changed(changes)
        if config == self._config:
            return
        told = ", ".join(f"{c.name} is now {c.value}" for c in changes if c.name in self._hints)
        self._node.get_logger().info(told)
        self._config = config
        self._on_change(config)

    def _changed(self, changes: Sequence[Parameter[Any]]) -> C:
        """Return the values after changes; those of other dataclasses of the node are none of ours."""
        new = dict(vars(self._config))
        for change in changes:
            if change.name not in self._hints:
                continue
            hint = self._hints[change.name]
            try:
                _require_type(change, _kind(hint), self._node.get_name())
            except ConfigError:  # ROS took the type of the refused value into the description
                self._node.describe_parameter(change.name).type = _kind(hint).value
                raise
            where = f"{self._node.get_name()}.{change.name}"
            new[change.name] = _from_ros(change.value, _kind(hint), hint, where)
        return from_tree(type(self._config), new, where=self._node.get_name())


def _declare(node: Node, field: "dataclasses.Field[Any]", hint: Any, *, live: bool) -> Any:
    kind = _kind(hint)
    # Types of live ones are checked here, since ROS would refuse in words of its own.
    descriptor = ParameterDescriptor(description=_description(field), read_only=not live, dynamic_typing=live)
    _bound(descriptor, field, kind)
    default = _default(field)
    given = getattr(node, "_parameter_overrides", {}).get(field.name)
    if given is not None:
        _require_type(given, kind, node.get_name())
    elif default is dataclasses.MISSING:
        what = {str: "NAME", Path: "PATH"}.get(hint, "VALUE")
        raise ConfigError(f"{node.get_name()}: parameter {field.name} is missing; give it with -p {field.name}:={what}")
    try:
        if default is dataclasses.MISSING:
            node.declare_parameter(field.name, kind, descriptor)
        else:
            node.declare_parameter(field.name, _to_ros(default, kind), descriptor)
        value = node.get_parameter(field.name).value
    except Exception as err:  # rclpy raises many kinds here, all meaning a bad value
        raise ConfigError(f"{node.get_name()}: parameter {field.name}: {err}") from err
    if value is None:
        return None
    return _from_ros(value, kind, hint, f"{node.get_name()}.{field.name}")


def _require_type(given: "Parameter[Any]", kind: Parameter.Type, node: str) -> None:
    """Refuse a value of another type, and say how the right one is written."""
    if given.type_ == kind:
        return
    value = "nothing" if given.value is None else given.value
    wanted, written = {
        Parameter.Type.BOOL: ("true or false", "true"),
        Parameter.Type.INTEGER: ("a whole number", "2"),
        Parameter.Type.DOUBLE: ("a number with a fraction", f"{value}.0" if type(value) is int else "1.0"),
    }.get(kind, ("a text", f"\"'{str(value).lower() if isinstance(value, bool) else value}'\""))
    example = f"as in -p {given.name}:={written}"
    raise ConfigError(f"{node}: parameter {given.name} is {value!r}, but {wanted} is expected, {example}")


def _kind(hint: Any) -> Parameter.Type:
    simple = {
        bool: Parameter.Type.BOOL,
        int: Parameter.Type.INTEGER,
        float: Parameter.Type.DOUBLE,
    }
    return simple.get(hint, Parameter.Type.STRING)


def _description(field: "dataclasses.Field[Any]") -> str:
    text = field.metadata.get("help", "")
    unit = field.metadata.get("unit", "")
    choices = ", ".join(field.metadata.get("choices", ()))
    return text + (f" [{unit}]" if unit else "") + (f"; one of {choices}" if choices else "")


def _bound(descriptor: ParameterDescriptor, field: "dataclasses.Field[Any]", kind: Parameter.Type) -> None:
    low, high = field.metadata.get("low"), field.metadata.get("high")
    if low is None and high is None:
        return
    if kind is Parameter.Type.INTEGER:
        span = IntegerRange(from_value=int(low or 0), to_value=int(_LARGEST if high is None else high), step=1)
        descriptor.integer_range = [span]
    elif kind is Parameter.Type.DOUBLE:
        high = float(_LARGEST) if high is None else float(high)
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low or 0.0), to_value=high, step=0.0)]


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return dataclasses.MISSING


def _to_ros(value: Any, kind: Parameter.Type) -> Any:
    if kind is not Parameter.Type.STRING:
        return float(value) if kind is Parameter.Type.DOUBLE else value
    if value is None:
        return ""
    if isinstance(value, str | Path):
        return str(value)
    return yaml.safe_dump(to_tree(value), default_flow_style=True).strip()


def _from_ros(value: Any, kind: Parameter.Type, hint: Any, where: str) -> Any:
    if kind is not Parameter.Type.STRING or hint in (str, Path):
        return value
    if not value:
        return None
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as err:
        raise ConfigError(f"{where} is not valid YAML: {' '.join(str(err).split())}") from err
