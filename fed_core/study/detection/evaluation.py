"""Scores the network that is loaded on one domain's frames, by the devkit (fedcka spec 7.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fed_core.config import from_tree
from fed_core.data.nuscenes.poses import matrix_of
from fed_core.data.nuscenes.tables import LIDAR, open_tables
from fed_core.errors import DataError
from fed_core.metrics.detection.devkit import Truth, finite
from fed_core.metrics.detection.scores import ERRORS, Figures
from fed_core.metrics.detection.submission import to_submission
from fed_core.study.base import Run
from fed_core.study.client_models import frames_of
from fed_core.study.scenario import StudySequence
from fed_core.tasks.detection.task import DetectionTask
from fed_core.training.options import TrainConfig
from fed_core.types import Array, Boxes3D, DetectionFrame

#: Frames that the network looks at together.
_BATCH = 4
#: Sets of true boxes that a process keeps.
_KEPT = 24
_truths: dict[tuple[str, str, tuple[str, ...]], Truth] = {}


class Place(NamedTuple):
    """Where a frame was taken: its sample, LiDAR to vehicle and vehicle to map, (4, 4) float64 [m]."""

    token: str
    lidar_to_ego: Array
    ego_to_global: Array


@dataclass(frozen=True)
class Scored:
    """Frames that score models.

    Attributes:
        sequence: which ones.
        dataset: the same in the network's size.
        places: token and poses of each.
        truth: their true boxes.
    """

    sequence: StudySequence
    dataset: Any
    places: Sequence[Place]
    truth: Truth

    @property
    def domain(self) -> str:
        """The domain that they show."""
        return self.sequence.owner


def to_device(run: Run) -> None:
    """Bring the run's network to where it trains."""
    train = from_tree(TrainConfig, run.job.config.train_of(run.job.cell.model), "train")
    run.network.to(train.torch_device())


def read_scored(run: Run) -> list[Scored]:
    """Return the frames of all unseen sequences, with their places and true boxes."""
    found = []
    for test in run.job.scenario.tests:
        dataset, tables = frames_of(run, test), _tables_of(test)
        places = tuple(place_of(tables, token) for token in dataset.tokens)
        found.append(Scored(test, dataset, places, _truth_of(test, tables, dataset.tokens)))
    return found


def score(run: Run, scored: Scored) -> dict[str, Any]:
    """Return the figures of the loaded model over the classes of the domain; see :func:`figures_tree`."""
    most = run.job.config.detection.max_boxes
    said = DetectionTask().predict_all(run.network, scored.dataset, _BATCH)
    results = {place.token: to_submission(said[place.token], place, most) for place in scored.places}
    return figures_tree(scored.truth.evaluate(results))


def figures_tree(figures: Figures) -> dict[str, Any]:
    """Return figures over the present classes for JSON.

    Returns:
        nds, map, cap: [1], ``cap`` None without cars. errors: ATE, ASE, AOE, AVE, AAE. ap: by class that is there.
    """
    over = figures.filtered()
    return {
        "nds": over.nds,
        "map": over.map,
        "cap": finite(over.cap),
        "errors": {short: over.errors[name] for name, short in ERRORS.items()},
        "ap": {name: figures.ap_of(name) for name in figures.classes},
    }


def predict_frame(run: Run, frame: DetectionFrame) -> Boxes3D:
    """Return the loaded model's boxes of one frame."""
    return DetectionTask().predict(run.network, frame)


def middle_frame(scored: Scored) -> DetectionFrame:
    """Return the frame that pictures show, the readable one that is nearest to the middle."""
    sequence = DetectionTask().open(scored.sequence.source, Path())
    middle = len(sequence) // 2
    for index in sorted(range(len(sequence)), key=lambda index: abs(index - middle)):
        try:
            frame: DetectionFrame = sequence[index]
        except DataError:
            continue
        return frame
    raise DataError(f"{scored.sequence.name} has no frame that can be read")


def place_of(tables: Any, token: str) -> Place:
    """Return token and poses of a sample, at the time of its LiDAR."""
    record = tables.get("sample_data", tables.get("sample", token)["data"][LIDAR])
    sensor = tables.get("calibrated_sensor", record["calibrated_sensor_token"])
    return Place(token, matrix_of(sensor), matrix_of(tables.get("ego_pose", record["ego_pose_token"])))


def _tables_of(test: StudySequence) -> Any:
    return open_tables(Path(test.source.data), str(test.source.options.get("version", "")))


def _truth_of(test: StudySequence, tables: Any, tokens: Sequence[str]) -> Truth:
    """Return the true boxes of frames; a process reads them once and scores all models by them."""
    key = (test.source.data, tables.version, tuple(tokens))
    truth = _truths.pop(key, None) or Truth(tables, tokens)
    _truths[key] = truth  # last = used last
    while len(_truths) > _KEPT:
        del _truths[next(iter(_truths))]
    return truth
