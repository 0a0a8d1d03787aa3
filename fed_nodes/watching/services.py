"""Services of our nodes that a person acts on."""

from collections.abc import Iterable, Sequence

from rclpy.node import Node

SET_BOOL, TRIGGER = "std_srvs/srv/SetBool", "std_srvs/srv/Trigger"
#: What their names end with, and their types.
ACTS = {
    "/pause_training": SET_BOOL,
    "/new_sequence": TRIGGER,
    "/replay/start": TRIGGER,
    "/replay/stop": TRIGGER,
    "/replay/restart": TRIGGER,
}
#: Stands before the name of a robot that is set aside, in the service that takes it back.
READMIT = "/readmit/"
#: Most that are told.
MAX_SERVICES = 1_000


def find_services(node: Node) -> list[dict[str, str]]:
    """Return name and type of each service in the graph that a person may call, by name."""
    served = node.get_service_names_and_types()
    # A name stays in the graph for as long as somebody would call it; whether it is served is asked for.
    return [service for service in _acts(served) if node.count_services(service["name"])][:MAX_SERVICES]


def _acts(served: Iterable[tuple[str, Sequence[str]]]) -> list[dict[str, str]]:
    named = [(name, _form(name), types) for name, types in served]
    return [{"name": name, "type": form} for name, form, types in sorted(named) if form in types]


def _form(name: str) -> str:
    """Return the type that a service of this name must have; "" where nobody should call it."""
    if name.rpartition(READMIT)[1] and "/" not in name.rpartition(READMIT)[2]:
        return TRIGGER
    return next((form for end, form in ACTS.items() if name.endswith(end)), "")
