"""Which robots see alike? Soft clusters from the mean and variance of image features, without any training.

Run: python examples/cluster_descriptors.py
"""

import numpy as np

from fed_core.clustering import soft
from fed_core.similarity import jeffreys

ROBOTS = ("drone_wood", "dog_wood", "dog_edge_of_town", "car_town")
#: Centre of each robot's features; the third lies between wood and town.
CENTRES = np.array([0.0, 0.3, 1.0, 1.8])


def main() -> None:
    """Print the divergences and the clusters."""
    rng = np.random.default_rng(0)
    features = CENTRES[:, None, None] + rng.normal(size=(len(ROBOTS), 50, 16))  # R x N frames x D features
    mean, variance = features.mean(axis=1), features.var(axis=1)  # R x D
    divergence = jeffreys.pairwise(mean, variance)  # R x R, symmetric
    print(np.round(divergence, 1))
    tau = float(np.quantile(divergence[np.triu_indices(len(ROBOTS), 1)], 0.5))
    members = soft.by_rows(divergence, tau)  # K x R; a robot may be in several clusters
    for index in range(members.shape[0]):
        print(f"cluster {index}:", ", ".join(np.array(ROBOTS)[members[index]]))


if __name__ == "__main__":
    main()
