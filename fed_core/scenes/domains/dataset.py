"""Writes the five-domain driving set scene by scene as nuScenes tables; goes on where it was stopped."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fed_core.config import check, option, to_tree
from fed_core.data.nuscenes.records import merge_tables
from fed_core.data.nuscenes.writer import TableWriter
from fed_core.errors import ConfigError
from fed_core.scenes.domains.kinds import KINDS, domain_kind
from fed_core.scenes.domains.lidar import Lidar, lidar_to_ego
from fed_core.scenes.domains.scenario import CAMERAS, KEYFRAME_S, DomainScene, Recording
from fed_core.scenes.recipes import claim

#: Name of the version folder.
GENERATED = "v1.0-generated"
#: Changes where the same recipe gives other files.
VERSION = 1
SPLITS = ("train", "val")
_PART = "v1.0-part-"
#: Noon of 2000-01-01; scenes follow at this distance.
_FIRST_NS = 946_728_000_000_000_000
_SCENE_NS = 600_000_000_000

OnStep = Callable[[int, int], None]


@dataclass(frozen=True)
class DomainOptions:
    """What is generated. Default sizes are skewed like the paper's 265/125/226/71/13 and 53/24/58/12/3 scenes."""

    seed: int = option(0, help="another seed is other streets and traffic", low=0)
    domains: tuple[str, ...] = option(tuple(KINDS), help="letters of the domains, in order")
    train_scenes: tuple[int, ...] = option((20, 9, 17, 5, 3), help="training scenes of A, B, C, D, E")
    val_scenes: tuple[int, ...] = option((10, 5, 11, 3, 2), help="validation scenes of A, B, C, D, E")
    keyframes: int = option(8, help="of a scene, two per second", unit="count", low=2, high=1000)
    sweeps: int = option(1, help="LiDAR scans before each keyframe", unit="count", low=0, high=9)
    width: int = option(160, help="width of the pictures", unit="px", low=16, high=1600)
    height: int = option(64, help="height of the pictures", unit="px", low=16, high=1200)
    view_deg: float = option(110.0, help="horizontal field of view", unit="deg", low=30.0, high=150.0)
    cameras: tuple[str, ...] = option(("CAM_FRONT", "CAM_BACK"), help="cameras by nuScenes' names")
    beams: int = option(24, help="rows of the LiDAR", unit="count", low=1, high=128)
    azimuths: int = option(300, help="columns of the LiDAR", unit="count", low=8, high=4000)
    radius_m: float = option(50.0, help="farthest true boxes", unit="m", low=5.0, high=100.0)

    def __post_init__(self) -> None:
        """Check bounds and names."""
        check(self)
        for letter in self.domains:
            domain_kind(letter)
        if not self.domains or len(set(self.domains)) != len(self.domains):
            raise ConfigError(f"DomainOptions.domains is {list(self.domains)}; name each domain once")
        for name in self.cameras:
            if name not in CAMERAS:
                raise ConfigError(f"no camera is called {name!r}; known: {', '.join(CAMERAS)}")
        if not self.cameras or len(set(self.cameras)) != len(self.cameras):
            raise ConfigError(f"DomainOptions.cameras is {list(self.cameras)}; name each camera once")
        for field in ("train_scenes", "val_scenes"):
            counts = getattr(self, field)
            if len(counts) != len(KINDS) or min(counts) < 0:
                raise ConfigError(f"DomainOptions.{field} is {list(counts)}; give {len(KINDS)} counts, none below 0")
        if not any(True for _ in plan(self)):
            raise ConfigError("DomainOptions: the chosen domains have no scenes at all")

    @property
    def recording(self) -> Recording:
        """How scenes are recorded."""
        lidar = Lidar(self.beams, self.azimuths)
        return Recording(self.width, self.height, self.view_deg, self.cameras, lidar, self.keyframes, self.radius_m)


@dataclass(frozen=True)
class PlannedScene:
    """A scene that is to be written.

    Attributes:
        name: in the tables.
        letter: of its domain.
        split: "train" or "val".
        index: number within domain and split; the first shows all classes of the domain.
    """

    name: str
    letter: str
    split: str
    index: int


def plan(options: DomainOptions) -> Iterator[PlannedScene]:
    """Return all scenes; a domain's do not depend on which others are generated."""
    for letter in options.domains:
        for split, counts in zip(SPLITS, (options.train_scenes, options.val_scenes), strict=True):
            for index in range(counts[list(KINDS).index(letter)]):
                yield PlannedScene(f"scene-{letter.lower()}-{split}-{index:03d}", letter, split, index)


def generate(folder: Path, options: DomainOptions | None = None, on_step: OnStep = lambda done, total: None) -> Path:
    """Write ``samples/``, ``sweeps/`` and ``v1.0-generated/``; finished scenes stay as they are.

    Args:
        folder: dataroot to fill.
        options: what is generated; default: :class:`DomainOptions`.
        on_step: called with keyframes done and keyframes in all.

    Returns:
        The folder.

    Raises:
        DataError: the folder holds something else, or cannot be written.
    """
    options = options or DomainOptions()
    claim(folder, {"set": "detection", "version": VERSION, **to_tree(options)})
    planned = list(plan(options))
    if (folder / GENERATED).exists():
        return _tidied(folder, planned)
    total, done = len(planned) * options.keyframes, 0
    for scene in planned:
        # What a stopped run left of a scene has no tables, and is written over.
        if not (folder / _part(scene)).exists():
            for _ in _written(folder, scene, options):
                done += 1
                on_step(done, total)
        else:
            done += options.keyframes
            on_step(done, total)
    merge_tables(folder, [_part(scene) for scene in planned], GENERATED)
    return _tidied(folder, planned)


def _tidied(folder: Path, planned: list[PlannedScene]) -> Path:
    """Take away the tables of single scenes: a folder with more than one version is not clear to readers."""
    for scene in planned:
        shutil.rmtree(folder / _part(scene), ignore_errors=True)
    return folder


def open_scene(planned: PlannedScene, options: DomainOptions) -> DomainScene:
    """Return the world of a scene."""
    words = (options.seed, list(KINDS).index(planned.letter), SPLITS.index(planned.split), planned.index)
    return DomainScene(domain_kind(planned.letter), options.recording, words, full=planned.index == 0)


def _written(folder: Path, planned: PlannedScene, options: DomainOptions) -> Iterator[None]:
    """Write one scene with tables of its own, which come last."""
    scene, domain = open_scene(planned, options), domain_kind(planned.letter)
    writer = TableWriter(folder, _part(planned))
    writer.add_log(f"log-{planned.name}", location=domain.city.location)
    writer.add_scene(planned.name, f"{domain.description}, generated", split=planned.split)
    start, period = _start_ns(planned), KEYFRAME_S / (options.sweeps + 1)
    for index in range(options.keyframes):
        for k in range(options.sweeps, 0, -1):
            time_s = index * KEYFRAME_S - k * period
            points, ego = scene.sweep(time_s, index * options.sweeps + k)
            stamp_ns = start + round(time_s * 1e6) * 1000
            writer.add_sweep(points, stamp_ns, lidar_to_ego=lidar_to_ego(), ego_to_global=ego)
        stamp_ns = start + round(index * KEYFRAME_S * 1e6) * 1000
        keyframe = scene.keyframe(index, stamp_ns, f"{planned.name}-{index}")
        writer.add_keyframe(keyframe.frame, keyframe.instances, keyframe.attributes)
        yield None
    writer.close()


def _part(scene: PlannedScene) -> str:
    return f"{_PART}{scene.name}"


def _start_ns(scene: PlannedScene) -> int:
    """Return the time of the first keyframe; no two scenes overlap."""
    number = (list(KINDS).index(scene.letter) * len(SPLITS) + SPLITS.index(scene.split)) * 1000 + scene.index
    return _FIRST_NS + number * _SCENE_NS
