"""Studies of depth: models are chosen for each unseen sequence by its first frames (fedepth spec 6, 8)."""
