"""Message classes by the names that stand in bags; only message packages are ever imported."""

import re
from importlib import import_module, util
from pathlib import Path
from typing import Any

from fed_core.errors import DataError

_NAME = re.compile(r"([a-z][a-z0-9_]*)/msg/([A-Z][A-Za-z0-9]*)")


def message_class(name: str, fields: tuple[str, ...] = ()) -> Any:
    """Return the class of a message type.

    Args:
        name: "sensor_msgs/msg/Image".
        fields: names of the fields that the bag's definition gives it; () = unknown.

    Raises:
        DataError: it is not installed, or was recorded with other fields.
    """
    match = _NAME.fullmatch(name)
    # A bag may name anything, and importing a package runs its code: first look whether it holds messages.
    if match is None or not _holds_messages(match[1]):
        raise DataError(f"{name} is not installed")
    try:
        kind = getattr(import_module(f"{match[1]}.msg"), match[2])
    except (ImportError, AttributeError) as err:
        raise DataError(f"{name} is not installed") from err
    installed = tuple(kind.get_fields_and_field_types())
    if fields and tuple(map(str.lower, fields)) != tuple(map(str.lower, installed)):
        raise DataError(f"{name} was recorded with other fields than it has here")
    return kind


def _holds_messages(package: str) -> bool:
    spec = util.find_spec(package)
    places = (spec.submodule_search_locations if spec else None) or ()
    return any(any(Path(place).glob("*_s__rosidl_typesupport*")) for place in places)
