"""Thin ROS 2 nodes over the roles of ``fed_core``; the only place that imports rclpy and message packages."""
