"""Studies of the bird's eye view: every client is scored on test scenarios of its own (feddwa spec 7, 9)."""
