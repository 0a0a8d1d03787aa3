"""An M3ED recording as a sequence of RGB-D frames, one image in memory at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fed_core.data.m3ed import files as h5
from fed_core.data.m3ed import geometry
from fed_core.data.m3ed.calibration import EVENT_LEFT, EVENT_RIGHT, RGB, CameraCalibration, read_camera
from fed_core.data.m3ed.files import M3edFiles, find_files, image_stack, open_hdf5, read_image, read_times
from fed_core.data.m3ed.options import DEPTH_TO_RGB, POSE, M3edOptions
from fed_core.data.m3ed.pairing import DtHistogram, TimePair, dt_histogram, paired_frames
from fed_core.data.m3ed.poses import Pose, PoseTrack, inverse
from fed_core.data.m3ed.video import VideoImages
from fed_core.data.units import require_some_depth, valid_share
from fed_core.errors import DataError
from fed_core.types import Array, DepthFrame


class _Images(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Array: ...


@dataclass(frozen=True)
class NativeDepth:
    """Depth as published, in the left event camera.

    Attributes:
        depth_m: (H, W) float32 metres in the distorted image, NaN = unknown.
        stamp_ns: its own time, nanoseconds.
        frame_id: "prophesee_left".
    """

    depth_m: npt.NDArray[np.float32]
    stamp_ns: int
    frame_id: str = EVENT_LEFT


def open_m3ed(folder: Path, options: M3edOptions | None = None, *, name: str = "") -> "M3edSequence":
    """Open an M3ED recording.

    Args:
        folder: holds ``<name>_data.h5``, ``<name>_depth_gt.h5``, and optionally ``<name>_rgb.avi``, which is then
            used for the images.
        options: pairing, camera frame, size; None = defaults.
        name: which recording, where the folder holds several.

    Raises:
        DataError: a file is missing, cut off, without calibration, or of another recording.
    """
    return M3edSequence(find_files(folder, name), options or M3edOptions())


class M3edSequence:
    """RGB-D frames of one recording in time order.

    Args:
        files: of the recording.
        options: pairing, camera frame, size.

    Attributes:
        name: name of the recording.
        source: its folder.
        cameras: calibrations by frame name, at full size: "ovc_rgb", "prophesee_left" and, where it is in the file,
            "prophesee_right".
        camera: the camera of the frames, at output size; its ``distortion`` is still in the images.
        frame_id: frame name of the frames.
        pairs: depth map and image of each frame.
        histogram: |dt| of all depth maps to their nearest images.
    """

    def __init__(self, files: M3edFiles, options: M3edOptions) -> None:
        self.name, self.source, self.options = files.name, str(files.data.parent), options
        self._files = files
        self._data, self._depth_file = open_hdf5(files.data), open_hdf5(files.depth)
        names = [RGB, EVENT_LEFT, *([EVENT_RIGHT] if h5.GROUP_RIGHT in self._data else [])]
        self.cameras = {name: read_camera(self._data, name, files.data) for name in names}
        self._image_us = read_times(self._data, h5.IMAGE_TIMES, files.data)
        self._depth_us = read_times(self._depth_file, h5.DEPTH_TIMES, files.depth)
        self._images = self._open_images()
        event = self.cameras[EVENT_LEFT]
        self._depths = image_stack(self._depth_file, h5.DEPTHS, files.depth, (event.height, event.width))
        h5.require_counts(files.depth, (("depth times", len(self._depth_us)), ("depth maps", len(self._depths))))
        self.histogram: DtHistogram = dt_histogram(self._depth_us, self._image_us)
        self.pairs: tuple[TimePair, ...] = tuple(paired_frames(files, self._depth_us, self._image_us, options))
        self._track = self._open_track() if options.pairing == POSE else None
        self._full = self.cameras[RGB if options.frame == DEPTH_TO_RGB else EVENT_LEFT]
        self._size = geometry.output_size(self._full, options.width, options.height)
        self.camera: CameraCalibration = self._full.cropped(*self._size)
        self.frame_id = self.camera.name

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.pairs)

    def __getitem__(self, index: int) -> DepthFrame:
        """Return frame ``index``; a damaged image or a frame without any depth raises :class:`DataError`."""
        pair = self.pairs[index]
        bgr = self._images[pair.image]
        rgb = np.ascontiguousarray(bgr[..., ::-1])
        native = self._read_depth(pair.depth)
        motion = self._motion(pair)
        if self.options.frame == DEPTH_TO_RGB:
            depth_m = self._seen(native, inverse(self.cameras[RGB].to_event_left) @ motion, self.cameras[RGB])
        else:
            depth_m = native if not motion_needed(motion) else self._seen(native, motion, self._full)
            rgb, inside = geometry.colour_to_event(rgb, self.cameras[RGB], self._rays)
            depth_m = np.where(inside, depth_m, np.float32(np.nan))
        depth_m = geometry.halve_depth(depth_m, self._size)
        require_some_depth(depth_m, f"{self._files.depth}, depth map {pair.depth}")
        rgb = geometry.halve_rgb(rgb, self._size)
        return DepthFrame(rgb, depth_m, self.stamp_ns(index), self.camera.matrix, self.frame_id)

    def stamp_ns(self, index: int) -> int:
        """Return the time of frame ``index`` without reading it: that of its image, nanoseconds."""
        return int(self._image_us[self.pairs[index].image]) * 1000

    def native(self, index: int) -> NativeDepth:
        """Return the depth map of frame ``index`` as published, at its own time, in the left event camera."""
        depth = self.pairs[index].depth
        raw = read_image(self._depths, depth, self._files.depth)
        return NativeDepth(geometry.usable_depth(raw, 0.0, np.inf), int(self._depth_us[depth]) * 1000)

    def native_share(self, index: int) -> float:
        """Return the share of pixels with a depth between the bounds in the published map of frame ``index``."""
        return valid_share(self._read_depth(self.pairs[index].depth))

    def facts(self) -> Iterator[tuple[str, str]]:
        """Return what people want to know about the recording: (field, value)."""
        yield "recording", self.name
        yield "images", f"{len(self._image_us)} from {'rgb.avi' if self._files.video else 'data.h5'}"
        yield "depth maps", str(len(self._depth_us))
        yield "pairing", f"{self.options.pairing}, |dt| <= {self.options.tolerance_us / 1000:g} ms"
        yield "|dt|", str(self.histogram)

    def close(self) -> None:
        """Close the files; a later access fails."""
        self._data.close()
        self._depth_file.close()

    @cached_property
    def _rays(self) -> npt.NDArray[np.float32]:
        return self.cameras[EVENT_LEFT].rays()

    def _read_depth(self, index: int) -> npt.NDArray[np.float32]:
        raw = read_image(self._depths, index, self._files.depth)
        return geometry.usable_depth(raw, self.options.min_depth_m, self.options.max_depth_m)

    def _seen(
        self, native: npt.NDArray[np.float32], motion: Pose, camera: CameraCalibration
    ) -> npt.NDArray[np.float32]:
        points = geometry.moved(geometry.points_of(native, self._rays), motion)
        seen = geometry.fill_gaps(geometry.splat(points, camera))
        return geometry.usable_depth(seen, self.options.min_depth_m, self.options.max_depth_m)

    def _motion(self, pair: TimePair) -> Pose:
        if self._track is None:
            return np.eye(4)
        return self._track.motion(int(self._depth_us[pair.depth]), int(self._image_us[pair.image]))

    def _open_images(self) -> _Images:
        files, camera = self._files, self.cameras[RGB]
        if files.video is not None:
            images: _Images = VideoImages(files.video, camera.width, camera.height)
            h5.require_counts(
                files.video, (("images", len(images)), (f"times in {files.data.name}", len(self._image_us)))
            )
            return images
        if h5.IMAGES not in self._data:
            raise DataError(
                f"{files.data} has no /{h5.IMAGES} and {files.name}{h5.VIDEO} is not there; fetch one of them"
            )
        stack = image_stack(self._data, h5.IMAGES, files.data, (camera.height, camera.width, 3))
        h5.require_counts(files.data, (("image times", len(self._image_us)), ("images", len(stack))))
        return _StackImages(stack, files.data)

    def _open_track(self) -> PoseTrack:
        where = f"{self._files.depth}, /{h5.POSES}"
        if h5.POSES not in self._depth_file:
            raise DataError(f"{where} is missing; use pairing: strict")
        poses = np.asarray(self._depth_file[h5.POSES][()], dtype=np.float64)
        return PoseTrack(self._depth_us, poses, where)


class _StackImages:
    def __init__(self, stack: Any, path: Path) -> None:
        self._stack, self._path = stack, path

    def __len__(self) -> int:
        return len(self._stack)

    def __getitem__(self, index: int) -> Array:
        return read_image(self._stack, index, self._path)


def motion_needed(motion: Pose) -> bool:
    """Tell whether a (4, 4) motion moves anything."""
    return not np.array_equal(motion, np.eye(4))
