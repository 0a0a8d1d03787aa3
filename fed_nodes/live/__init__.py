"""Live output: the running sequence, the networks that serve it, the topics of each task."""
