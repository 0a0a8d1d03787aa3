"""Local training: losses, the one loop, and the jobs that a robot's trainer process runs. PyTorch lives here."""
