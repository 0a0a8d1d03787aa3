"""Bytes and rules of what travels: safetensors files and the pull of a blob in chunks. No sockets, no ROS."""
