"""Runs a fleet file as real processes on this machine: supervision, live view, scores, report."""
