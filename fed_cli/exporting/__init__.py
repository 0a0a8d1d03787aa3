"""What ``fedperc export`` is made of."""
