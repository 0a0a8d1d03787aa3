"""How alike two robots' data are, without seeing the data. NumPy only."""
