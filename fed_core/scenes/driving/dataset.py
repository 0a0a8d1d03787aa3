"""Writes the stand-in for OPV2V: clients, scenarios and frames as files; goes on where it was stopped."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fed_core.config import check, option, to_tree
from fed_core.data.image_files import encode_png
from fed_core.data.opv2v.files import GENERATED_YEAR, SPLITS, write_whole
from fed_core.data.opv2v.use_cases import OWN_FILE
from fed_core.errors import ConfigError
from fed_core.scenes.driving.carriers import CLIENTS, client_kind
from fed_core.scenes.driving.scenario import Recorded, Recording, Scenario
from fed_core.scenes.recipes import claim
from fed_core.wire.files import write_text

#: Changes where the same recipe gives other files.
VERSION = 1
RATE_HZ = 10.0
_COMPRESSION = 3
#: Scenarios are called after times from here on; no real recording is that old.
_FIRST_NAME = datetime(GENERATED_YEAR, 1, 1)

OnProgress = Callable[[int, int], None]

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class DrivingOptions:
    """What is generated."""

    seed: int = option(0, help="another seed is other streets and traffic", low=0)
    frames: int = option(1024, help="training frames of all clients together", unit="count", low=1, high=1e6)
    test_frames: int = option(64, help="test frames of each client", unit="count", low=1, high=1e6)
    width: int = option(256, help="width of the pictures", unit="px", low=16, high=1600)
    height: int = option(192, help="height of the pictures", unit="px", low=16, high=1200)
    clients: tuple[str, ...] = option(tuple(CLIENTS), help="clients, in order")
    scene_frames: int = option(16, help="most frames of a scenario", unit="count", low=1, high=1000)
    frame_step: int = option(5, help="frame numbers (10 per second) from one frame to the next", unit="count", low=1)
    carriers: int = option(1, help="vehicles with cameras in a scenario", unit="count", low=1, high=4)
    map_size: int = option(256, help="side of the masks", unit="px", low=16, high=1024)
    radius_m: float = option(50.0, help="half side of the masks", unit="m", low=5.0, high=100.0)
    min_visible_px: int = option(30, help="pixels of a vehicle in one camera from which on it counts", low=1)

    def __post_init__(self) -> None:
        """Check bounds and names."""
        check(self)
        if not self.clients or len(set(self.clients)) != len(self.clients):
            raise ConfigError(f"DrivingOptions.clients is {list(self.clients)}; name each client once")
        for name in self.clients:
            client_kind(name)
        if self.frames < len(self.clients):
            raise ConfigError(f"DrivingOptions.frames is {self.frames}; {len(self.clients)} clients need one each")

    def frames_of_clients(self) -> dict[str, int]:
        """Return the training frames of each client, in the ratio of the paper's counts, at least one."""
        shares = np.array([CLIENTS[name].share for name in self.clients], float)
        counts = self.frames * shares / shares.sum()
        whole = np.maximum(np.floor(counts), 1).astype(int)
        for k in np.argsort(whole - counts, kind="stable")[: max(0, self.frames - int(whole.sum()))]:
            whole[k] += 1
        while whole.sum() > self.frames:  # small clients were given one that others must do without
            whole[int(np.argmax(whole))] -= 1
        return dict(zip(self.clients, (int(count) for count in whole), strict=True))

    def recording(self, frames: int) -> Recording:
        """Return how a scenario of ``frames`` frames is recorded."""
        return Recording(
            width=self.width,
            height=self.height,
            map_size=self.map_size,
            radius_m=self.radius_m,
            min_visible_px=self.min_visible_px,
            period_s=self.frame_step / RATE_HZ,
            frames=frames,
            carriers=self.carriers,
        )


@dataclass(frozen=True)
class PlannedScenario:
    """A scenario that is to be written.

    Attributes:
        client: its client.
        folder: relative to the root.
        frames: number of frames.
        words: seeds.
    """

    client: str
    folder: Path
    frames: int
    words: tuple[int, ...]


def generate(
    root: Path, options: DrivingOptions | None = None, on_progress: OnProgress = lambda done, total: None
) -> Path:
    """Write ``{train,test}/client_k/SCENARIO/VEHICLE/`` with pictures, masks and poses as OPV2V has them.

    A finished folder stays as it is, a half-done one goes on. ``use_case.yaml`` is written last.

    Args:
        root: folder to fill.
        options: what is generated; default: :class:`DrivingOptions`.
        on_progress: called with frames done and frames in all.

    Returns:
        The root.

    Raises:
        DataError: the folder holds something else, or cannot be written.
    """
    options = options or DrivingOptions()
    claim(root, {"version": VERSION, **to_tree(options)})
    if (root / OWN_FILE).exists():
        return root
    planned = list(plan(options))
    total, done = sum(scenario.frames for scenario in planned), 0
    for scenario in planned:
        for _ in _written(root, scenario, options):
            done += 1
            on_progress(done, total)
    case = {"generated": _use_case(options, planned)}
    write_text(root / OWN_FILE, yaml.safe_dump(case, sort_keys=False, default_flow_style=None))
    return root


def plan(options: DrivingOptions) -> Iterator[PlannedScenario]:
    """Return all scenarios; their names differ, so none both trains and tests."""
    number = 0
    for k, (client, train) in enumerate(options.frames_of_clients().items()):
        for split, frames in zip(SPLITS, (train, options.test_frames), strict=True):
            for index, count in enumerate(_even(frames, options.scene_frames)):
                name = (_FIRST_NAME + timedelta(minutes=number)).strftime("%Y_%m_%d_%H_%M_%S")
                folder = Path(split) / f"client_{k + 1}" / name
                # By the client's own number: leaving a client out changes nothing for the others.
                words = (options.seed, list(CLIENTS).index(client), SPLITS.index(split), index)
                yield PlannedScenario(client, folder, count, words)
                number += 1


def _even(total: int, most: int) -> list[int]:
    """Return ``total`` cut into equal parts of at most ``most``."""
    parts = -(-total // most)
    return [total // parts + (k < total % parts) for k in range(parts)]


def _written(root: Path, planned: PlannedScenario, options: DrivingOptions) -> Iterator[None]:
    """Write the frames of a scenario that are not there; the file with the poses is the last of each."""
    scenario = Scenario(client_kind(planned.client), options.recording(planned.frames), planned.words)
    for index in range(planned.frames):
        name = f"{index * options.frame_step:06d}"
        folders = {number: root / planned.folder / str(number) for number in scenario.carrier_numbers}
        if not all((folder / f"{name}.yaml").exists() for folder in folders.values()):
            for number, recorded in scenario.frame(index).items():
                _write_frame(folders[number], name, recorded)
        yield None


def _write_frame(folder: Path, name: str, recorded: Recorded) -> None:
    for camera, image in enumerate(recorded.images):
        write_whole(folder / f"{name}_camera{camera}.png", encode_png(image[..., ::-1], _COMPRESSION))
    for label, picture in recorded.maps.items():
        write_whole(folder / f"{name}_bev_{label}.png", encode_png(picture, _COMPRESSION))
    poses = yaml.dump(recorded.poses, Dumper=_DUMPER, default_flow_style=None, sort_keys=False)
    write_whole(folder / f"{name}.yaml", poses.encode())


def _use_case(options: DrivingOptions, planned: Sequence[PlannedScenario]) -> list[dict[str, Any]]:
    """Return the clients as the files of use cases list them."""
    return [
        {
            "name": client,
            "vehicle": CLIENTS[client].vehicle,
            "cameras": [0, 1, 2, 3],
            **{
                split: [p.folder.name for p in planned if p.client == client and p.folder.parts[0] == split]
                for split in SPLITS
            },
        }
        for client in options.clients
    ]
