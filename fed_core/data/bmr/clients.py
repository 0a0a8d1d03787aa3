"""Robots and unseen sequences of the BMR scenario: ten scene types of NYU indoors, ten drives of KITTI outdoors."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fed_core.data.bmr.crop import KITTI_SIZE, BottomCrop
from fed_core.data.bmr.kitti import NAME as KITTI
from fed_core.data.bmr.kitti import kitti_camera, kitti_frames
from fed_core.data.bmr.nyu import NAME as NYU
from fed_core.data.bmr.nyu import nyu_frames
from fed_core.data.intrinsics import pinhole
from fed_core.data.readers.base import FolderSequence, FramePair
from fed_core.data.readers.nyu import INTRINSICS as NYU_INTRINSICS
from fed_core.data.sequence import DepthSequence
from fed_core.data.units import DepthCoding
from fed_core.errors import DataError

INDOOR, OUTDOOR = "indoor", "outdoor"
CLIENT, TEST = "client", "test"
#: Robots of each group, and most frames of one robot (fedepth spec 11).
CLIENTS_PER_GROUP = 10
MAX_FRAMES = 1000
#: Largest depth that is scored, in metres (fedepth spec 8).
INDOOR_CAP_M, OUTDOOR_CAP_M = 10.0, 80.0
#: Smallest depth that is scored and that networks know, in metres.
D_MIN_M = 1e-3


@dataclass(frozen=True)
class BmrSequence:
    """One robot's recording, or one unseen sequence; nothing is read before :meth:`open`.

    Attributes:
        name: valid as a robot's name ("nyu_living_room", "kitti_2011_09_30_drive_0028").
        role: "client" trains, "test" is never trained on.
        group: "indoor" or "outdoor".
        source: folder of the data set.
        frames: files in time order.
        coding: of the depth files.
        intrinsics: fx, fy, cx, cy of the whole image in pixels.
        cap_m: largest depth that is scored [m].
        crop: evaluation crop, see :func:`fed_core.metrics.depth.crop_mask`.
        size: (H, W) that frames are cut to, at the bottom and in the middle; None = whole images.
    """

    name: str
    role: str
    group: str
    source: str
    frames: tuple[FramePair, ...]
    coding: DepthCoding
    intrinsics: tuple[float, float, float, float]
    cap_m: float
    crop: str
    size: tuple[int, int] | None = None

    def open(self) -> DepthSequence:
        """Return the frames, read one at a time."""
        whole = FolderSequence(self.name, self.source, self.frames, self.coding, pinhole(self.intrinsics))
        return whole if self.size is None else BottomCrop(whole, self.size)

    @property
    def info(self) -> dict[str, str]:
        """What belongs to the recording, for :func:`fed_core.data.store.write_store`."""
        indoor = self.group == INDOOR
        return {
            "role": self.role,
            "platform": "handheld" if indoor else "car",
            "environment": self.group,
            "site": self.name.partition("_")[2].removesuffix("_test"),
            "data_set": NYU if indoor else KITTI,
            "cap_m": f"{self.cap_m:g}",
            "d_min_m": f"{D_MIN_M:g}",
            "crop": self.crop,
        }


def bmr_clients(
    nyu_root: Path, kitti_root: Path, splits: Path | None = None, max_frames: int = MAX_FRAMES
) -> tuple[BmrSequence, ...]:
    """Return the robots: the ten largest scene types, then the ten largest drives.

    Args:
        nyu_root: folder of NYU Depth v2.
        kitti_root: folder of KITTI.
        splits: folder with the published lists of frames; None = all that the trees hold.
        max_frames: most frames of one robot, spread evenly over its recording.

    Raises:
        DataError: a data set is missing, incomplete, or has fewer than ten scene types or drives.
    """
    if max_frames < 1:
        raise DataError(f"max_frames is {max_frames}; it must be at least 1")
    types = _largest(nyu_frames(nyu_root, "train", splits), f"scene types of {NYU}", nyu_root)
    drives = _largest(kitti_frames(kitti_root, "train", splits), f"drives of {KITTI}", kitti_root)
    indoor = [_indoor(f"nyu_{name}", CLIENT, nyu_root, _spread(frames, max_frames)) for name, frames in types]
    outdoor = [_outdoor(f"kitti_{name}", CLIENT, kitti_root, _spread(frames, max_frames)) for name, frames in drives]
    return (*indoor, *outdoor)


def bmr_tests(nyu_root: Path, kitti_root: Path, splits: Path | None = None) -> tuple[BmrSequence, ...]:
    """Return the unseen sequences: NYU's test frames by scene type, then KITTI's by drive, each by name.

    NYU's are single images, not videos. Arguments and errors as in :func:`bmr_clients`.
    """
    types, drives = nyu_frames(nyu_root, "test", splits), kitti_frames(kitti_root, "test", splits)
    indoor = [_indoor(f"nyu_{name}_test", TEST, nyu_root, types[name]) for name in sorted(types)]
    outdoor = [_outdoor(f"kitti_{name}_test", TEST, kitti_root, drives[name]) for name in sorted(drives)]
    return (*indoor, *outdoor)


def _largest(
    groups: Mapping[str, tuple[FramePair, ...]], what: str, root: Path
) -> list[tuple[str, tuple[FramePair, ...]]]:
    if len(groups) < CLIENTS_PER_GROUP:
        found = ", ".join(sorted(groups)) or "none"
        raise DataError(f"{root} has {len(groups)} {what} ({found}); the scenario needs {CLIENTS_PER_GROUP}")
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:CLIENTS_PER_GROUP]


def _spread(frames: tuple[FramePair, ...], most: int) -> tuple[FramePair, ...]:
    if len(frames) <= most:
        return frames
    return tuple(frames[index] for index in np.linspace(0, len(frames) - 1, most).round().astype(int))


def _indoor(name: str, role: str, root: Path, frames: tuple[FramePair, ...]) -> BmrSequence:
    coding = DepthCoding("mm")
    return BmrSequence(name, role, INDOOR, str(root), frames, coding, NYU_INTRINSICS, INDOOR_CAP_M, "nyu")


def _outdoor(name: str, role: str, root: Path, frames: tuple[FramePair, ...]) -> BmrSequence:
    matrix = kitti_camera(frames[0].rgb)
    camera = (float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 2]), float(matrix[1, 2]))
    coding = DepthCoding("1/256 m")
    return BmrSequence(name, role, OUTDOOR, str(root), frames, coding, camera, OUTDOOR_CAP_M, "garg", KITTI_SIZE)
