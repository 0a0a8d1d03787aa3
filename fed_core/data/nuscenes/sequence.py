"""Keyframes of nuScenes as scans with boxes in the LiDAR frame."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fed_core.config import check, option
from fed_core.data.nuscenes.domains import DOMAINS, SPLITS, Scene, list_scenes
from fed_core.data.nuscenes.frames import read_frame
from fed_core.data.nuscenes.tables import open_tables, told_of
from fed_core.errors import ConfigError, DataError
from fed_core.types import DetectionFrame

if TYPE_CHECKING:
    from nuscenes.nuscenes import NuScenes

CAMERAS = (
    "CAM_FRONT",
    "CAM_FRONT_RIGHT",
    "CAM_FRONT_LEFT",
    "CAM_BACK",
    "CAM_BACK_LEFT",
    "CAM_BACK_RIGHT",
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NuScenesOptions:
    """Which frames of a folder are taken, and what of them."""

    version: str = option("", help='version folder, "v1.0-trainval"; default: the only one')
    domain: str = option("", help="scenes of one domain only", choices=("", *DOMAINS.values()))
    split: str = option("", help="scenes of one split only", choices=("", *SPLITS))
    scenes: tuple[str, ...] = option((), help="only these scenes")
    cameras: tuple[str, ...] = option(CAMERAS, help="channels of the cameras, in the order that frames give them")
    sweeps: int = option(5, help="earlier scans added to that of a keyframe", unit="count", low=0)
    load_interval: int = option(1, help="take every n-th keyframe of each scene", unit="count", low=1)
    min_points: int = option(0, help="leave out boxes with fewer LiDAR points", unit="count", low=0)

    def __post_init__(self) -> None:
        """Check the bounds and that no camera comes twice."""
        check(self)
        if len(set(self.cameras)) != len(self.cameras):
            raise ConfigError(f"NuScenesOptions.cameras is {list(self.cameras)}; name each camera once")


class NuScenesSequence:
    """Keyframes, scene by scene, in time order; follows :class:`fed_core.data.sequence.DetectionSequence`.

    Args:
        name: of the robot or the domain.
        root: dataroot.
        options: version, domain, split, scenes, cameras, sweeps.
        part: frames to take, as ``slice`` does.

    Raises:
        DataError: the folder or a table is broken, a scene or a camera is not there, or no frame is left.
    """

    def __init__(
        self, name: str, root: Path, options: NuScenesOptions | None = None, part: slice = slice(None)
    ) -> None:
        self.name, self.source = name, str(root)
        self.options = options or NuScenesOptions()
        self.tables: NuScenes = open_tables(root, self.options.version)
        with told_of(self.tables):
            self._check_cameras()
            self.scenes = self._chosen()
            self._samples = _keyframes(self.tables, self.scenes, self.options.load_interval)[part]
        if not self._samples:
            raise DataError(f"{root}: no keyframe of {name!r} is in the part that is asked for")
        self._told = False

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._samples)

    def __getitem__(self, index: int) -> DetectionFrame:
        """Return frame ``index``; a missing or broken file raises :class:`DataError`."""
        sample, options = self._samples[index], self.options
        with told_of(self.tables, f"keyframe {sample['token']}"):
            return read_frame(
                self.tables,
                sample,
                options.cameras,
                sweeps=options.sweeps,
                min_points=options.min_points,
                on_missing=self._tell,
            )

    def token(self, index: int) -> str:
        """Return the sample token of frame ``index`` without reading it."""
        return str(self._samples[index]["token"])

    def scene(self, index: int) -> str:
        """Return the name of the scene of frame ``index`` without reading it."""
        return str(self.tables.get("scene", self._samples[index]["scene_token"])["name"])

    def _check_cameras(self) -> None:
        known = [sensor["channel"] for sensor in self.tables.sensor if sensor["modality"] == "camera"]
        for camera in self.options.cameras:
            if camera not in known:
                raise DataError(f"{self.source} has no camera {camera}; it has {', '.join(sorted(known)) or 'none'}")

    def _chosen(self) -> tuple[str, ...]:
        """Return the names of the scenes that the options ask for."""
        options, scenes = self.options, list_scenes(self.tables)
        unknown = set(options.scenes) - {scene.name for scene in scenes}
        if unknown:
            raise DataError(f"{self.source} has no scene {min(unknown)}; it has {len(scenes)} scenes")
        chosen = tuple(scene.name for scene in scenes if _fits(scene, options))
        if not chosen:
            domains = sorted({f"{scene.domain} ({scene.split})" for scene in scenes if scene.domain and scene.split})
            asked = {"domain": options.domain, "split": options.split, "scenes": ", ".join(options.scenes)}
            told = ", ".join(f"{key} {value}" for key, value in asked.items() if value) or "any name"
            raise DataError(f"{self.source} has no scene of {told}; it has {', '.join(domains) or 'no domain'}")
        return chosen

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            _log.warning(
                "%s: earlier LiDAR scans are missing, frames go without them; the first: %s", self.name, reason
            )


def _fits(scene: Scene, options: NuScenesOptions) -> bool:
    return (
        (not options.domain or scene.domain == options.domain)
        and (not options.split or scene.split == options.split)
        and (not options.scenes or scene.name in options.scenes)
    )


def _keyframes(tables: "NuScenes", scenes: tuple[str, ...], interval: int) -> list[Mapping[str, Any]]:
    """Return the sample records of scenes, every ``interval``-th of each by time."""
    names = {record["token"]: record["name"] for record in tables.scene}
    samples: dict[str, list[Mapping[str, Any]]] = {name: [] for name in scenes}
    for sample in tables.sample:
        name = names.get(sample["scene_token"])
        if name in samples:
            samples[name].append(sample)
    return [
        sample
        for group in samples.values()
        for sample in sorted(group, key=lambda each: int(each["timestamp"]))[::interval]
    ]
