"""What the monitor tells beside the messages of the fleet: pictures, and services that a person may call."""
