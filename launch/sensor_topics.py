"""Arguments that name a robot's own sensor topics; launch files import this from their folder."""

from launch import Action, LaunchContext
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration

from fed_nodes.sensing.depth_sources import CLOUD, COLOUR, DEPTH, INFO, RIGHT, RIGHT_INFO

_TOPICS = {
    "image": (COLOUR, "colour images"),
    "depth": (DEPTH, "depth images, registered to colour (REP 118)"),
    "info": (INFO, "camera info of the colour images"),
    "points": (CLOUD, "the LiDAR's clouds, with depth_from: lidar"),
    "right_image": (RIGHT, "images of the right camera, with depth_from: stereo"),
    "right_info": (RIGHT_INFO, "camera info of the right camera"),
}


def sensor_arguments(*names: str) -> list[Action]:
    """Return the arguments of the named topics."""
    return [
        DeclareLaunchArgument(name, default_value=_TOPICS[name][0], description=f"topic of {_TOPICS[name][1]}")
        for name in names
    ]


def sensor_topics(context: LaunchContext, *names: str) -> list[tuple[str, str]]:
    """Return the remappings of the named topics, from and to."""
    pairs = [(_TOPICS[name][0], LaunchConfiguration(name).perform(context)) for name in names]
    return [(plain, own) for plain, own in pairs if own != plain]
