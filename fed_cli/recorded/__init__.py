"""Pictures of what a robot published, from a bag."""
