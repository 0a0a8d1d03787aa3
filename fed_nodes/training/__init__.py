"""The child process that trains, its limits, and when it gives way."""
