"""Recordings: one sequence type, one file per layout in ``readers``."""
