"""Tasks: what a fleet can learn. One package each; a new one is a new package here and one converter in the nodes."""
