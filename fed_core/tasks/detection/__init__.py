"""3D detection: boxes of ten classes from cameras and LiDAR."""
