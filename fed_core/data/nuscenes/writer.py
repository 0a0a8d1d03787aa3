"""Writes nuScenes tables and sensor files that the devkit opens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fed_core.data.image_files import encode_jpeg
from fed_core.data.nuscenes.domains import SPLITS
from fed_core.data.nuscenes.frames import COLUMNS
from fed_core.data.nuscenes.poses import Floats, inverse, pose_of
from fed_core.data.nuscenes.records import (
    ATTRIBUTES,
    CATEGORIES,
    FULLY_VISIBLE,
    fresh_tables,
    put,
    put_log,
    token_of,
    write_tables,
)
from fed_core.data.nuscenes.tables import LIDAR
from fed_core.data.opv2v.files import write_whole
from fed_core.errors import DataError
from fed_core.types import DETECTION_CLASSES, DetectionFrame

#: Digits of mounts: what differs only by rounding is one calibration.
_DIGITS = 12
_NAME = re.compile(r"[\w-]+")


@dataclass
class _SceneState:
    """The scene that is being written."""

    record: dict[str, Any]
    last_us: int = -1
    last_sample: dict[str, Any] | None = None
    last_data: dict[str, dict[str, Any]] = field(default_factory=dict)
    last_note: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Scans that wait for the keyframe that they belong to, the next one.
    waiting: list[dict[str, Any]] = field(default_factory=list)


class TableWriter:
    """Writes scenes one by one; the tables are written by :meth:`close`, so a folder without them is not complete.

    Tokens and files hang on the names of scenes, channels, times and instances only: the same input gives the same
    bytes. Several writers may fill one dataroot, each with scenes and a version folder of its own, which
    :func:`fed_core.data.nuscenes.records.merge_tables` joins.

    Args:
        root: dataroot; made where it is missing.
        version: version folder, "v1.0-generated"; it must not exist.
        jpeg_quality: of the pictures, 1 to 100.

    Raises:
        DataError: the version folder exists.
    """

    def __init__(self, root: Path, version: str, *, jpeg_quality: int = 95) -> None:
        if (root / version).exists():
            raise DataError(f"{root / version} exists already; choose another folder")
        self._root, self._version, self._quality = root, version, jpeg_quality
        self._tables = fresh_tables()
        self._splits: dict[str, list[str]] = {split: [] for split in SPLITS}
        self._log = ""
        self._state: _SceneState | None = None

    def add_log(self, name: str, *, location: str, vehicle: str = "generated", date: str = "2000-01-01") -> None:
        """Begin a log ("boston-seaport" is a location); the scenes that follow belong to it."""
        self._log = token_of("log", name)
        log = {"token": self._log, "logfile": name, "vehicle": vehicle, "date_captured": date, "location": location}
        put_log(self._tables, log)

    def add_scene(self, name: str, description: str, *, split: str) -> None:
        """Begin a scene; "night" and "rain" in its description tell the domain, ``split`` is "train" or "val"."""
        self._end_scene()
        _check_name("scene", name)
        if not self._log:
            raise DataError(f"scene {name} belongs to no log; add_log comes first")
        if split not in SPLITS:
            raise DataError(f"scene {name}: split is {split!r}; choose one of {', '.join(SPLITS)}")
        token = token_of("scene", name)
        if token in self._tables["scene"]:
            raise DataError(f"scene {name} is there already")
        values = {"log_token": self._log, "nbr_samples": 0, "first_sample_token": "", "last_sample_token": ""}
        record = put(self._tables, "scene", token, name=name, description=description, **values)
        self._splits[split].append(name)
        self._state = _SceneState(record)

    def add_sweep(
        self, points: npt.NDArray[np.float32], stamp_ns: int, *, lidar_to_ego: Floats, ego_to_global: Floats
    ) -> None:
        """Append a LiDAR scan between keyframes.

        Args:
            points: (P, 4 or more) float32 x, y, z [m] in its own LiDAR frame, intensity.
            stamp_ns: time; after what came before.
            lidar_to_ego: (4, 4).
            ego_to_global: (4, 4) at that time.
        """
        state = self._open(stamp_ns)
        self._add_data(LIDAR, _cloud(points), {}, mount=lidar_to_ego, ego_to_global=ego_to_global)
        state.waiting.append(state.last_data[LIDAR])

    def add_keyframe(self, frame: DetectionFrame, instances: Sequence[str], attributes: Sequence[str] = ()) -> str:
        """Append a keyframe, later than what came before; returns its sample token.

        Only points of time lag 0 are written: give the earlier ones to :meth:`add_sweep`. Times are cut to whole
        microseconds. ``frame.token`` and the velocities are not stored: the devkit takes velocities from the tracks.

        Args:
            frame: pictures, points, boxes in the LiDAR frame.
            instances: (M) names of the objects, unique in the frame; the same for one object all through a scene.
            attributes: (M) of ``ATTRIBUTES`` or "" = none; () = none at all.
        """
        names = tuple(attributes) or ("",) * len(frame.boxes)
        _check_notes(frame, instances, names)
        for camera in frame.cameras:
            _check_name("camera", camera)
        state = self._open(frame.stamp_ns)
        token = token_of("sample", state.record["name"], state.last_us)
        scene = state.record
        sample = {"timestamp": state.last_us, "prev": "", "next": "", "scene_token": scene["token"]}
        record = put(self._tables, "sample", token, **sample)
        if state.last_sample is not None:
            record["prev"], state.last_sample["next"] = state.last_sample["token"], token
        state.last_sample = record
        scene["nbr_samples"] += 1
        scene["first_sample_token"] = scene["first_sample_token"] or token
        scene["last_sample_token"] = token
        self._add_sensors(frame)
        for scan in state.waiting:
            scan["sample_token"] = token
        state.waiting.clear()
        self._add_notes(frame, instances, names)
        return token

    def close(self) -> None:
        """Write the tables and ``splits.json``."""
        self._end_scene()
        if not self._tables["scene"]:
            raise DataError(f"nothing was written to {self._root}; tables need a scene")
        write_tables(self._root / self._version, self._tables, self._splits)

    def _open(self, stamp_ns: int) -> _SceneState:
        """Return the scene, its clock moved on."""
        state, now_us = self._state, stamp_ns // 1000
        if state is None:
            raise DataError("no scene has begun; add_scene comes first")
        if now_us <= state.last_us:
            raise DataError(
                f"scene {state.record['name']}: {now_us} us comes after {state.last_us} us; add in time order"
            )
        state.last_us = now_us
        return state

    def _end_scene(self) -> None:
        state = self._state
        if state is None:
            return
        if state.last_sample is None:
            raise DataError(f"scene {state.record['name']} has no keyframe")
        for scan in state.waiting:
            scan["sample_token"] = state.last_sample["token"]
        self._state = None

    def _add_sensors(self, frame: DetectionFrame) -> None:
        newest = frame.points[frame.points[:, 4] == 0.0]
        self._add_data(
            LIDAR, _cloud(newest), {"is_key": True}, mount=frame.lidar_to_ego, ego_to_global=frame.ego_to_global
        )
        for camera, image, matrix, way in zip(
            frame.cameras, frame.images, frame.intrinsics, frame.lidar_to_camera, strict=True
        ):
            # Told as if it was taken at the LiDAR's time: what moved in between becomes part of the mount.
            mount = frame.lidar_to_ego @ inverse(way)
            data = encode_jpeg(image[..., ::-1], self._quality)
            more = {"is_key": True, "size": image.shape[:2], "matrix": matrix.tolist()}
            self._add_data(camera, data, more, mount=mount, ego_to_global=frame.ego_to_global)

    def _add_data(
        self, channel: str, data: bytes, more: dict[str, Any], *, mount: Floats, ego_to_global: Floats
    ) -> None:
        """Write a sensor file and its records: sample_data, ego_pose, calibrated_sensor, sensor."""
        state, tables = self._state, self._tables
        if state is None:
            raise DataError("no scene has begun")
        scene, now_us, is_key = state.record["name"], state.last_us, bool(more.get("is_key"))
        suffix = ".pcd.bin" if channel == LIDAR else ".jpg"
        file = f"{'samples' if is_key else 'sweeps'}/{channel}/{scene}__{channel}__{now_us}{suffix}"
        write_whole(self._root / file, data)
        token, (height, width) = token_of("data", scene, channel, now_us), more.get("size", (0, 0))
        put(tables, "ego_pose", token, timestamp=now_us, **pose_of(ego_to_global))
        record = put(tables, "sample_data", token, ego_pose_token=token, timestamp=now_us, is_key_frame=is_key)
        record |= {
            "sample_token": state.last_sample["token"] if is_key and state.last_sample else "",
            "calibrated_sensor_token": self._mount(channel, mount, more.get("matrix", [])),
            "fileformat": "pcd" if channel == LIDAR else "jpg",
            "height": height,
            "width": width,
            "filename": file,
            "prev": "",
            "next": "",
        }
        last = state.last_data.get(channel)
        if last is not None:
            record["prev"], last["next"] = last["token"], token
        state.last_data[channel] = record

    def _mount(self, channel: str, mount: Floats, matrix: list[list[float]]) -> str:
        """Return the token of a calibrated sensor; equal ones are one."""
        sensor = token_of("sensor", channel)
        put(self._tables, "sensor", sensor, channel=channel, modality="lidar" if channel == LIDAR else "camera")
        values = {key: [round(value, _DIGITS) for value in row] for key, row in pose_of(mount).items()}
        token = token_of("mount", channel, values, matrix)
        put(self._tables, "calibrated_sensor", token, sensor_token=sensor, camera_intrinsic=matrix, **values)
        return token

    def _add_notes(self, frame: DetectionFrame, instances: Sequence[str], attributes: Sequence[str]) -> None:
        boxes, to_global = frame.boxes, frame.ego_to_global @ frame.lidar_to_ego
        for row, (instance, attribute) in enumerate(zip(instances, attributes, strict=True)):
            pose = np.eye(4)
            cosine, sine = np.cos(boxes.yaws[row]), np.sin(boxes.yaws[row])
            pose[:2, :2], pose[:3, 3] = [[cosine, -sine], [sine, cosine]], boxes.centres[row]
            length, width, height = (float(value) for value in boxes.sizes[row])
            values = {
                "visibility_token": FULLY_VISIBLE,
                "attribute_tokens": [token_of("attribute", attribute)] if attribute else [],
                **pose_of(to_global @ pose),
                "size": [width, length, height],
                "num_lidar_pts": int(boxes.num_points[row]),
                "num_radar_pts": 0,
            }
            self._add_note(instance, DETECTION_CLASSES[int(boxes.labels[row])], values)

    def _add_note(self, instance: str, label: str, values: dict[str, Any]) -> None:
        state, tables = self._state, self._tables
        if state is None or state.last_sample is None:
            raise DataError("no keyframe has begun")
        scene, category = state.record["name"], token_of("category", CATEGORIES[label])
        owner = token_of("instance", scene, instance)
        token = token_of("annotation", scene, instance, state.last_us)
        values = {"sample_token": state.last_sample["token"], "instance_token": owner, **values, "prev": "", "next": ""}
        record, last = put(tables, "sample_annotation", token, **values), state.last_note.get(instance)
        if last is None:
            ends = {"first_annotation_token": token, "last_annotation_token": token}
            put(tables, "instance", owner, category_token=category, nbr_annotations=1, **ends)
        else:
            if tables["instance"][owner]["category_token"] != category:
                raise DataError(f"scene {scene}: {instance} was of another class before it was a {label}")
            record["prev"], last["next"] = last["token"], token
            tables["instance"][owner]["nbr_annotations"] += 1
            tables["instance"][owner]["last_annotation_token"] = token
        state.last_note[instance] = record


def _cloud(points: npt.NDArray[np.float32]) -> bytes:
    """Return the bytes of a ``.pcd.bin`` file of points (P, 4 or more); their ring is not known, 0."""
    rows = np.zeros((len(points), COLUMNS), "<f4")
    rows[:, :4] = points[:, :4]
    return rows.tobytes()


def _check_name(kind: str, name: str) -> None:
    """Refuse what cannot be part of a file's name."""
    if not _NAME.fullmatch(name):
        raise DataError(f"{kind} {name!r}: use letters, digits, _ and - for its name")


def _check_notes(frame: DetectionFrame, instances: Sequence[str], attributes: Sequence[str]) -> None:
    count = len(frame.boxes)
    if (len(instances), len(attributes)) != (count, count):
        raise DataError(f"{count} boxes come with {len(instances)} instances and {len(attributes)} attributes")
    if len(set(instances)) != count:
        raise DataError("an instance is named twice in one keyframe")
    unknown = set(attributes) - {"", *ATTRIBUTES}
    if unknown:
        raise DataError(f"attribute {min(unknown)!r} is not known; choose of {', '.join(ATTRIBUTES)}")
