"""What a robot records: enough and no more, or on and on; through restarts and a full disk. Sensors are scripted."""

import errno
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from rclpy.node import Node

from fed_core.config import from_tree
from fed_core.data.keyframes import KeyframeOptions
from fed_core.data.local_set import SetOptions
from fed_core.errors import ConfigError, DiskFullError
from fed_nodes.recording.recorder import SYNC_S, Recorder, RecorderConfig
from fed_nodes.recording.sample_stores import VehicleStore
from tests.core.data.recorded import indices, make_frame

SIZE = (56, 76)  # 30 kB a frame


class Sensors:
    """Stands for the sensor topics; ``send`` is what a camera does."""

    def __init__(self, use: Callable[[Any], None], wanted: Callable[[int], bool]) -> None:
        self._use, self._wanted, self.is_open = use, wanted, True
        self.topics: list[Any] = []

    def send(self, index: int, level: int | None = None, size: tuple[int, int] = (12, 16)) -> None:
        frame = make_frame(index, level, size=size)
        if self.is_open and self._wanted(frame.stamp_ns):
            self._use(frame)

    def counts(self) -> dict[str, str]:
        return {"unpaired_depth": "4"}

    def close(self) -> None:
        self.is_open = False


@dataclass(frozen=True)
class Scripted(RecorderConfig):
    """A configuration whose sensors the test plays."""

    def listen(self, node: Node, use: Callable[[Any], None], wanted: Callable[[int], bool]) -> Any:
        sensors = Sensors(use, wanted)
        opened.append(sensors)
        return sensors


opened: list[Sensors] = []


class Robot:
    """A recorder in a folder, and how often it said that it is done."""

    def __init__(self, node: Node, folder: Path, **options: Any) -> None:
        opened.clear()
        self.done = 0
        self.recorder = Recorder(node, Scripted(**{"record_frames": 4, **options}), folder / "samples", self._on_done)
        self.sensors = opened[0] if opened else None

    def _on_done(self) -> None:
        self.done += 1

    def send(self, *numbers: int, **options: Any) -> None:
        assert self.sensors is not None
        for number in numbers:
            self.sensors.send(number, **options)

    def frames(self, name: str = "") -> list[int]:
        source = self.recorder.source(name)
        assert source is not None and source["name"] == "samples"
        return indices(Path(source["data"]))


@pytest.fixture
def robot(make_node: Callable[..., Node], tmp_path: Path) -> Callable[..., Robot]:
    node = make_node()
    return lambda **options: Robot(node, tmp_path, **options)


def test_ends_when_there_are_enough(robot: Callable[..., Robot]) -> None:
    one = robot()
    one.send(0, 1, 2)
    assert (one.recorder.source(), one.done) == (None, 0)
    share, count, text = one.recorder.progress()
    assert (share, count) == (0.75, 3) and text.startswith("recording from /")
    one.send(3, 4)
    assert (one.done, one.sensors.is_open, one.frames()) == (1, False, [0, 1, 2, 3])
    again = robot()
    assert (again.sensors, again.frames(), again.frames("run_7")) == (None, [0, 1, 2, 3], [0, 1, 2, 3])


def test_frames_before_a_power_loss_count(robot: Callable[..., Robot], tmp_path: Path) -> None:
    one = robot()
    one.send(0, 1)
    shutil.copytree(tmp_path / "samples", tmp_path / "left")
    one.recorder.close()
    shutil.rmtree(tmp_path / "samples")
    (tmp_path / "left").rename(tmp_path / "samples")  # as it was while the robot still recorded
    again = robot()
    assert again.recorder.progress()[:2] == (0.5, 2)
    again.send(1, 2, 3)
    assert (again.done, again.frames()) == (1, [0, 1, 2, 3])
    assert again.recorder.values()["left_out_recorded_already"] == "1"


def test_enough_frames_but_no_snapshot_yet(robot: Callable[..., Robot], tmp_path: Path) -> None:
    robot().send(0, 1, 2, 3)
    shutil.rmtree(tmp_path / "snapshots")
    again = robot()
    assert (again.sensors, again.done, again.frames()) == (None, 0, [0, 1, 2, 3])


def test_goes_on_while_jobs_read(robot: Callable[..., Robot], tmp_path: Path) -> None:
    one = robot(record_after="continue")
    one.send(0, 1, 2, 3)
    assert (one.done, one.frames()) == (1, [0, 1, 2, 3])
    one.send(4)
    assert one.frames() == [0, 1, 2, 3], "who asks for no job reads what was offered last"
    assert one.frames("run_1") == [0, 1, 2, 3, 4]
    one.send(5, 6)
    assert one.frames("run_1") == [0, 1, 2, 3, 4], "a job that starts again reads the same"
    one.recorder.close()
    again = robot(record_after="continue")
    assert again.frames("run_1") == [0, 1, 2, 3, 4]
    again.send(7)
    assert (again.frames("run_2"), one.done, again.done) == (list(range(8)), 1, 0)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["run_2"]


def test_all_of_it_stays_within_its_bytes(robot: Callable[..., Robot], tmp_path: Path) -> None:
    one = robot(record_after="continue", record_bytes=1_000_000)
    for index in range(40):
        one.send(index, size=SIZE)
        if index % 7 == 6:
            assert one.recorder.source(f"run_{index}") is not None
        files = {s.st_ino: s.st_size for p in tmp_path.rglob("*") if p.is_file() for s in [p.stat()]}
        assert sum(files.values()) <= 1_000_000
    assert one.recorder.progress()[2].startswith("recording from"), "there was always room"
    assert int(one.recorder.values()["recorded_bytes"]) <= 500_000


def test_other_frames_going_than_the_options_say_is_told(
    robot: Callable[..., Robot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fed_core.data.local_set.MAX_FILES", 2)
    one = robot(record_after="continue", record_bytes=1_000_000, record_keep="redundant")
    one.send(*range(20), size=SIZE)
    assert "record_keep is redundant, but above 2 files" in one.recorder.progress()[2]
    assert one.recorder.judged("ok", "training")[0] == "warn"


def test_a_full_recording_ends(robot: Callable[..., Robot]) -> None:
    one = robot(record_frames=1000, record_bytes=1_000_000)
    for index in range(40):
        one.send(index, size=SIZE)
    assert one.done == 1 and not one.sensors.is_open


def test_frame_that_never_fits_is_told(robot: Callable[..., Robot]) -> None:
    one = robot(record_bytes=1_000_000)
    one.send(0, size=(400, 600))
    assert one.recorder.problem() == "a frame does not fit into record_bytes = 1000000; give it more"
    assert one.recorder.progress()[1:] == (0, f"waiting for images on {TOPICS}; {one.recorder.problem()}")


TOPICS = "/camera/image_raw, /camera/depth/image_raw, /camera/camera_info"


def test_left_out_frames_are_told(robot: Callable[..., Robot]) -> None:
    one = robot(keyframe_gap_s=0.2, keyframe_change=4.0)
    one.send(0, 1, 2, 3, level=100)
    one.send(0, 4, level=50)
    assert one.recorder.progress()[2] == (
        f"recording from {TOPICS}; left out: 1 recorded already, 1 too soon, 2 unchanged"
    )
    values = one.recorder.values()
    assert [values[f"left_out_{why}"] for why in ("too_soon", "unchanged", "recorded_already")] == ["1", "2", "1"]
    assert (values["recorded_frames"], values["unpaired_depth"]) == ("2", "4")


def test_full_disk_ends_with_what_is_there(robot: Callable[..., Robot], monkeypatch: pytest.MonkeyPatch) -> None:
    one = robot()
    one.send(0)
    one.recorder._store._set._writer._output.reserve = refuse  # type: ignore[attr-defined]
    one.send(1)
    assert one.recorder.problem() == "recording: no space is left"
    assert (one.done, one.sensors.is_open) == (0, True), "one frame is too little to train on"
    one.send(2)
    assert one.recorder.problem() == ""
    one.recorder._store._set._writer._output.reserve = refuse  # type: ignore[attr-defined]
    one.send(3)
    assert (one.done, one.sensors.is_open, one.frames()) == (1, False, [0, 2])


def test_a_frame_that_the_disk_refused_is_none_to_compare_with(robot: Callable[..., Robot]) -> None:
    one = robot(keyframe_change=4.0)
    one.send(0, level=50)
    one.recorder._store._set._writer._output.reserve = refuse  # type: ignore[attr-defined]
    one.send(1, level=90)
    assert one.recorder.problem() == "recording: no space is left"
    one.send(2, level=90)
    assert (one.recorder.problem(), one.recorder.values()["recorded_frames"]) == ("", "2")


def test_a_disk_that_turned_read_only_does_not_end_the_robot(
    robot: Callable[..., Robot], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = robot()
    one.send(0)

    def read_only(frame: Any, grey: Any) -> bool:
        raise OSError(errno.EROFS, "Read-only file system", "samples/samples_0.mcap")

    with monkeypatch.context() as broken:
        broken.setattr(one.recorder._store, "add", read_only)
        one.send(1)
    assert one.recorder.problem() == "recording: cannot read or write samples/samples_0.mcap: Read-only file system"
    one.send(2)
    assert (one.recorder.problem(), one.recorder.values()["recorded_frames"]) == ("", "2")


class FullDisk:
    """Writes a vehicle's frames; the first try to finish finds no space."""

    def __init__(self, path: Path) -> None:
        self._path, self.tries = path, 0

    def add(self, frame: Any) -> None:
        self._path.mkdir(exist_ok=True)

    def close(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_vehicles_folder_that_could_not_be_finished_is_finished_later(tmp_path: Path) -> None:
    begin: Any = FullDisk
    store = VehicleStore(tmp_path / "samples", 10**6, begin, lambda folder: {"data": folder.name})
    frame: Any = SimpleNamespace(images=[])
    assert store.add(frame, np.zeros(1, np.uint8))
    with pytest.raises(OSError, match="No space left"):
        store.offer("start")
    assert store.source() is None
    store.offer("start")
    assert store.source() == {"data": "samples"}


def refuse(size_bytes: int) -> None:
    raise DiskFullError("no space is left")


def test_silence_ends_a_recording(robot: Callable[..., Robot], monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("fed_nodes.recording.recorder.time.monotonic", lambda: now_s[0])
    one = robot(record_idle_s=5.0)
    one.send(0)
    now_s[0] += 60.0
    one.recorder._look()
    assert one.done == 0, "one frame is too little"
    one.send(1)
    now_s[0] += 4.9
    one.recorder._look()
    assert one.done == 0
    now_s[0] += 0.2
    one.recorder._look()
    assert (one.done, one.frames()) == (1, [0, 1])


def test_a_flush_that_failed_stays_told(robot: Callable[..., Robot], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    now_s = [100.0]
    monkeypatch.setattr("fed_nodes.recording.recorder.time.monotonic", lambda: now_s[0])
    one = robot()
    one.send(0)
    with monkeypatch.context() as dying:
        dying.setattr("os.fdatasync", broken)
        now_s[0] += SYNC_S
        one.recorder._look()
        one.recorder._syncing.join(20.0)
    one.send(1)
    now_s[0] += SYNC_S
    one.recorder._look()  # the card reports lost bytes only once
    one.recorder._syncing.join(20.0)
    level, text = one.recorder.judged("ok", "")
    assert level == "warn" and re.fullmatch(r"recording: cannot read or write .*: Input/output error", text)


def test_going_on_is_for_one_camera() -> None:
    rig = {"front": {"position": [0, 0, 0], "rotation": [0, 0, 0]}}
    with pytest.raises(ConfigError, match="record_after is continue, which works for task depth only; leave it at"):
        RecorderConfig(record_after="continue", rig=rig)  # type: ignore[arg-type]


def test_pictures_of_what_is_recorded_are_not_changed(robot: Callable[..., Robot]) -> None:
    one = robot(record_frames=2, keyframe_sharpness=1.0)
    frame = make_frame(0)
    rgb = frame.rgb.copy()
    assert one.sensors is not None
    one.sensors._use(frame)
    np.testing.assert_array_equal(frame.rgb, rgb)
    assert one.recorder.values()["left_out_blurred"] == "1"


def test_guide_names_every_parameter_and_its_example_loads() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "recording.md").read_text(encoding="utf-8")
    tree = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)[0])["/spot1/robot_client"]
    values = {name: value for name, value in tree["ros__parameters"].items() if name != "robot_id"}
    assert from_tree(RecorderConfig, values).keyframe_gap_s == 0.5
    names = [f.name for cls in (KeyframeOptions, SetOptions) for f in fields(cls)] + ["record_after", "record_bytes"]
    assert [name for name in names if f"`{name}`" not in guide and f"`{name}:" not in guide] == []
    assert f"every {SYNC_S:g} seconds" in guide


def test_a_missing_sensor_is_logged_once_and_again_when_the_problem_changes(
    robot: Callable[..., Robot], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, lines = robot(), list[str]()
    logger = SimpleNamespace(warning=lines.append)
    monkeypatch.setattr(one.recorder._node, "get_logger", lambda: logger)
    assert one.sensors is not None
    silent, dropped = "/camera/image_raw: nobody publishes it", "/camera/image_raw: dropped a message"
    problem = [""]
    one.sensors.topics = [SimpleNamespace(health=lambda: SimpleNamespace(problem=problem[0]), has_told=dropped.__eq__)]
    for problem[0] in ("", silent, silent, dropped, "", silent, "/camera/image_raw: no message for 5 s"):
        one.recorder._look()
    assert lines == [silent, "/camera/image_raw: no message for 5 s"]
