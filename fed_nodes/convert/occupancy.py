"""A network's map of vehicles as ``nav_msgs/OccupancyGrid`` in the axes of REP 103: x forward, y left.

The map's row 0 is in front and its column 0 on the left; the grid's first cell is behind on the right, and it runs
forward first.
"""

from array import array

import numpy as np
import numpy.typing as npt
from geometry_msgs.msg import Point, Pose, Quaternion
from nav_msgs.msg import MapMetaData, OccupancyGrid
from std_msgs.msg import Header

from fed_core.errors import DataError

#: Cells per side of the masks that networks learn from; their cell 128, not its border, lies on the vehicle.
RASTER = 256
UNKNOWN = -1


def occupancy_to_msg(
    probability: npt.NDArray[np.float32],
    extent_m: float,
    header: Header,
    known: npt.NDArray[np.bool_] | None = None,
    *,
    raster: int = RASTER,
) -> OccupancyGrid:
    """Return a grid whose values are per cent.

    Args:
        probability: (S, S) float32 of a vehicle, forward up and right right, the vehicle at the centre; what is not
            finite is unknown.
        extent_m: side of the map in metres.
        header: time, and the vehicle's frame ("base_link"): x forward, y left, z up.
        known: (S, S) bool, False where no camera looks; such cells are -1.
        raster: cells per side of the masks that the network learned from.
    """
    cells = len(probability)
    if probability.shape != (cells, cells) or cells == 0 or (known is not None and known.shape != probability.shape):
        shapes = f"{probability.shape}" + ("" if known is None else f" with known cells {known.shape}")
        raise DataError(f"a map has shape {shapes}; expected (S, S) for both")
    seen = np.isfinite(probability) if known is None else known & np.isfinite(probability)
    percent = np.rint(100.0 * np.clip(np.where(seen, probability, 0.0), 0.0, 1.0)).astype(np.int8)
    # Rows of the grid go to the left, its columns forward: both ways round, then rows for columns.
    values = np.where(seen, percent, np.int8(UNKNOWN))[::-1, ::-1].T
    # The masks put the centre of a cell, not the border between two, on the vehicle: half a cell of theirs.
    corner_m = -extent_m / 2 + 0.5 * extent_m / raster
    origin = Pose(position=Point(x=corner_m, y=corner_m, z=0.0), orientation=Quaternion(w=1.0))
    info = MapMetaData(
        map_load_time=header.stamp, resolution=extent_m / cells, width=cells, height=cells, origin=origin
    )
    return OccupancyGrid(header=header, info=info, data=array("b", np.ascontiguousarray(values).tobytes()))


def occupancy_from_msg(msg: OccupancyGrid) -> tuple[npt.NDArray[np.float32], float]:
    """Return the map (S, S) float32 of a grid, row 0 in front and column 0 on the left, and its side in metres.

    Values are probabilities with steps of a per cent, NaN where unknown. A grid that is not square, or empty, or whose
    data is cut off, raises ``DataError``.
    """
    cells, extent_m = msg.info.width, msg.info.resolution * msg.info.width
    if msg.info.height != cells or cells == 0 or len(msg.data) != cells * cells:
        size = f"{cells}x{msg.info.height} cells and {len(msg.data)} values"
        raise DataError(f"an occupancy grid has {size}; expected a square one with a value for each cell")
    values = np.asarray(msg.data, np.int8).reshape(cells, cells).T[::-1, ::-1]
    found = np.where(values < 0, np.float32(np.nan), values.astype(np.float32) / np.float32(100.0))
    return np.ascontiguousarray(found, np.float32), float(extent_m)
