"""Queues of the topics of a bag that is played."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from fed_nodes.playing import bag_player
from fed_nodes.playing.bag_player import BagPlayer


def write_texts(path: Path, topics: dict[str, tuple[int, int]]) -> Path:
    """Write a bag of texts; topic -> (messages, bytes of each)."""
    store = get_typestore(Stores.ROS2_KILTED)
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for topic, (count, size) in topics.items():
            way = writer.add_connection(topic, "std_msgs/msg/String", typestore=store)
            text = store.types["std_msgs/msg/String"](data="a" * (size - 9))
            for stamp in range(count):
                writer.write(way, stamp, store.serialize_cdr(text, "std_msgs/msg/String"))
    return path


def profiles(path: Path, *, reliable: bool) -> dict[str, QoSProfile]:
    """Return what the player publishes with, by topic; the clock is left out."""
    node = Mock()
    BagPlayer(node, path, {}, reliable=reliable)
    made: list[tuple[Any, str, QoSProfile]] = [call.args for call in node.create_publisher.call_args_list]
    return {name: profile for _, name, profile in made if name != "clock"}


def test_a_lossless_queue_holds_few_large_messages_and_many_small_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bag_player, "_QUEUE_BYTES", 100_000)
    sizes = {"/small": (21, 16), "/medium": (21, 2_000), "/large": (21, 20_000), "/few": (20, 16), "/none": (0, 16)}
    made = profiles(write_texts(tmp_path / "bag", sizes), reliable=True)
    assert {name: profile.depth for name, profile in made.items()} == {
        "small": 1000,
        "medium": 50,
        "large": 20,
        "few": 20,
        "none": 20,
    }
    offered = {(profile.reliability, profile.durability) for profile in made.values()}
    assert offered == {(ReliabilityPolicy.RELIABLE, DurabilityPolicy.TRANSIENT_LOCAL)}


def test_otherwise_the_queue_is_that_of_the_bag(tmp_path: Path) -> None:
    made = profiles(write_texts(tmp_path / "bag", {"/small": (21, 16), "/tf_static": (1, 16)}), reliable=False)
    assert {name: profile.depth for name, profile in made.items()} == {"small": 10, "/tf_static": 10}
    assert made["small"].durability == DurabilityPolicy.VOLATILE
    assert made["/tf_static"].durability == DurabilityPolicy.TRANSIENT_LOCAL
