#!/bin/bash
# Gives the command of a container ROS 2 and our packages.
set -e
source "/opt/ros/$ROS_DISTRO/setup.bash"
source /opt/fed_perception/setup.bash
exec "$@"
