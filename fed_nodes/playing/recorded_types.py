"""Message classes by the names that stand in bags; only message packages are ever imported."""

import re
from collections.abc import Mapping
from importlib import import_module, util
from pathlib import Path
from typing import Any

from fed_core.errors import DataError

_NAME = re.compile(r"([a-z][a-z0-9_]*)/msg/([A-Z][A-Za-z0-9]*)")
#: Bounds of texts and sequences, which the bytes do not show: "string<10>", "sequence<double, 3>".
_BOUND = re.compile(r"<\d+>|, \d+")


def message_class(name: str, recorded: Mapping[str, Mapping[str, str]] | None = None) -> Any:
    """Return the class of a message type.

    Args:
        name: "sensor_msgs/msg/Image".
        recorded: the bag's definition of it and of the types inside of it, see
            :func:`fed_core.data.message_types.field_types`; nothing = unknown.

    Raises:
        DataError: it is not installed, or was recorded with other fields.
    """
    kind = _installed(name)
    for each, fields in (recorded or {}).items():
        here = _installed(each).get_fields_and_field_types()
        if [field.lower() for field in fields] != [field.lower() for field in here]:
            raise DataError(f"{each} was recorded with other fields than it has here")
        for (field, told), known in zip(fields.items(), here.values(), strict=True):
            if told != _BOUND.sub("", known):
                raise DataError(f"{each} was recorded with other fields than it has here: {field} was {told[:80]}")
    return kind


def _installed(name: str) -> Any:
    match = _NAME.fullmatch(name)
    # A bag may name anything, and importing a package runs its code: first look whether it holds messages.
    if match is None or not _holds_messages(match[1]):
        raise DataError(f"{name} is not installed")
    try:
        return getattr(import_module(f"{match[1]}.msg"), match[2])
    except (ImportError, AttributeError) as err:
        raise DataError(f"{name} is not installed") from err


def _holds_messages(package: str) -> bool:
    spec = util.find_spec(package)
    places = (spec.submodule_search_locations if spec else None) or ()
    return any(any(Path(place).glob("*_s__rosidl_typesupport*")) for place in places)
