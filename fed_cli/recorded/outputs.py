"""What of a bag was published by inference nodes, and the messages that belong to each of its frames."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fed_core.data.bag_files import BagFile, RawMessage
from fed_core.data.bag_topics import CAMERA_INFO, COMPRESSED, IMAGE, list_topics
from fed_core.errors import DataError

MARKERS, GRID, CLOUD = "visualization_msgs/msg/MarkerArray", "nav_msgs/msg/OccupancyGrid", "sensor_msgs/msg/PointCloud2"
#: What inference publishes: kind, the end of its topic, its type.
_KINDS = (("depth", "/depth/image", IMAGE), ("boxes", "/detections/markers", MARKERS), ("map", "/occupancy", GRID))
#: Messages whose stamps are further apart than this are of different frames [ns].
_SLOP_NS = 60_000_000


@dataclass(frozen=True)
class Output:
    """One topic that an inference node published.

    Attributes:
        kind: "depth", "boxes" or "map".
        topic: its name.
        namespace: the node's, "" for the root.
    """

    kind: str
    topic: str
    namespace: str


def find_outputs(bag: BagFile) -> list[Output]:
    """Return the outputs of inference nodes in a bag; one without any raises :class:`DataError`."""
    found = []
    for topic in bag.topics.values():
        for kind, end, form in _KINDS:
            is_sensor = topic.name.endswith(("/truth/occupancy", "/camera/depth/image"))
            if topic.type == form and topic.name.endswith(end) and topic.count and not is_sensor:
                found.append(Output(kind, topic.name, topic.name.removesuffix(end)))
    if not found:
        wanted = ", ".join(end[1:] for _, end, _ in _KINDS)
        there = list_topics(t for t in bag.topics.values() if t.count) or "nothing"
        look = "to look at a recording: fedperc inspect"
        raise DataError(f"{bag.path} has nothing that inference published ({wanted}); it has {there}; {look}")
    return found


def below(bag: BagFile, namespace: str, types: Collection[str], end: str = "") -> list[str]:
    """Return the names of topics in a namespace, of one of these types, that have messages and end like this."""
    start = f"{namespace}/"
    topics = bag.topics.values()
    return [t.name for t in topics if t.name.startswith(start) and t.type in types and t.count and t.name.endswith(end)]


def cameras_below(bag: BagFile, namespace: str) -> dict[str, str]:
    """Return the colour topics in a namespace by camera; a raw one is preferred to its compressed one."""
    found: dict[str, str] = {}
    for end, form in (("/image_raw/compressed", COMPRESSED), ("/image_raw", IMAGE)):
        for topic in below(bag, namespace, (form,), end):
            name = topic.removesuffix(end).removeprefix(f"{namespace}/")
            if "depth" not in name.split("/"):
                found[name] = topic
    return found


def info_of(bag: BagFile, colour: str) -> Any | None:
    """Return the first CameraInfo beside a colour topic, None where there is none."""
    topic = f"{colour.removesuffix('/compressed').rsplit('/', 1)[0]}/camera_info"
    known = bag.topics.get(topic)
    return bag.first(topic) if known is not None and known.type == CAMERA_INFO and known.count else None


def gather(bag: BagFile, output: Output, others: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Return evenly chosen frames of an output: its message and, of other topics, that of nearly the same stamp.

    Args:
        bag: the bag.
        output: what is to be shown.
        others: topics that may have a message for a frame.
        count: most frames.

    Returns:
        Messages by topic, in order of time; what a frame has no message of is missing.
    """
    marks = [stamp_of(bag, raw, output) for raw in bag.messages([output.topic])]
    stamps = sorted({stamp for stamp in marks if stamp is not None})
    if not stamps:
        raise DataError(f"{bag.path}: no message of {output.topic} has anything in it")
    ends = (0, len(stamps) - 1) if count > 1 else (len(stamps) // 2, len(stamps) // 2)
    chosen = [stamps[k] for k in np.unique(np.linspace(*ends, count).round().astype(int))]
    kept: list[dict[str, tuple[int, RawMessage]]] = [{} for _ in chosen]
    for raw in bag.messages([output.topic, *others]):
        stamp = stamp_of(bag, raw, output)
        if stamp is None:
            continue
        for wanted, messages in zip(chosen, kept, strict=True):
            apart = abs(stamp - wanted)
            if apart <= _SLOP_NS and apart < messages.get(raw.topic, (_SLOP_NS + 1, raw))[0]:
                messages[raw.topic] = (apart, raw)
    return [{topic: bag.decode(raw) for topic, (_, raw) in messages.items()} for messages in kept]


def stamp_of(bag: BagFile, raw: RawMessage, output: Output) -> int | None:
    """Return the stamp of a message [ns]; of markers that of the first, None where there is none."""
    if bag.topics[raw.topic].type != MARKERS:
        return bag.stamp_ns(raw)
    markers = bag.decode(raw).markers
    if not markers or (raw.topic == output.topic and len(markers) == 1):  # one that only deletes has no boxes
        return None
    stamp = markers[0].header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
