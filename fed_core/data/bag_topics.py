"""Which topics of a bag make up its RGB-D frames."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from fed_core.data.bag_files import BagFile, Topic
from fed_core.data.images import COLOUR_ENCODINGS, COLOUR_TEXT, DEPTH_ENCODINGS
from fed_core.data.options import OpenOptions, TopicNames
from fed_core.errors import DataError, EncodingError

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"

_SHOWN = 12


@dataclass(frozen=True)
class _Candidate:
    topic: str
    role: str  # "colour", "depth", or "" where the encoding is not supported
    encoding: str
    compressed: bool


_Rank: TypeAlias = Callable[[_Candidate], tuple[int, ...]]


def choose_topics(bag: BagFile, options: OpenOptions) -> TopicNames:
    """Return the topics to read: the named ones, the others by type, encoding and common namespace.

    Raises:
        DataError: a topic is not there, or several fit equally well; names what is there.
        EncodingError: there are images, but of encodings that are not supported.
    """
    named = options.topics
    _require(bag, named.colour, (IMAGE, COMPRESSED))
    _require(bag, named.depth, (IMAGE, COMPRESSED))
    _require(bag, named.info, (CAMERA_INFO,))
    found = [] if named.colour and named.depth else _candidates(bag)
    depth = named.depth or _choose_depth(bag, found)
    colour = named.colour or _choose_colour(bag, found, depth)
    info = named.info or ("" if options.intrinsics else _choose_info(bag, colour, depth))
    return TopicNames(colour, depth, info)


def choose_colour_topics(bag: BagFile, options: OpenOptions) -> TopicNames:
    """Return the colour topic, and its CameraInfo where there is one; depth stays empty.

    Raises:
        DataError: the named topic is not there, or none or several fit.
        EncodingError: there are images, but of encodings that are not supported.
    """
    named = options.topics
    _require(bag, named.colour, (IMAGE, COMPRESSED))
    _require(bag, named.info, (CAMERA_INFO,))
    colour = named.colour or _choose_colour(bag, _candidates(bag), "")
    try:
        info = named.info or _choose_info(bag, colour, "")
    except DataError:  # pictures can be played without a camera
        info = ""
    return TopicNames(colour, "", info)


def depth_unit(bag: BagFile, depth: str) -> str:
    """Return the unit that a RealSense recorder states beside its depth topic ("1/1000 m"), else ""."""
    sensor = "/".join(depth.split("/")[:3])
    topic = bag.topics.get(f"{sensor}/option/Depth Units/value")
    if topic is None or topic.type != "std_msgs/msg/Float32":
        return ""
    metres = float(bag.first(topic.name).data) if topic.count else 0.0
    return f"1/{round(1 / metres)} m" if 0 < metres <= 1 else ""


def list_topics(topics: Iterable[Topic]) -> str:
    """Return names and types in one line for messages."""
    texts = [f"{t.name} ({t.type})" for t in topics]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _require(bag: BagFile, topic: str, types: tuple[str, ...]) -> None:
    if not topic:
        return
    if topic not in bag.topics:
        raise DataError(f"{bag.path} has no topic {topic}; topics there: {list_topics(bag.topics.values())}")
    if bag.topics[topic].type not in types:
        raise DataError(f"{bag.path}: topic {topic} is {bag.topics[topic].type}; expected {' or '.join(types)}")


def _candidates(bag: BagFile) -> list[_Candidate]:
    found = []
    for topic in bag.topics.values():
        if topic.count and topic.type == IMAGE:
            encoding = str(bag.first(topic.name).encoding)
            role = "depth" if encoding in DEPTH_ENCODINGS else "colour" if encoding in COLOUR_ENCODINGS else ""
            found.append(_Candidate(topic.name, role, encoding, False))
        elif topic.count and topic.type == COMPRESSED:
            form = str(bag.first(topic.name).format)
            is_depth = "compressedDepth" in form or form.split(";")[0].strip() in DEPTH_ENCODINGS
            found.append(_Candidate(topic.name, "depth" if is_depth else "colour", form, True))
    return found


def _choose_depth(bag: BagFile, found: list[_Candidate]) -> str:
    def rank(c: _Candidate) -> tuple[int, ...]:
        # A depth image brought into the colour camera's view beats a raw one.
        return "aligned" in c.topic or "registered" in c.topic, not c.compressed

    return _best(bag, "depth", found, rank)


def _choose_colour(bag: BagFile, found: list[_Candidate], depth: str) -> str:
    def rank(c: _Candidate) -> tuple[int, ...]:
        return c.encoding != "mono8", _shared(c.topic, depth), not c.compressed

    return _best(bag, "colour", [c for c in found if c.topic != depth], rank)


def _best(bag: BagFile, role: str, found: list[_Candidate], rank: _Rank) -> str:
    fitting = [c for c in found if c.role == role]
    if not fitting:
        raise _nothing_fits(bag, role, found)
    top = max(rank(c) for c in fitting)
    best = [c.topic for c in fitting if rank(c) == top]
    if len(best) > 1:
        raise DataError(f"{bag.path} has several {role} topics: {', '.join(best)}; name one with topics: {role}")
    return best[0]


def _nothing_fits(bag: BagFile, role: str, found: list[_Candidate]) -> DataError:
    odd = [c for c in found if not c.role]
    if odd:
        known = COLOUR_TEXT if role == "colour" else ", ".join(DEPTH_ENCODINGS)
        return EncodingError(
            f"{bag.path}: {odd[0].topic} has encoding {odd[0].encoding!r}, which is not supported; "
            f"supported for {role}: {known}"
        )
    if not bag.num_messages:
        return DataError(f"{bag.path} holds no messages")
    return DataError(f"{bag.path} has no {role} image topic; topics there: {list_topics(bag.topics.values())}")


def _choose_info(bag: BagFile, colour: str, depth: str) -> str:
    """Return the CameraInfo topic in the namespace of the colour topic; never one that belongs to the depth camera."""
    infos = [t.name for t in bag.topics.values() if t.type == CAMERA_INFO and t.count]
    infos = [name for name in infos if _shared(name, colour) >= _shared(name, depth)]
    top = max((_shared(name, colour) for name in infos), default=0)
    best = [name for name in infos if _shared(name, colour) == top]
    if not best:
        raise DataError(f"{bag.path} has no CameraInfo for {colour}; state intrinsics: fx fy cx cy")
    if len(best) > 1:
        raise DataError(
            f"{bag.path} has several CameraInfo topics for {colour}: {', '.join(best)}; name one with topics: info"
        )
    return best[0]


def _shared(one: str, other: str) -> int:
    """Return how many leading name parts two topics share ("/cam/rgb/image", "/cam/rgb/camera_info": 2)."""
    count = 0
    for a, b in zip(one.strip("/").split("/"), other.strip("/").split("/"), strict=False):
        if a != b:
            break
        count += 1
    return count
