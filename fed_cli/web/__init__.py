"""The dashboard: a fleet, or the folder of a run, as one page in a browser."""
