"""The frames of one client: its scenarios one after the other, one vehicle of each."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.config import check, from_tree, option
from fed_core.data.image_files import read_rgb
from fed_core.data.open import data_path
from fed_core.data.opv2v import files
from fed_core.data.opv2v.cameras import RADIUS_M
from fed_core.data.opv2v.masks import Mask, fov_mask, pooled, read_mask, sector_mask
from fed_core.data.opv2v.poses import Rig, read_rig
from fed_core.errors import ConfigError, DataError
from fed_core.types import BevFrame

FIRST, DRAWN, EVERY = "first", "drawn", "every"
SECTOR, FOV, OFF = "sector", "fov", "off"
ALL_CAMERAS = (0, 1, 2, 3)
#: How far an optical axis may be from the centre of its picture, as a share of a side.
_OFF_CENTRE = 0.2


@dataclass(frozen=True)
class BevOptions:
    """How frames are made of the files."""

    cameras: tuple[int, ...] = option(ALL_CAMERAS, help="camera ids: 0 front, 1 right, 2 left, 3 back")
    label: str = option("visible", help="mask to learn", choices=tuple(files.LABELS))
    vehicle: str = option(
        FIRST,
        help="whose cameras: the first id, one drawn per scenario and round, or every",
        choices=(FIRST, DRAWN, EVERY),
    )
    seed: int = option(0, help="seed of the draw", low=0)
    epoch: int = option(0, help="of the draw in the first round; every round counts one more", low=0)
    amcm_mask: str = option(SECTOR, help="cells that count where cameras are missing", choices=(SECTOR, FOV, OFF))
    map_size: int = option(256, help="side of the masks as stored", unit="px", low=2)
    cells: int = option(0, help="side of the mask that is given; 0 = as stored", unit="count", low=0)
    radius_m: float = option(RADIUS_M, help="half side of the map", unit="m", low=1.0)
    rate_hz: float = option(10.0, help="frame numbers per second", unit="Hz", low=1e-3, high=1e6)

    def __post_init__(self) -> None:
        """Check bounds, the cameras, and that the cells fit."""
        check(self)
        if not self.cameras or sorted(set(self.cameras)) != list(self.cameras):
            raise ConfigError(f"BevOptions.cameras is {list(self.cameras)}; name each camera once, in order, as [0, 3]")
        if not set(self.cameras) <= set(ALL_CAMERAS):
            raise ConfigError(f"BevOptions.cameras is {list(self.cameras)}; vehicles have the cameras 0 to 3")
        if self.cells and self.map_size % self.cells:
            raise ConfigError(f"BevOptions.cells is {self.cells}; it must divide map_size, which is {self.map_size}")

    @property
    def metres_per_cell(self) -> float:
        """Side of a cell of the mask that is given [m]."""
        return 2 * self.radius_m / (self.cells or self.map_size)


@dataclass(frozen=True)
class _Place:
    """Where a frame lies: folder of the vehicle and number of the frame."""

    vehicle: Path
    frame: str


class Opv2vSequence:
    """Frames of scenarios, read one at a time; follows :class:`fed_core.data.sequence.BevSequence`.

    Args:
        name: of the client.
        scenarios: scenario folders.
        options: cameras, label, vehicle.
        part: frames to take, as ``slice`` does.

    Raises:
        DataError: there is no scenario, or one without a vehicle or without frames.
    """

    def __init__(
        self, name: str, scenarios: Sequence[Path], options: BevOptions | None = None, part: slice = slice(None)
    ) -> None:
        if not scenarios:
            raise DataError(f"client {name!r} has no scenario")
        self.name, self.source = name, str(scenarios[0].parent)
        self.options = options or BevOptions()
        self.scenarios = tuple(scenarios)
        self._places = [place for scenario in scenarios for place in self._chosen(scenario)][part]
        if not self._places:
            raise DataError(f"client {name!r} has no frame in the part that is asked for")

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._places)

    def __getitem__(self, index: int) -> BevFrame:
        """Return frame ``index``; a missing or broken file raises :class:`DataError`."""
        place, options = self._places[index], self.options
        rig = read_rig(files.pose_file(place.vehicle, place.frame), options.cameras)
        images = tuple(_picture(place, k, matrix) for k, matrix in zip(options.cameras, rig.intrinsics, strict=True))
        mask = read_mask(files.mask_file(place.vehicle, place.frame, options.label), options.map_size)
        known = self._known(rig, [image.shape[1] for image in images])
        if options.cells:
            mask, known = pooled(mask, options.cells), _thinned(known, options.cells)
        return BevFrame(
            cameras=options.cameras,
            images=images,
            intrinsics=rig.intrinsics,
            extrinsics=rig.extrinsics,
            mask=mask,
            known=known,
            metres_per_cell=options.metres_per_cell,
            stamp_ns=self.stamp_ns(index),
            vehicle=place.vehicle.name,
        )

    def scenario(self, index: int) -> str:
        """Return the name of the scenario of frame ``index``."""
        return self._places[index].vehicle.parent.name

    def stamp_ns(self, index: int) -> int:
        """Return the time of frame ``index``, nanoseconds: start of the scenario by its name, and the frame number."""
        place = self._places[index]
        try:
            start = datetime.strptime(place.vehicle.parent.name, "%Y_%m_%d_%H_%M_%S").replace(tzinfo=timezone.utc)
        except ValueError as err:
            raise DataError(f"{place.vehicle.parent}: the name is no date and time") from err
        return int(start.timestamp()) * 1_000_000_000 + round(int(place.frame) * 1e9 / self.options.rate_hz)

    def _chosen(self, scenario: Path) -> list[_Place]:
        vehicles = files.list_vehicles(scenario)
        if not vehicles:
            raise DataError(f"scenario {scenario} has no folder of a vehicle")
        if self.options.vehicle == DRAWN:
            # By the scenario's name: the draw must not depend on which other scenarios are there.
            words = [self.options.seed, self.options.epoch, zlib.crc32(scenario.name.encode())]
            vehicles = [vehicles[int(np.random.default_rng(words).integers(len(vehicles)))]]
        elif self.options.vehicle == FIRST:
            vehicles = vehicles[:1]
        places = [_Place(vehicle, frame) for vehicle in vehicles for frame in files.list_frames(vehicle)]
        if not places:
            raise DataError(f"scenario {scenario}: vehicle {vehicles[0].name} has no frames (NUMBER.yaml)")
        return places

    def _known(self, rig: Rig, widths: Sequence[int]) -> Mask:
        options = self.options
        if options.amcm_mask == SECTOR:
            return sector_mask(options.map_size, options.cameras)
        if options.amcm_mask == FOV:
            return fov_mask(options.map_size, rig, widths, options.radius_m)
        return np.ones((options.map_size, options.map_size), np.bool_)


def _picture(place: _Place, camera: int, intrinsics: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Return a picture (H, W, 3) uint8; one that was resized without its matrix is refused."""
    path = files.image_file(place.vehicle, place.frame, camera)
    image = read_rgb(path)
    height, width = image.shape[:2]
    column, row = intrinsics[:2, 2]
    if max(abs(column / width - 0.5), abs(row / height - 0.5)) > _OFF_CENTRE:
        axis = f"the optical axis of camera{camera} (its intrinsic matrix) is at ({column:g}, {row:g})"
        raise DataError(f"{path} is {width}x{height}, but {axis}, far from its centre; was the picture resized?")
    return image


def _thinned(known: Mask, cells: int) -> Mask:
    """Return which coarse cells are known in all their parts."""
    return np.logical_not(pooled(np.logical_not(known), cells))


@dataclass(frozen=True)
class BevSource:
    """What feeds a robot that learns a bird's eye view: an entry of a fleet file."""

    data: str = option(help="folder of a client, or of one scenario")
    name: str = option("", help="name of the sequence; default: that of the folder")
    scenarios: tuple[str, ...] = option((), help="only these scenarios")
    start: int = option(0, help="first frame; negative counts from the end")
    stop: int | None = option(None, help="frame after the last")
    step: int = option(1, help="take every step-th frame", unit="count", low=1)
    options: BevOptions = option(BevOptions(), help="cameras, label, vehicle")

    def __post_init__(self) -> None:
        """Check the bounds."""
        check(self)


def open_bev(source: Any, base: Path) -> Opv2vSequence:
    """Open an entry of a fleet file.

    Args:
        source: keys and values of :class:`BevSource`, or one.
        base: folder of the fleet file; relative paths start here unless ``FED_PERCEPTION_DATA`` is set.

    Raises:
        DataError: the folder is missing or holds no scenario.
        ConfigError: a key is unknown or out of its bounds.
    """
    config = source if isinstance(source, BevSource) else from_tree(BevSource, source, "source")
    folder = data_path(config.data, base)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    found = {scenario.name: scenario for scenario in files.list_scenarios(folder)}
    missing = [name for name in config.scenarios if name not in found]
    if missing:
        raise DataError(f"{folder} has no scenario {missing[0]}; it has {', '.join(found) or 'none'}")
    chosen = [path for name, path in found.items() if not config.scenarios or name in config.scenarios]
    if not chosen:
        raise DataError(f"{folder} holds no scenario; its folders must be named yyyy_mm_dd_hh_mm_ss")
    part = slice(config.start, config.stop, config.step)
    return Opv2vSequence(config.name or folder.name, chosen, config.options, part)
