"""Static frames on ``/tf_static`` where ``tf2_msgs`` is installed; the wheels that this stack runs on lack it."""

from collections.abc import Sequence
from importlib import import_module

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node

from fed_nodes import qos

STATIC_FRAMES = "/tf_static"


def publish_static(node: Node, transforms: Sequence[TransformStamped], what: str) -> object:
    """Publish frames once, latched; returns the publisher, which must live as long as the node.

    Args:
        node: owner of the publisher.
        transforms: the frames.
        what: whose frames they are, for the message that they cannot be published.
    """
    try:
        message = import_module("tf2_msgs.msg").TFMessage
    except ImportError:
        node.get_logger().info(f"tf2_msgs is not installed: no static frames of {what} on {STATIC_FRAMES}")
        return None
    publisher = node.create_publisher(message, STATIC_FRAMES, qos.LATCHED)
    publisher.publish(message(transforms=list(transforms)))
    return publisher
