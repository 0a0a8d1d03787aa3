"""``fedperc play``: a recording through a trained network, as a camera would show it to an inference node."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from fed_cli.fleetrun.environment import local_environment
from fed_cli.fleetrun.folder import fresh
from fed_cli.fleetrun.served import hand_over, run_folder
from fed_cli.fleetrun.supervisor import Supervisor
from fed_core.data.colour_only import COLOUR, has_pictures
from fed_core.data.samples import first_readable, open_samples
from fed_core.deployment import PATIENCE_S, NodeSpec
from fed_core.errors import ConfigError, DataError, FedError

#: Namespace of the nodes and of the topics in the bag that is written; a fleet of the same domain is not listened to.
NAMESPACE, _FLEET = "/play", "/play_fleet"
BAG, SCORE, MODELS = "played", "score.json", "models"
_CHOOSING = (2, 8)  # frames that choose the models: fewest, and as many as a node takes by default
_LOOK_S = 0.1


@dataclass(frozen=True)
class Played:
    """What is played, as the entry of a fleet file.

    Attributes:
        source: of :class:`fed_core.data.open.SourceConfig`.
        frames: how many.
        without_truth: why there is no true depth beside the images; "" = there is.
    """

    source: dict[str, Any]
    frames: int
    without_truth: str = ""

    @property
    def choosing(self) -> int:
        """Frames that choose the models; at least one is left to be shown."""
        few, many = _CHOOSING
        return max(few, min(many, self.frames // 2))


def find_frames(recording: Path, options: Mapping[str, Any]) -> Played:
    """Return how to play a recording: with its depth as the truth where it can be read so, else its images alone.

    Args:
        recording: bag or folder.
        options: fields of :class:`fed_core.data.open.SourceConfig`: "start", "step", and "topics" where they are not
            found by themselves.

    Raises:
        DataError: there are no images, or too few.
    """
    source: dict[str, Any] = {"data": str(recording.absolute()), **options}
    why = ""
    try:
        frames = open_samples("depth", source, Path())
        first_readable(frames)
    except DataError as err:
        if not recording.exists() or "depth" in source.get("topics", {}) or not has_pictures(recording):
            raise
        source, why = {**source, "reader": COLOUR}, str(err)
        frames = open_samples("depth", source, Path())
    if len(frames) <= _CHOOSING[0]:
        raise DataError(f"{recording}: {len(frames)} frames to play; it takes at least 3, the first 2 choose the model")
    return Played(source, len(frames), why)


def play(played: Played, run: Path, out: Path, console: Console) -> dict[str, Any]:
    """Play to an inference node that serves the models of a run; returns the score, which also lies in ``out``.

    Raises:
        ConfigError: the run learns another task, or ``out`` holds what is played.
        FedError: a node could not go on.
    """
    folder = run_folder(run)
    _check_out(out, folder, Path(played.source["data"]))
    fresh(out)
    plan = hand_over(folder, out / MODELS)
    if plan.config.task != "depth":
        raise ConfigError(
            f"{folder} learns {plan.config.task}; fedperc play shows depth; for it see docs/live_{plan.config.task}.md"
        )
    trained = f"round {plan.round}" if not plan.finished else f"all {plan.config.total_rounds} rounds"
    console.print(f"{folder}: {plan.config.strategy}, {plan.config.network}, {trained}", highlight=False)
    if played.without_truth:
        console.print(f"without true depth, so without a score: {played.without_truth}", highlight=False)
    with Supervisor(out, local_environment(out)) as supervisor, console.status("starting") as status:
        for spec in _nodes(played, out):
            supervisor.start(spec)
        while not (out / SCORE).exists():
            for name in ("inference", "score"):
                if not supervisor.running(name) and not (out / SCORE).exists():
                    raise FedError(f"{name} ended: {supervisor.fault(name) or supervisor.log_tail(name)}")
            status.update(supervisor.log_tail("score", 1).rpartition("]: ")[2])
            time.sleep(_LOOK_S)
    found: dict[str, Any] = json.loads((out / SCORE).read_text(encoding="utf-8"))
    return found


def _check_out(out: Path, *read: Path) -> None:
    """Refuse a folder that holds what is read: all that is in it is moved aside."""
    for path in read:
        if path.resolve().is_relative_to(out.resolve()):
            raise ConfigError(f"{out} holds {path}, which is played; name another folder with --out")


def _nodes(played: Played, out: Path) -> tuple[NodeSpec, NodeSpec]:
    serve = {
        "reader_id": "play",
        "state_dir": str((out / MODELS).absolute()),
        "fleet_ns": _FLEET,
        "descriptor_frames": played.choosing,
        "reliable_sensors": True,
    }
    score = {
        "source": json.dumps(played.source),
        "name": Path(played.source["data"]).name,
        "out": str((out / SCORE).absolute()),
        "record": str((out / BAG).absolute()),
        "descriptor_frames": played.choosing,
        "panels": 0,
        "timeout_s": PATIENCE_S,
    }
    return NodeSpec("inference", "inference", NAMESPACE, serve), NodeSpec("score", "score", NAMESPACE, score)
