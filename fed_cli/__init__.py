"""The command `fedperc`: one file per verb, no ROS in this process."""
