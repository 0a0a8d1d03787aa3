"""From an affinity to clusters of robots, soft or hard, and what the clusters do to the models. NumPy only.

A clustering is a boolean matrix M (K, R): rows are clusters, columns are robots (``M*`` in fedepth spec 4).
"""
