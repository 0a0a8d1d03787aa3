"""Bags in other forms hold the same messages; what cannot be carried is told; nothing half-done is left."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from fed_core.data.bag_files import BagFile
from fed_core.data.conversion import Converted, Target, convert
from fed_core.data.message_types import TypeFinder, stored_types
from fed_core.data.open import open_sequence
from fed_core.errors import DataError

STORE = get_typestore(Stores.ROS2_KILTED)
FOREVER = QosTime(2147483647, 4294967295)
LATCHED = Qos(
    QosHistory.KEEP_LAST,
    3,
    QosReliability.RELIABLE,
    QosDurability.TRANSIENT_LOCAL,
    FOREVER,
    QosTime(1, 5),
    QosLiveliness.AUTOMATIC,
    FOREVER,
    avoid_ros_namespace_conventions=False,
)
CUSTOM = "uint8 kind\nmine/Inner inner\n" + "=" * 80 + "\nMSG: mine/Inner\nfloat64[] values\nstring name\n"


def messages(path: Path) -> list[tuple[str, str, int, bytes]]:
    """Return topic, type, record time and bytes of everything."""
    with BagFile(path) as bag:
        return [(c.topic, c.msgtype, ns, bytes(data)) for c, ns, data in bag.records(bag.connections)]


def topics(path: Path, *, digests: bool = True) -> dict[str, Any]:
    """Return what a bag says about each topic."""
    with BagFile(path) as bag:
        return {c.topic: (c.msgtype, c.msgdef, c.digest if digests else "", c.msgcount, c.ext) for c in bag.connections}


def decoded(path: Path) -> list[tuple[str, int, str]]:
    """Return topic, record time and fields of a ROS 1 bag's messages; the sequence number of headers left out."""
    with BagFile(path) as bag:
        found = []
        stores = {c.id: stored_types(c.msgtype, c.msgdef) for c in bag.connections}
        for c, ns, data in bag.records(bag.connections):
            message = stores[c.id].deserialize_ros1(data, c.msgtype)
            _forget_seq(message)
            found.append((c.topic, ns, _renamed(repr(message))))
        return found


def _renamed(text: str) -> str:
    return text.replace("tf__msg__tfMessage", "tf2_msgs__msg__TFMessage").replace("tf/msg/tfM", "tf2_msgs/msg/TFM")


def _forget_seq(message: Any) -> None:
    for name, value in getattr(message, "__dict__", {}).items():
        if name == "seq":
            object.__setattr__(message, name, 0)
        for each in value if isinstance(value, list) else [value]:
            _forget_seq(each)


def write(path: Path, *, qos: tuple[Qos, ...] = (), storage: StoragePlugin = StoragePlugin.MCAP) -> Path:
    """Write a bag with a latched text and a type of its own."""
    store = get_typestore(Stores.ROS2_KILTED)
    store.register(get_types_from_msg(CUSTOM, "mine/msg/Outer"))
    inner = store.types["mine/msg/Inner"](values=np.array([1.5, -2.0]), name="ä")
    outer = store.types["mine/msg/Outer"](kind=7, inner=inner)
    with Writer2(path, version=9, storage_plugin=storage) as writer:
        writer.set_custom_data("site", "yard")
        text = writer.add_connection("/text", "std_msgs/msg/String", typestore=store, offered_qos_profiles=qos)
        own = writer.add_connection("/own", "mine/msg/Outer", typestore=store)
        writer.write(
            text, 5, store.serialize_cdr(store.types["std_msgs/msg/String"](data="one"), "std_msgs/msg/String")
        )
        writer.write(own, 6, store.serialize_cdr(outer, "mine/msg/Outer"))
        writer.write(own, 6, store.serialize_cdr(outer, "mine/msg/Outer"))
    return path


@pytest.mark.parametrize("compress", [False, True])
def test_mcap_to_sqlite3_and_back_loses_nothing(tmp_path: Path, compress: bool) -> None:
    first = write(tmp_path / "first", qos=(LATCHED,))
    told = convert(first, Target(tmp_path / "second", "sqlite3", compress))
    assert told == Converted(3, 2)
    convert(tmp_path / "second", Target(tmp_path / "third", "mcap", compress))
    assert messages(first) == messages(tmp_path / "second") == messages(tmp_path / "third")
    assert topics(first) == topics(tmp_path / "second") == topics(tmp_path / "third")
    assert topics(first)["/text"][-1].offered_qos_profiles == [LATCHED]
    with BagFile(tmp_path / "third") as bag:
        assert bag.custom_data == {"site": "yard"}
    assert sorted(path.name for path in (tmp_path / "third").iterdir()) == ["metadata.yaml", "third.mcap"]


def test_one_file_has_no_folder_around_it(tmp_path: Path) -> None:
    first = write(tmp_path / "first", qos=(LATCHED,))
    for name in ("one.mcap", "one.db3"):
        convert(first, Target(tmp_path / name))
        assert messages(tmp_path / name) == messages(first)
        assert topics(tmp_path / name, digests=False) == topics(first, digests=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "one.db3", "one.mcap"]


def test_ros1_and_back_keeps_contents_latching_and_own_types(tmp_path: Path) -> None:
    first = write(tmp_path / "first", qos=(LATCHED,))
    convert(first, Target(tmp_path / "old.bag", compress=True))
    convert(tmp_path / "old.bag", Target(tmp_path / "again"))
    assert messages(tmp_path / "again") == messages(first)
    latched, plain = topics(tmp_path / "old.bag")["/text"][-1], topics(tmp_path / "old.bag")["/own"][-1]
    assert (latched.latching, plain.latching) == (1, 0)
    (profile,) = topics(tmp_path / "again")["/text"][-1].offered_qos_profiles
    assert (profile.durability, profile.reliability) == (QosDurability.TRANSIENT_LOCAL, QosReliability.RELIABLE)


def test_type_that_ros2_extended_comes_back_with_its_old_fields(tmp_path: Path) -> None:
    store = get_typestore(Stores.ROS1_NOETIC)
    kind = "sensor_msgs/msg/Range"  # ROS 2 added the variance
    stamp = store.types["builtin_interfaces/msg/Time"](3, 4)
    header = store.types["std_msgs/msg/Header"](seq=0, stamp=stamp, frame_id="a")
    message = store.types[kind](header, 1, 0.5, 0.25, 8.0, 1.5)
    with Writer1(tmp_path / "old.bag") as writer:
        sonar = writer.add_connection("/sonar", kind, typestore=store)
        writer.write(sonar, 9, bytes(store.serialize_ros1(message, kind)))
    convert(tmp_path / "old.bag", Target(tmp_path / "new"))
    with BagFile(tmp_path / "new") as bag:
        new = bag.decode(next(bag.messages()))
        assert (new.range, new.variance, new.max_range) == (1.5, 0.0, 8.0)
    convert(tmp_path / "new", Target(tmp_path / "again.bag"))
    assert messages(tmp_path / "again.bag") == messages(tmp_path / "old.bag")


@pytest.mark.parametrize("bag", ["mcap/nav2_turtlebot.mcap", "rosbag2_mcap/wbag", "rosbag2_sqlite3/talker"])
def test_real_bag_of_ros2_round_trips(shared_data: Path, tmp_path: Path, bag: str) -> None:
    source = shared_data / "rosbags" / bag
    with BagFile(source) as opened:
        count = opened.num_messages
    told = convert(source, Target(tmp_path / "one", "sqlite3"))
    convert(tmp_path / "one", Target(tmp_path / "two.mcap", compress=True))
    assert told.messages == count and not told.left_out
    assert messages(source) == messages(tmp_path / "one") == messages(tmp_path / "two.mcap")
    assert topics(tmp_path / "one", digests=False) == topics(tmp_path / "two.mcap", digests=False)


def test_qos_of_a_real_bag_is_kept(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "rosbags/mcap/nav2_turtlebot.mcap"
    convert(source, Target(tmp_path / "one", "sqlite3"))
    assert topics(source, digests=False) == topics(tmp_path / "one", digests=False)


@pytest.mark.parametrize("bag", ["realsense_depth_color_640x480", "tilt_laser", "example-bz2", "no-messages"])
def test_real_bag_of_ros1_round_trips(shared_data: Path, tmp_path: Path, bag: str) -> None:
    source = shared_data / "rosbags/ros1" / f"{bag}.bag"
    told = convert(source, Target(tmp_path / "new"))
    convert(tmp_path / "new", Target(tmp_path / "again.bag"))
    before, after = decoded(source), decoded(tmp_path / "again.bag")
    assert told == Converted(len(before), len(topics(source)))
    assert sorted(before) == sorted(after)


def test_definition_that_the_bag_lacks_is_told_or_taken_from_a_folder(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "rosbags/rosbag2_sqlite3/velodyne_vlp16/1673400471837873222"
    told = "nothing of it can be carried; left out /velodyne_packets: the definition of type velodyne_msgs/msg/"
    with pytest.raises(DataError, match=told):
        convert(source, Target(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []
    folder = tmp_path / "types/velodyne_msgs/msg"
    folder.mkdir(parents=True)
    (folder / "VelodyneScan.msg").write_text("std_msgs/Header header\nVelodynePacket[] packets\n")
    (folder / "VelodynePacket.msg").write_text("builtin_interfaces/Time stamp\nuint8[1206] data\n")
    assert convert(source, Target(tmp_path / "new"), definitions=[tmp_path / "types"]) == Converted(4, 1)
    assert messages(tmp_path / "new") == messages(source)
    assert convert(tmp_path / "new", Target(tmp_path / "old.bag")) == Converted(4, 1)


def test_message_that_does_not_fit_its_definition_is_left_out_and_told(shared_data: Path, tmp_path: Path) -> None:
    told = convert(shared_data / "rosbags/rosbag2_sqlite3/talker", Target(tmp_path / "old.bag"))
    assert told.messages == len(messages(tmp_path / "old.bag")) == 10
    (line,) = told.left_out
    assert line.startswith("left out 10 messages of /rosout: cannot be converted to rcl_interfaces/msg/Log (Serde")


def test_name_of_a_type_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "types").mkdir()
    (tmp_path / "outside/msg").mkdir(parents=True)
    (tmp_path / "outside/msg/Secret.msg").write_text("uint8 a\n")
    finder = TypeFinder([tmp_path / "types"])
    with pytest.raises(DataError, match="is not in the bag and not known here"):
        finder.find("../outside/msg/Secret")


def test_frames_of_a_folder_become_a_bag(shared_data: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    told = convert(
        shared_data / "depth_redwood", Target(tmp_path / "new.mcap"), on_progress=lambda *step: seen.append(step)
    )
    assert told == Converted(15, 3) and seen == [(i, 5) for i in range(1, 6)]
    before, after = open_sequence(shared_data / "depth_redwood"), open_sequence(tmp_path / "new.mcap")
    np.testing.assert_array_equal(after[3].depth_m, before[3].depth_m)
    np.testing.assert_array_equal(after[3].rgb, before[3].rgb)
    with pytest.raises(DataError, match="is no bag: its frames are written as mcap or sqlite3"):
        convert(shared_data / "depth_redwood", Target(tmp_path / "new.bag"))
    with pytest.raises(DataError, match="nofile.bag does not exist"):
        convert(tmp_path / "nofile.bag", Target(tmp_path / "new.bag"))


@pytest.mark.parametrize(
    ("name", "storage", "compress", "text"),
    [
        ("new", "hdf5", False, "bag storage 'hdf5' cannot be written; choose one of mcap, sqlite3, ros1"),
        ("new.mcap", "sqlite3", False, "new.mcap does not fit storage sqlite3"),
        ("new", "ros1", False, "a bag of ROS 1 is one file; let its name end in .bag"),
        ("new.db3", "", True, "a compressed sqlite3 bag is a folder; name it without .db3"),
    ],
)
def test_targets_that_cannot_be_written(tmp_path: Path, name: str, storage: str, compress: bool, text: str) -> None:
    with pytest.raises(DataError) as caught:
        Target(tmp_path / name, storage, compress)
    assert text in str(caught.value)


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    first = write(tmp_path / "first")
    (tmp_path / "there.mcap").write_text("mine")
    with pytest.raises(DataError, match="there.mcap exists already; choose another name for the bag"):
        convert(first, Target(tmp_path / "there.mcap"))
    assert (tmp_path / "there.mcap").read_text() == "mine"


def test_a_folder_of_somebody_else_is_not_deleted(tmp_path: Path) -> None:
    first = write(tmp_path / "first")
    (tmp_path / "new.part").mkdir()
    (tmp_path / "new.part" / "diary.txt").write_text("mine")
    with pytest.raises(DataError, match=r"new.part is no unfinished bag of ours; move it, or choose another name"):
        convert(first, Target(tmp_path / "new"))
    assert (tmp_path / "new.part" / "diary.txt").read_text() == "mine" and not (tmp_path / "new").exists()
    (tmp_path / "file.part").write_text("mine")
    with pytest.raises(DataError, match=r"file.part is no unfinished bag of ours"):
        convert(first, Target(tmp_path / "file"))
    assert (tmp_path / "file.part").read_text() == "mine"


def test_two_conversions_to_one_name_do_not_destroy_each_other(tmp_path: Path) -> None:
    first, told = write(tmp_path / "first"), []

    def also(done: int, total: int) -> None:
        if done == 1:
            with pytest.raises(DataError, match=r"new.part is being written by another process; let it end") as caught:
                convert(first, Target(tmp_path / "new"))
            told.append(str(caught.value))

    convert(first, Target(tmp_path / "new"), on_progress=also)
    assert len(told) == 1 and messages(tmp_path / "new") == messages(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "new"]


def test_what_a_killed_conversion_left_is_replaced(tmp_path: Path) -> None:
    first, left = write(tmp_path / "first"), tmp_path / "left"

    def leave(done: int, total: int) -> None:
        if not left.exists():
            shutil.copytree(tmp_path / "new.part", left)  # as it is after SIGKILL: no process holds its lock

    convert(first, Target(tmp_path / "new"), on_progress=leave)
    shutil.rmtree(tmp_path / "new")
    left.rename(tmp_path / "new.part")
    convert(first, Target(tmp_path / "new"))
    assert messages(tmp_path / "new") == messages(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "new"]


@pytest.mark.parametrize("name", ["new", "new.mcap", "new.db3", "new.bag"])
def test_stopped_in_the_middle_leaves_nothing(tmp_path: Path, name: str) -> None:
    first = write(tmp_path / "first")

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(first, Target(tmp_path / name), on_progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_broken_and_foreign_files_end_in_one_line(shared_data: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.mcap"
    convert(write(tmp_path / "first"), Target(tmp_path / "whole.mcap"))
    cut.write_bytes((tmp_path / "whole.mcap").read_bytes()[:-200])
    (tmp_path / "text.mcap").write_text("hello")
    foreign = shared_data / "rosbags/mcap/foxglove_json_camera.mcap"
    for source, text in (
        (cut, "cannot be read as a bag"),
        (tmp_path / "text.mcap", "cannot be read as a bag"),
        (foreign, "is an MCAP file without ROS 2 messages"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        with pytest.raises(DataError) as caught:
            convert(source, Target(tmp_path / "out"))
        assert text in str(caught.value) and "\n" not in str(caught.value)
        assert not (tmp_path / "out").exists() and not (tmp_path / "out.part").exists()


def test_two_definitions_of_one_type_are_not_mixed(tmp_path: Path) -> None:
    with Writer1(tmp_path / "old.bag") as writer:
        one = writer.add_connection("/one", "mine/msg/Point", msgdef="float32 x\n", md5sum="1" * 32)
        two = writer.add_connection("/two", "mine/msg/Point", msgdef="float64 x\n", md5sum="2" * 32)
        writer.write(one, 1, np.float32(1.5).tobytes())
        writer.write(two, 2, np.float64(2.5).tobytes())
    told = convert(tmp_path / "old.bag", Target(tmp_path / "new"))
    assert told == Converted(1, 1, ("left out /two: its type mine/msg/Point differs from that of another topic",))
    convert(tmp_path / "old.bag", Target(tmp_path / "again.bag"))
    assert messages(tmp_path / "again.bag") == messages(tmp_path / "old.bag")


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NUMBERS = st.floats(allow_nan=False, width=64)
TIMES = st.integers(1, (2**31 - 1) * 10**9)


def _header(ns: int, frame: str) -> Any:
    stamp = STORE.types["builtin_interfaces/msg/Time"](sec=ns // 10**9, nanosec=ns % 10**9)
    return STORE.types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)


def _image(ns: int, frame: str, width: int, data: bytes) -> Any:
    pixels = np.frombuffer(data, np.uint8)
    return STORE.types["sensor_msgs/msg/Image"](_header(ns, frame), 1, width, "mono8", 0, width, pixels)


def _info(ns: int, frame: str, values: list[float]) -> Any:
    roi = STORE.types["sensor_msgs/msg/RegionOfInterest"](0, 0, 0, 0, False)
    grid = (np.array(values), np.zeros(9), np.zeros(9), np.zeros(12))
    return STORE.types["sensor_msgs/msg/CameraInfo"](_header(ns, frame), 3, 4, "plumb_bob", *grid, 0, 0, roi)


def _odometry(ns: int, frame: str, x: float, y: float) -> Any:
    types = STORE.types
    point = types["geometry_msgs/msg/Point"](x, y, 0.0)
    pose = types["geometry_msgs/msg/Pose"](point, types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0))
    vector = types["geometry_msgs/msg/Vector3"](y, x, 0.0)
    twist = types["geometry_msgs/msg/Twist"](vector, vector)
    return types["nav_msgs/msg/Odometry"](
        _header(ns, frame),
        frame,
        types["geometry_msgs/msg/PoseWithCovariance"](pose, np.zeros(36)),
        types["geometry_msgs/msg/TwistWithCovariance"](twist, np.zeros(36)),
    )


ANY_MESSAGE = st.one_of(
    st.tuples(st.just("std_msgs/msg/String"), TEXTS.map(lambda text: STORE.types["std_msgs/msg/String"](data=text))),
    st.tuples(st.just("sensor_msgs/msg/Image"), st.builds(_image, TIMES, TEXTS, st.integers(0, 99), st.binary())),
    st.tuples(st.just("sensor_msgs/msg/CameraInfo"), st.builds(_info, TIMES, TEXTS, st.lists(NUMBERS, max_size=8))),
    st.tuples(st.just("nav_msgs/msg/Odometry"), st.builds(_odometry, TIMES, TEXTS, NUMBERS, NUMBERS)),
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(st.tuples(TIMES, ANY_MESSAGE), min_size=1, max_size=12))
def test_any_bag_round_trips(tmp_path_factory: pytest.TempPathFactory, written: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("bags")
    with Writer2(folder / "one", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        ways: dict[str, Any] = {}
        for log_ns, (kind, message) in written:
            if kind not in ways:
                ways[kind] = writer.add_connection(f"/{kind.split('/')[-1]}", kind, typestore=STORE)
            writer.write(ways[kind], log_ns, STORE.serialize_cdr(message, kind))
    convert(folder / "one", Target(folder / "two", "sqlite3"))
    convert(folder / "two", Target(folder / "three.bag"))
    convert(folder / "three.bag", Target(folder / "four", "mcap"))
    first = messages(folder / "one")
    assert len(first) == len(written)
    # Messages of one record time keep their order on a topic; between topics it has no meaning.
    for name in ("two", "four"):
        assert sorted(first, key=lambda m: (m[2], m[0])) == sorted(messages(folder / name), key=lambda m: (m[2], m[0]))
