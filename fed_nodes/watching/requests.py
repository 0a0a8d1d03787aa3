"""Requests to call a service, as the lines in which they come, and their answers."""

import json
from dataclasses import dataclass
from typing import Any, TypeGuard

from rclpy.exceptions import InvalidServiceNameException
from rclpy.validate_full_topic_name import validate_full_topic_name
from std_srvs.srv import SetBool, Trigger

from fed_core.errors import DataError
from fed_nodes.watching.lines import MAX_LINE
from fed_nodes.watching.services import SET_BOOL, TRIGGER

TYPES = {SET_BOOL: SetBool, TRIGGER: Trigger}
#: Most characters of what is quoted in an answer.
_SHOWN = 60
_EXAMPLE = '{"id": 1, "service": "/brick/pause_training", "type": "std_srvs/srv/SetBool", "value": true}'


@dataclass(frozen=True)
class Request:
    """One call of a service.

    Attributes:
        id: whatever the caller knows the answer by.
        service: full name.
        type: ROS name of its type.
        value: what SetBool is called with.
    """

    id: int | str
    service: str
    type: str
    value: bool = False

    def message(self) -> Any:
        """Return the request as a message."""
        return SetBool.Request(data=self.value) if self.type == SET_BOOL else Trigger.Request()


def read_request(line: bytes) -> Request:
    """Return the request of a line; what is wrong with it is a :class:`DataError`."""
    tree = _tree(line)
    number, service, form, value = (tree.get(key) for key in ("id", "service", "type", "value"))
    if not _is_id(number):
        raise DataError(f"id is {_shown(number)}; expected a whole number or a text")
    if not isinstance(form, str) or form not in TYPES:
        raise DataError(f"type is {_shown(form)}; it can be {' or '.join(TYPES)}")
    if not isinstance(service, str):
        raise DataError(f"service is {_shown(service)}; expected its full name, such as /brick/pause_training")
    try:
        validate_full_topic_name(service, is_service=True)
    except InvalidServiceNameException as err:
        raise DataError(
            f"service {_shown(service)} is no full name of a service, such as /brick/pause_training"
        ) from err
    if form == SET_BOOL and not isinstance(value, bool):
        raise DataError(f"value is {_shown(value)}; {SET_BOOL} takes true or false")
    return Request(number, service, form, value is True)


def id_of(line: bytes) -> int | str | None:
    """Return the id of a line, as far as it can be made out."""
    try:
        number = _tree(line).get("id")
    except DataError:
        return None
    return number if _is_id(number) else None


def answer(number: int | str | None, text: str, *, ok: bool = False) -> str:
    """Return the line of an answer."""
    return json.dumps({"id": number, "ok": ok, "text": text})


def _tree(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise DataError(f"a line is longer than {MAX_LINE} bytes; expected {_EXAMPLE}")
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise DataError(f"a line is no JSON: {_shown(line.decode('utf-8', 'replace'))}; expected {_EXAMPLE}") from err
    if not isinstance(tree, dict):
        raise DataError(f"a line is no JSON object: {_shown(tree)}; expected {_EXAMPLE}")
    return tree


def _is_id(number: Any) -> TypeGuard[int | str]:
    return isinstance(number, int | str) and not isinstance(number, bool)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
