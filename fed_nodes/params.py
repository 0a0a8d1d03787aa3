"""Configuration dataclasses as ROS parameters: declared with help text, unit and bounds, read back as the dataclass.

Numbers, texts and flags become parameters of the same type. Trees (mappings, nested dataclasses) become one text
parameter that holds YAML, since ROS has no nested values of free shape.
"""

import dataclasses
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter

from fed_core.config import from_tree, to_tree
from fed_core.errors import ConfigError

C = TypeVar("C")

_LARGEST = 2**53


def load(node: Node, cls: type[C]) -> C:
    """Declare the fields of dataclass ``cls`` as parameters of ``node`` and return their values.

    Raises:
        ConfigError: a value is missing, of the wrong type or out of bounds; one line that names the parameter.
    """
    hints = typing.get_type_hints(cls)
    tree = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = _declare(node, field, hints[field.name])
        if value is not None:
            tree[field.name] = value
    return from_tree(cls, tree, where=node.get_name())


def _declare(node: Node, field: "dataclasses.Field[Any]", hint: Any) -> Any:
    kind = _kind(hint)
    descriptor = ParameterDescriptor(
        description=_description(field), read_only=not field.metadata.get("live", False), dynamic_typing=False
    )
    _bound(descriptor, field, kind)
    default = _default(field)
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
