"""Draws the outputs of a bag: depth beside its image, boxes in cameras and from above, maps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fed_cli.fleetrun.map_pictures import Patch, draw_map, mosaic
from fed_cli.fleetrun.pictures import add_bar, add_metres, new_grid, save_figure
from fed_cli.fleetrun.scan_pictures import LEGEND, Overlay, class_legend, draw_from_above, draw_in_camera
from fed_cli.recorded.boxes import boxes_of, points_of
from fed_cli.recorded.frames import StaticFrames
from fed_cli.recorded.outputs import CLOUD, GRID, MARKERS, Output, below, cameras_below, find_outputs, gather, info_of
from fed_core.data.bag_files import BagFile
from fed_core.data.bag_topics import IMAGE
from fed_core.data.images import colour_of, decode_depth
from fed_core.errors import DataError
from fed_core.pictures.colours import DEPTH_COLOURS, depth_range
from fed_core.types import Array

#: Cameras of a row of boxes, and the view from above: x of the picture is right of the robot, y ahead.
_MOST_CAMERAS = 3
_AHEAD_UP = np.array([[0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
_BASES = ("base_link", "base_footprint")


@dataclass(frozen=True)
class Wanted:
    """How pictures are made.

    Attributes:
        out: folder.
        frames: rows of a picture.
        min_score: boxes with a lower score are left out.
    """

    out: Path
    frames: int = 3
    min_score: float = 0.2


def draw_bag(path: Path, wanted: Wanted) -> list[Path]:
    """Draw every output in a bag into a picture of its own; returns their paths.

    Raises:
        DataError: it is no bag, is broken, or has nothing that inference published.
    """
    with BagFile(path) as bag:
        outputs = find_outputs(bag)
        try:
            wanted.out.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise DataError(f"cannot make {wanted.out}: {err.strerror}") from err
        return [_DRAW[output.kind](bag, output, wanted) for output in outputs]


def _draw_depth(bag: BagFile, output: Output, wanted: Wanted) -> Path:
    cameras = cameras_below(bag, output.namespace)
    colour = cameras.get("camera", next(iter(cameras.values()), ""))
    sensed = [t for t in below(bag, output.namespace, (IMAGE,), "/depth/image_raw") if t != output.topic][:1]
    frames = gather(bag, output, [*filter(None, [colour]), *sensed], wanted.frames)
    truth = sensed[0] if sensed and any(sensed[0] in frame for frame in frames) else ""
    columns = ["image", *(_title(output, topic) for topic in (output.topic, truth) if topic)]
    times = _times(output, frames)
    rows = [
        (time, colour_of(f[colour]) if colour in f else _no_picture()) for time, f in zip(times, frames, strict=True)
    ]
    figure, axes = new_grid(columns, rows, row_height=2.05)
    from matplotlib.colors import LogNorm

    for line, frame in zip(axes, frames, strict=True):
        depths = [_metres(frame[topic]) for topic in (output.topic, truth) if topic in frame]
        near, far = depth_range(depths[-1])
        for axis, depth in zip(line[1:], depths, strict=False):
            image = axis.imshow(depth, cmap=DEPTH_COLOURS, norm=LogNorm(near, far))
        add_metres(figure, image, line[-1])
    return save_figure(figure, _file(output, wanted))


def _draw_boxes(bag: BagFile, output: Output, wanted: Wanted) -> Path:
    space = output.namespace
    cameras = dict(sorted(cameras_below(bag, space).items(), key=lambda item: "FRONT" not in item[0].upper()))
    cameras = dict([*cameras.items()][:_MOST_CAMERAS])
    clouds = below(bag, space, (CLOUD,), "/points")[:1]
    truths = below(bag, space, (MARKERS,), "/truth/boxes")
    frames = gather(bag, output, [*cameras.values(), *clouds, *truths], wanted.frames)
    placed = StaticFrames(bag)
    infos = {name: info_of(bag, topic) for name, topic in cameras.items()}
    shown = [name for name in cameras if infos[name] is not None]
    rows = []
    for time, frame in zip(_times(output, frames), frames, strict=True):
        pictures = [colour_of(frame[cameras[n]]) if cameras[n] in frame else _no_picture() for n in shown]
        rows.append((time, pictures))
    columns = [*shown, "from above"]
    figure, axes = new_grid(columns, [(time, (p or [_no_picture()])[0]) for time, p in rows], row_height=2.5)
    for line, frame, (_, pictures) in zip(axes, frames, rows, strict=True):
        said = boxes_of(frame[output.topic], wanted.min_score)
        true = boxes_of(frame[truths[0]], 0.0, hit_only=True) if truths and truths[0] in frame else None
        overlay = Overlay(said.rows, None if true is None else true.rows)
        for axis, name, picture in zip(line, shown, pictures, strict=False):
            axis.imshow(picture)
            matrix = _to_pixel(infos[name], placed, said.frame_id)
            if matrix is not None:
                draw_in_camera(axis, picture, matrix, overlay)
        points = points_of(frame[clouds[0]]) if clouds and clouds[0] in frame else np.zeros((0, 3))
        if not shown:
            line[-1].clear()
        view = _view_from_above(placed, said.frame_id)
        draw_from_above(line[-1], points @ view[:3, :3].T + view[:3, 3], overlay.moved(view))
    figure.legend(handles=class_legend(true=bool(truths)), **LEGEND)
    return save_figure(figure, _file(output, wanted))


def _draw_maps(bag: BagFile, output: Output, wanted: Wanted) -> Path:
    cameras = cameras_below(bag, output.namespace)
    truths = below(bag, output.namespace, (GRID,), "/truth/occupancy")[:1]
    frames = gather(bag, output, [*cameras.values(), *truths], wanted.frames)
    rows = []
    for time, frame in zip(_times(output, frames), frames, strict=True):
        views = {name: colour_of(frame[topic]) for name, topic in cameras.items() if topic in frame}
        rows.append((time, mosaic(views) if views else _no_picture()))
    truth = truths[0] if truths and any(truths[0] in frame for frame in frames) else ""
    columns = ["cameras", *(_title(output, topic) for topic in (output.topic, truth) if topic)]
    figure, axes = new_grid(columns, rows, row_height=2.6)
    for line, frame in zip(axes, frames, strict=True):
        maps = [_patch(frame[topic]) for topic in (output.topic, truth) if topic in frame]
        for axis, patch in zip(line[1:], maps, strict=False):
            image = draw_map(axis, patch, maps[1] if patch is maps[0] and len(maps) > 1 else None)
        add_bar(figure, image, line[-1], "vehicle")
    return save_figure(figure, _file(output, wanted))


_DRAW: dict[str, Callable[[BagFile, Output, Wanted], Path]] = {
    "depth": _draw_depth,
    "boxes": _draw_boxes,
    "map": _draw_maps,
}


def _file(output: Output, wanted: Wanted) -> Path:
    space = output.namespace.strip("/").replace("/", "_")
    return wanted.out / f"{space}{'_' if space else ''}{output.kind}.png"


def _title(output: Output, topic: str) -> str:
    return topic.removeprefix(f"{output.namespace}/")


def _times(output: Output, frames: Sequence[dict[str, Any]]) -> list[str]:
    """Return when frames were taken, from the first one on."""
    headers = [(m.markers[0] if hasattr(m, "markers") else m).header for m in (f[output.topic] for f in frames)]
    stamps = [int(header.stamp.sec) * 1_000_000_000 + int(header.stamp.nanosec) for header in headers]
    return [f"{(stamp - stamps[0]) / 1e9:.1f} s" for stamp in stamps]


def _no_picture() -> Array:
    return np.full((3, 4, 3), 230, np.uint8)


def _metres(msg: Any) -> Array:
    return decode_depth(msg.data, msg.encoding, msg.height, msg.width, msg.step, is_bigendian=bool(msg.is_bigendian))


def _patch(msg: Any) -> Patch:
    """Return the map of a grid, probabilities, NaN where unknown; x of the grid is ahead, y left."""
    height, width = msg.info.height, msg.info.width
    if len(msg.data) != height * width or not len(msg.data):
        raise DataError(f"an occupancy grid of {width}x{height} cells has {len(msg.data)} values")
    values = np.asarray(msg.data, np.int8).reshape(height, width).T[::-1, ::-1]
    cells = np.where(values < 0, np.float32(np.nan), values.astype(np.float32) / np.float32(100.0))
    place, side = msg.info.origin.position, float(msg.info.resolution)
    return Patch(cells, (-place.y - side * height, -place.y, place.x, place.x + side * width))


def _to_pixel(info: Any, placed: StaticFrames, frame_id: str) -> Array | None:
    """Return the (3, 4) matrix from a frame to (u d, v d, d), None where nobody told where the camera sits."""
    moved = placed.between(frame_id, info.header.frame_id)
    return None if moved is None else np.asarray(info.k, np.float64).reshape(3, 3) @ moved[:3]


def _view_from_above(placed: StaticFrames, frame_id: str) -> Array:
    """Return the (4, 4) matrix to the view; a frame that nobody placed has y ahead, as nuScenes' LiDAR."""
    for base in _BASES:
        moved = placed.between(frame_id, base)
        if moved is not None:
            return np.asarray(_AHEAD_UP @ moved)
    return np.eye(4)
