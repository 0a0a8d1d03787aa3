"""Records a robot's training samples from its sensor topics: a bag, an OPV2V folder (cameras) or nuScenes (LiDAR)."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.node import Node

from fed_core.config import option
from fed_core.data.keyframes import SMALL_SHAPE, TOO_SOON, KeyframeOptions, Keyframes, small_grey
from fed_core.data.local_set import SetOptions
from fed_core.data.nuscenes.recording import ScanWriter
from fed_core.data.nuscenes.recording import recorded_source as recorded_scans
from fed_core.data.opv2v.sequence import FOV, OFF, SECTOR
from fed_core.data.opv2v.writer import Opv2vWriter, recorded_source
from fed_core.errors import ConfigError, StoreError
from fed_core.requests import Samples
from fed_core.types import DepthFrame
from fed_core.wire.files import store_error
from fed_nodes import qos
from fed_nodes.diagnostics import News
from fed_nodes.recording.sample_stores import AnyFrame, DepthStore, SampleStore, VehicleStore
from fed_nodes.sensing.frames import FrameOptions, FramePairer, pair_frames, sensor_names
from fed_nodes.sensing.labelled_scans import LabelledScans, scan_topics
from fed_nodes.sensing.labelled_sets import LabelledSets, set_topics
from fed_nodes.sensing.rigs import CameraMount, Mount, lidar_option, rig_from_tree, rig_option
from fed_nodes.sensing.scan_rigs import scan_rig_from_tree
from fed_nodes.sensing.sensors import SensorTopic, first_problem, health_values
from fed_nodes.timers import steady_timer

#: What happens when there are enough frames.
STOP, CONTINUE = "stop", "continue"
#: What was recorded is flushed to disk this often [s]; a power loss costs the frames since.
SYNC_S = 2.0
#: A problem of a sensor that comes and goes is logged again after this long [s].
_SAID_AGAIN_S = 30.0

_START = "start"  # the snapshot before the first round
_RECORDED = "recorded already"


@dataclass(frozen=True)
class RecorderConfig(FrameOptions, KeyframeOptions, SetOptions):
    """What a robot records (``config/robot_client.yaml``)."""

    record_frames: int = option(100, help="frames recorded before training", unit="count", low=2, high=10_000_000)
    record_bytes: int = option(2_000_000_000, help="largest size of the recording", unit="bytes", low=1_000_000)
    record_idle_s: float = option(
        0.0, help="silence after which a recording ends with what it has; 0 = never", unit="s", low=0.0, high=86400.0
    )
    record_after: str = option(
        STOP, help="what follows when there are enough frames (task depth)", choices=(STOP, CONTINUE)
    )
    slop_s: float = option(0.02, help="largest time between the messages of a frame", unit="s", low=0.0, high=1.0)
    reliable_sensors: bool = option(False, help="ask the sensor publishers for reliable delivery (replays)")
    rig: Mapping[str, CameraMount] = rig_option()
    lidar: Mapping[str, Mount] = lidar_option()
    known_cells: str = option(
        SECTOR, help="task bev: cells that the cameras of a rig look at", choices=(SECTOR, FOV, OFF)
    )

    def __post_init__(self) -> None:
        """Check the options, also against each other."""
        super().__post_init__()
        if self.record_after == CONTINUE and (self.rig or self.lidar):
            raise ConfigError("record_after is continue, which works for task depth only; leave it at stop")
        if self.lidar:
            scan_rig_from_tree(self.rig, self.lidar)
        else:
            rig_from_tree(self.rig).require_known(self.known_cells)

    def listen(
        self, node: Node, use: Callable[[Any], None], wanted: Callable[[int], bool]
    ) -> "FramePairer | LabelledSets | LabelledScans":
        """Subscribe to the sensor topics; ``use`` receives the frames whose time one camera's robot finds wanted."""
        profile = qos.SENSORS_RELIABLE if self.reliable_sensors else qos.SENSORS
        slop_s, transport = self.slop_s, self.image_transport
        if self.lidar:
            rig = scan_rig_from_tree(self.rig, self.lidar)
            return LabelledScans(node, rig, profile, slop_s, use, transport=transport)
        if self.rig:
            return LabelledSets(node, rig_from_tree(self.rig), profile, slop_s, use, transport=transport)
        return pair_frames(node, self, profile, self.slop_s, use, wanted=wanted)

    def topics(self, node: Node) -> str:
        """Return the full names of the sensor topics, for people."""
        if self.lidar:
            return ", ".join(scan_topics(node, scan_rig_from_tree(self.rig, self.lidar)).values())
        return ", ".join((set_topics(node, rig_from_tree(self.rig)) if self.rig else sensor_names(node, self)).values())

    def open_store(self, folder: Path) -> SampleStore:
        """Return where the samples go, with what is there already."""
        if self.lidar:
            return VehicleStore(folder, self.record_bytes, ScanWriter, recorded_scans)
        if self.rig:
            begin = partial(Opv2vWriter, known=self.known_cells)
            return VehicleStore(folder, self.record_bytes, begin, recorded_source)
        return DepthStore(folder, self.record_bytes, self, goes_on=self.record_after == CONTINUE)


class Recorder:
    """Writes frames to ``<folder>``; when there are enough, jobs can read them.

    Args:
        node: owner of the subscriptions.
        config: what is recorded, and how much.
        folder: where the recording lies.
        on_done: called once when jobs can read samples.
    """

    def __init__(self, node: Node, config: RecorderConfig, folder: Path, on_done: Callable[[], None]) -> None:
        self._node, self._config, self._folder, self._on_done = node, config, folder, on_done
        self._keyframes = Keyframes(config)
        self._store = config.open_store(folder)
        if self._store.mended:
            node.get_logger().warning(self._store.mended)
        self._trouble, self._not_flushed, self._syncing = "", "", threading.Thread()
        self._last_s = self._synced_s = time.monotonic()
        self._sensors: FramePairer | LabelledSets | LabelledScans | None = None
        if self._store.num_frames >= config.record_frames and self.source() is None:
            self._offer(_START)
        if self.source() is None or config.record_after == CONTINUE:
            self._sensors = config.listen(node, self._on_frame, self._is_wanted)
        self._said, self._news = "", News(_SAID_AGAIN_S)
        self._timer = steady_timer(node, 1.0, self._look)

    def source(self, name: str = "") -> dict[str, Any] | None:
        """Return the entry of what jobs can read, as in a fleet file; None before there is enough.

        Args:
            name: of the job. Where recording goes on, a new name reads what is there now, a known one reads the same.
        """
        if name and self._config.record_after == CONTINUE and self._store.source() is not None:
            self._offer(name)
        return self._store.source()

    def progress(self) -> tuple[float, int, str]:
        """Return the share recorded, the frames so far, and a line for people."""
        topics, count = self._config.topics(self._node), self._store.num_frames
        text = f"recording from {topics}" if count else f"waiting for images on {topics}"
        refused = ", ".join(f"{number} {why}" for why, number in sorted(self._keyframes.refused.items()))
        texts = [text, f"left out: {refused}" if refused else "", self.problem()]
        return min(count / self._config.record_frames, 1.0), count, "; ".join(filter(None, texts))

    def problem(self) -> str:
        """Return what is wrong with the disk, the recording or a sensor, "" = all is well."""
        return self._trouble or self._not_flushed or self._store.problem or first_problem(self._topics())

    def judged(self, level: str, text: str) -> tuple[str, str]:
        """Return level and text of diagnostics with what is wrong here added."""
        problem = self.problem()
        return "warn" if problem and level == "ok" else level, "; ".join(filter(None, (text, problem)))

    def values(self) -> dict[str, str]:
        """Return what diagnostics say of the recording and of the sensor topics."""
        store, refused = self._store, self._keyframes.refused
        values = {"recorded_frames": str(store.num_frames), "recorded_bytes": str(store.size_bytes)}
        values |= {f"left_out_{why.replace(' ', '_')}": str(number) for why, number in sorted(refused.items())}
        counts = self._sensors.counts() if self._sensors is not None else {}
        return {**values, **counts, **health_values(self._topics())}

    def close(self) -> None:
        """Stop listening and writing."""
        self._stop_listening()
        with self._telling():
            self._store.close()

    def _topics(self) -> list[SensorTopic]:
        return self._sensors.topics if self._sensors is not None else []

    def _stop_listening(self) -> None:
        sensors, self._sensors = self._sensors, None
        if sensors is not None:
            sensors.close()

    def _is_wanted(self, stamp_ns: int) -> bool:
        """Tell of a frame that is not made yet whether it is worth it."""
        if self._store.holds(stamp_ns):
            why = _RECORDED
        elif self._keyframes.is_too_soon(stamp_ns):
            why = TOO_SOON
        else:
            return True
        self._keyframes.refused[why] += 1
        return False

    def _on_frame(self, frame: AnyFrame) -> None:
        if self._sensors is None:
            return
        rgb = frame.rgb if isinstance(frame, DepthFrame) else frame.images[0] if frame.images else None
        grey = small_grey(rgb) if rgb is not None else np.zeros(SMALL_SHAPE, np.uint8)
        if self._keyframes.judge(rgb, grey, frame.stamp_ns):
            return
        fits = False
        with self._telling():
            fits = self._store.add(frame, grey)
        if fits:
            self._keyframes.took(grey, frame.stamp_ns)
            self._last_s, self._trouble = time.monotonic(), ""
        elif not self._trouble and (self._store.num_frames < 2 or self._config.record_after == CONTINUE):
            self._tell(f"a frame does not fit into record_bytes = {self._config.record_bytes}; give it more")
        full = not fits and self._store.num_frames > 1
        if full or self._store.num_frames >= self._config.record_frames:
            self._have_enough()

    def _look(self) -> None:
        """Once a second: tell of sensors, end a recording that fell silent, and flush what was recorded."""
        self._log_sensors()
        now_s, idle_s = time.monotonic(), self._config.record_idle_s
        if idle_s and self._store.num_frames > 1 and now_s - self._last_s >= idle_s:
            self._have_enough()
        if self._sensors is not None and now_s - self._synced_s >= SYNC_S and not self._syncing.is_alive():
            self._synced_s = now_s
            self._syncing = threading.Thread(target=self._sync, daemon=True)  # a slow disk must not stop the node
            self._syncing.start()

    def _log_sensors(self) -> None:
        """Log a problem that diagnostics show once, and again when it changes."""
        topics = self._topics()
        known, self._said = self._said, first_problem(topics)
        new = self._said and self._said != known and not any(topic.has_told(self._said) for topic in topics)
        if new and self._news.has(self._said, time.monotonic()):
            self._node.get_logger().warning(self._said)

    def _sync(self) -> None:
        """Flush what was recorded. An error stays told: Linux reports lost bytes once, and the next flush succeeds."""
        try:
            self._store.sync()
        except (StoreError, OSError) as err:
            self._not_flushed = f"recording: {self._broken(err)}"
            self._node.get_logger().error(self._not_flushed, throttle_duration_sec=10.0)

    def _have_enough(self) -> None:
        if self._sensors is None or self._store.source() is not None:
            return
        self._offer(_START)
        if self._store.source() is None:
            return  # the disk refuses; the next frame or second tries again
        if self._config.record_after == STOP:
            self._stop_listening()
            self._trouble = ""
        self._node.get_logger().info(f"recorded {self._store.num_frames} frames")
        self._on_done()

    def _offer(self, name: str) -> None:
        with self._telling():
            self._store.offer(name)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell of a disk that cannot take more; the robot goes on with what it has."""
        try:
            yield
        except (StoreError, OSError) as err:
            self._tell(f"recording: {self._broken(err)}")

    def _broken(self, err: StoreError | OSError) -> StoreError:
        return err if isinstance(err, StoreError) else store_error(err, Path(err.filename or self._folder))

    def _tell(self, text: str) -> None:
        self._trouble = text
        self._node.get_logger().error(text, throttle_duration_sec=10.0)


def samples_for(recorder: Recorder | None, given: Samples, job: str = "") -> Samples | None:
    """Return the samples that a job reads; None while they are being recorded.

    Args:
        recorder: of a robot that records.
        given: what the others train on.
        job: name of a training round. One that is trained again after a restart reads the same samples, so that its
            result is the same.
    """
    if recorder is None:
        return given
    source = recorder.source(job)
    return Samples(source, Path()) if source else None
