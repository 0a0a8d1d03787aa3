"""Where a sensor sits on a vehicle, as a tree for people, YAML and parameters (REP 103)."""

from typing import Any

import numpy as np
import numpy.typing as npt


def mount(to_vehicle: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return ``position`` [m] and ``rotation`` (quaternion x, y, z, w) of a sensor's frame (4, 4) on the vehicle."""
    # Imported on use: SciPy is slow to load, and only those who write mounts down need it.
    from scipy.spatial.transform import Rotation

    return {
        "position": [float(value) for value in to_vehicle[:3, 3]],
        "rotation": [float(value) for value in Rotation.from_matrix(to_vehicle[:3, :3]).as_quat()],
    }
