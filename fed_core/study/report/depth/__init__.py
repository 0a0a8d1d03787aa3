"""What the report of a depth study shows."""
