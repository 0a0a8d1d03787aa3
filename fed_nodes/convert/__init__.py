"""ROS messages to plain data and back."""
