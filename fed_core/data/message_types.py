"""Message types of bags: their definitions, and what turns the bytes of one ROS into those of the other."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rosbags.convert.converter import is_same_wireformat, migrate_bytes
from rosbags.interfaces import MessageDefinition, MessageDefinitionFormat, Nodetype
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from fed_core.errors import DataError, FedError

#: ROS 1 names of types that have another name in ROS 2.
_RENAMED = {"tf/msg/tfMessage": "tf2_msgs/msg/TFMessage"}
_HEADER = "std_msgs/msg/Header"
_IDL_RULE = "=" * 80 + "\n"
#: What IDL puts into a type without fields.
_NO_FIELDS = "structure_needs_at_least_one_member"
#: Plain types of definitions -> what rclpy calls them, where that differs.
_SPELLED = {"bool": "boolean", "byte": "octet", "char": "uint8", "float32": "float", "float64": "double"}

Bytes = bytes | memoryview


@dataclass(frozen=True)
class CarriedType:
    """A message type as it will stand in a bag.

    Attributes:
        name: "sensor_msgs/msg/Image".
        definition: its text, with that of all types in it.
        digest: RIHS01 (ROS 2) or MD5 (ROS 1) of the type.
        convert: turns serialized messages of the source into those of this type.
    """

    name: str
    definition: str
    digest: str
    convert: Callable[[bytes], Bytes]


class TypeFinder:
    """Knows definitions that a bag lacks: the standard ones, and ``.msg`` files.

    Args:
        folders: looked through for ``PKG/msg/NAME.msg``, before the ``share`` folders of an installed ROS 2.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        installed = [Path(text) / "share" for text in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if text]
        self._folders = [*folders, *installed]

    def find(self, name: str) -> Typestore:
        """Return a store that has the type; raises :class:`DataError` where no definition is known."""
        if name in _standard(Stores.ROS2_KILTED).fielddefs:
            return _standard(Stores.ROS2_KILTED)
        store = get_typestore(Stores.ROS2_KILTED)
        found: dict[str, Any] = {}
        wanted = [name]
        with _parsing(name):
            while wanted:
                each = wanted.pop()
                types = get_types_from_msg(self._text(each), each)
                found.update(types)
                nested = {_inner(kind) for _, fields in types.values() for _, kind in fields}
                wanted += [other for other in nested - {""} if other not in found and other not in store.fielddefs]
            store.register(found)
        return store

    def _text(self, name: str) -> str:
        package, _, kind = name.partition("/msg/")
        for folder in self._folders:
            for file in (folder / package / "msg" / f"{kind}.msg", folder / "msg" / f"{kind}.msg"):
                # The name comes from a bag: it must not lead out of the folder.
                if folder.resolve() in file.resolve().parents and file.is_file():
                    return file.read_text(encoding="utf-8")
        raise DataError(f"the definition of type {name} is not in the bag and not known here")


def kept(name: str, definition: MessageDefinition, digest: str, finder: TypeFinder) -> CarriedType:
    """Return a type of a ROS 2 bag as it is; only what is missing or incomplete (definition, digest) is looked up."""
    if digest and definition.data and definition.format is not MessageDefinitionFormat.NONE:
        return CarriedType(name, definition.data, digest, bytes)
    store, text = _looked_up(name, definition, finder)
    return CarriedType(name, text, digest or _digest(store, name), bytes)


def _looked_up(name: str, definition: MessageDefinition, finder: TypeFinder) -> tuple[Typestore, str]:
    """Return a store with a type of a bag, and the definition: the bag's own where that is complete."""
    told = None
    if definition.data and definition.format is not MessageDefinitionFormat.NONE:
        try:
            store = stored_types(name, definition)
            _digest(store, name)  # needs all types inside of it
            return store, definition.data
        except DataError as err:
            told = err
    try:
        store = finder.find(name)
    except DataError as err:
        raise told or err from err
    return store, _generated(store, name, 2)[0]


def to_ros2(name: str, definition: MessageDefinition) -> CarriedType:
    """Return what a type of a ROS 1 bag becomes in ROS 2: the type of that name there, else the same fields."""
    source, target = stored_types(name, definition), _RENAMED.get(name, name)
    store = _target_store(Stores.ROS2_KILTED, target, source)
    text = _generated(store, target, 2)[0]
    digest = _digest(store, target)
    with _parsing(name):
        if is_same_wireformat(source, store, name, target):
            return CarriedType(target, text, digest, partial(store.ros1_to_cdr, typename=target))
        migrate = partial(migrate_bytes, source, store, name, target, {}, src_is2=False, dst_is2=True)
        return CarriedType(target, text, digest, migrate)


def to_ros1(name: str, definition: MessageDefinition, finder: TypeFinder) -> CarriedType:
    """Return what a type of a ROS 2 bag becomes in ROS 1: the type of that name there, else the same fields."""
    source, _ = _looked_up(name, definition, finder)
    store = _target_store(Stores.ROS1_NOETIC, name, source)
    text, digest = _generated(store, name, 1)
    with _parsing(name):
        if is_same_wireformat(source, store, name, name):
            return CarriedType(name, text, digest, partial(_cdr_to_ros1, source, name))
        migrate = partial(migrate_bytes, source, store, name, name, {}, src_is2=True, dst_is2=False)
        return CarriedType(name, text, digest, migrate)


def field_types(carried: CarriedType) -> dict[str, dict[str, str]]:
    """Return the fields of a ROS 2 type and of those inside of it; {} where its definition cannot be read.

    Returns:
        By name of the type: name of the field -> its type as rclpy spells it without bounds, for example
        "double[9]", "sequence<uint8>", "std_msgs/Header"; in the order of the definition, the type itself first.
    """
    is_idl = carried.definition.startswith(_IDL_RULE)
    form = MessageDefinitionFormat.IDL if is_idl else MessageDefinitionFormat.MSG
    try:
        store = stored_types(carried.name, MessageDefinition(form, carried.definition))
    except DataError:
        return {}
    found: dict[str, dict[str, str]] = {}
    wanted = [carried.name]
    while wanted:
        name = wanted.pop()
        if name in store.fielddefs and name not in found:
            fields = store.fielddefs[name][1]
            found[name] = {str(field): _spelled(kind) for field, kind in fields if field != _NO_FIELDS}
            wanted += [_inner(kind) for _, kind in fields]
    return found


@lru_cache(maxsize=256)
def stored_types(name: str, definition: MessageDefinition) -> Typestore:
    """Return a store with a type and all types in it; each type has its own, since bags may disagree in themselves.

    Nobody may add to a returned store, it is kept for the next bag: generating code for a type takes a while.
    """
    with _parsing(name):
        store = get_typestore(Stores.EMPTY)
        types: dict[str, Any] = {}
        for text in _idl_parts(definition):
            types.update(get_types_from_idl(text))
        if definition.format is MessageDefinitionFormat.MSG:
            types = dict(get_types_from_msg(definition.data, name))
        store.register(types)
        if name not in store.fielddefs:
            raise DataError(f"type {name}: the definition in the bag does not define it")
        return store


def _idl_parts(definition: MessageDefinition) -> Iterable[str]:
    if definition.format is not MessageDefinitionFormat.IDL:
        return []
    if not definition.data.startswith(f"{_IDL_RULE}IDL: "):
        return [definition.data]
    return [part.partition("\n")[2] for part in definition.data.split(_IDL_RULE)[1:]]


def _target_store(kind: Stores, name: str, source: Typestore) -> Typestore:
    standard = _standard(kind)
    if name in standard.fielddefs:
        return standard
    store = get_typestore(Stores.EMPTY)
    with _parsing(name):
        # Headers differ between ROS 1 and 2, also inside of types that only this bag knows.
        store.register({**source.fielddefs, _HEADER: standard.fielddefs[_HEADER]})
    return store


@lru_cache(maxsize=2)
def _standard(kind: Stores) -> Typestore:
    """Return the types of a ROS distribution, the same store each time: nobody may add to it."""
    return get_typestore(kind)


def _generated(store: Typestore, name: str, ros_version: int) -> tuple[str, str]:
    with _parsing(name):
        text, digest = store.generate_msgdef(name, ros_version=ros_version)
        return str(text), str(digest)


def _digest(store: Typestore, name: str) -> str:
    with _parsing(name):
        return str(store.hash_rihs01(name))


def _cdr_to_ros1(store: Typestore, name: str, data: bytes) -> Bytes:
    if len(data) > 1 and not data[1] & 1:  # big endian
        data = bytes(store.serialize_cdr(store.deserialize_cdr(data, name), name, little_endian=True))
    return store.cdr_to_ros1(data, name)


def _inner(kind: Any) -> str:
    """Return the name of the type that a field holds, "" for plain values."""
    node, inner = kind
    if isinstance(inner, str):
        return inner
    return _inner(inner[0]) if isinstance(inner[0], tuple) and isinstance(inner[0][0], int) else ""


def _spelled(kind: Any) -> str:
    node, inner = kind
    if node is Nodetype.NAME:
        return str(inner).replace("/msg/", "/")
    if node is Nodetype.BASE:
        return _SPELLED.get(inner[0], str(inner[0]))
    return f"sequence<{_spelled(inner[0])}>" if node is Nodetype.SEQUENCE else f"{_spelled(inner[0])}[{inner[1]}]"


@contextmanager
def _parsing(name: str) -> Iterator[None]:
    try:
        yield
    except FedError:
        raise
    except Exception as err:  # definitions come from bags, and the library's parsers raise anything on broken ones
        told = " ".join(f"{type(err).__name__} {err}".split())[:200]
        raise DataError(f"type {name}: its definition cannot be used ({told})") from err
