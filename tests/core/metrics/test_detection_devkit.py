"""The devkit on real detections, our filter against it, and predictions on their way into it."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.data.nuscenes.tables import open_tables
from fed_core.errors import DataError
from fed_core.metrics.detection.devkit import Truth
from fed_core.metrics.detection.files import evaluate_file
from fed_core.metrics.detection.submission import attribute_of, to_submission
from fed_core.types import DETECTION_CLASSES, Boxes3D
from tests.core.data.nuscenes_trees import edit_table, write_scenes


class Place:
    """A frame's token and poses."""

    def __init__(self, token: str, lidar_to_ego: Any = None, ego_to_global: Any = None) -> None:
        self.token = token
        self.lidar_to_ego = np.eye(4) if lidar_to_ego is None else lidar_to_ego
        self.ego_to_global = np.eye(4) if ego_to_global is None else ego_to_global


def boxes(*centres: tuple[float, float, float], label: str = "car", **given: Any) -> Boxes3D:
    count = len(centres)
    return Boxes3D(
        np.array(centres, np.float64).reshape(-1, 3),
        given.get("sizes", np.tile([4.0, 2.0, 1.5], (count, 1))),
        given.get("yaws", np.zeros(count)),
        given.get("velocities", np.zeros((count, 2))),
        np.full(count, DETECTION_CLASSES.index(label)),
        given.get("scores", np.linspace(0.9, 0.1, count)),
        np.zeros(count, np.int64),
    )


@pytest.fixture(scope="module")
def root(shared_data: Path) -> Path:
    return shared_data / "nuscenes_tables_mini_val"


@pytest.fixture(scope="module")
def published(shared_data: Path) -> Path:
    return shared_data / "nuscenes_eval_mini_val"


def test_published_detections_give_the_published_map(root: Path, published: Path) -> None:
    before = sorted(path.name for path in Path.cwd().iterdir())
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        found = evaluate_file(root, published / "results_nusc.json")

    assert found.figures.map == 0.07551617930781714
    assert found.figures.nds == pytest.approx(0.1033640, abs=5e-8)
    assert (found.scenes, found.num_samples) == (("scene-0103", "scene-0916"), 81)
    assert shown.getvalue() == ""
    assert sorted(path.name for path in Path.cwd().iterdir()) == before


def test_perturbed_boxes_give_what_the_devkit_gave(root: Path, published: Path) -> None:
    folder = published / "perturbed"
    told = json.loads((folder / "metrics_summary.json").read_text())

    figures = evaluate_file(root, folder / "results_nusc.json", "mini_val").figures

    assert (round(figures.nds, 6), round(figures.map, 6)) == (0.452310, 0.410176)
    assert figures.nds == pytest.approx(told["nd_score"], rel=1e-12)
    assert figures.mean_errors == pytest.approx(told["tp_errors"], rel=1e-12)
    for name, ap in told["label_aps"].items():
        assert {str(distance): value for distance, value in figures.ap[name].items()} == pytest.approx(ap, rel=1e-12)


def test_classes_are_counted_after_the_filter(root: Path) -> None:
    tables = open_tables(root, "v1.0-mini")
    tokens = [sample["token"] for sample in tables.sample]

    truth = Truth(tables, tokens)

    assert set(truth.classes) < set(truth.named)  # barriers are there, but all beyond 30 m
    assert "barrier" in truth.named


def relabelled(results: Any, names: dict[str, str]) -> None:
    for boxes_of_sample in results.values():
        for box in boxes_of_sample:
            name = names.get(box.sample_token)
            if box.detection_name == "car" and name:
                box.detection_name = name


def test_filtered_equals_the_devkit_when_all_ten_classes_are_there(root: Path, published: Path) -> None:
    """Cars of some frames are called by the absent classes, in truth and predictions alike."""
    from nuscenes.eval.common.data_classes import EvalBoxes
    from nuscenes.eval.common.loaders import add_center_dist, filter_eval_boxes
    from nuscenes.eval.detection.data_classes import DetectionBox

    from fed_core.metrics.detection.devkit import protocol

    tables = open_tables(root, "v1.0-mini")
    tree = json.loads((published / "perturbed" / "results_nusc.json").read_text())["results"]
    truth = Truth(tables, list(tree))
    absent = [name for name in DETECTION_CLASSES if name not in truth.classes]
    names = {
        token: absent[place % (len(absent) + 1) - 1] for place, token in enumerate(tree) if place % (len(absent) + 1)
    }
    said = add_center_dist(tables, EvalBoxes.deserialize(tree, DetectionBox))
    said = filter_eval_boxes(tables, said, protocol().class_range)
    relabelled(said.boxes, names)
    relabelled(truth._boxes.boxes, names)
    truth.classes = DETECTION_CLASSES

    figures = truth.evaluate_boxes(said)

    score = figures.filtered()
    assert len(absent) >= 2
    assert all(figures.ap_of(name) > 0 for name in DETECTION_CLASSES)
    assert score.nds == pytest.approx(figures.nds, abs=1e-12)
    assert score.map == pytest.approx(figures.map, abs=1e-12)
    assert score.errors == pytest.approx(figures.mean_errors, abs=1e-12)
    assert score.cap == pytest.approx(figures.ap_of("car"), abs=1e-12)


def test_filtered_leaves_out_absent_classes_only(root: Path, published: Path) -> None:
    figures = evaluate_file(root, published / "perturbed" / "results_nusc.json").figures

    assert len(figures.classes) < 10
    assert figures.filtered().map == pytest.approx(figures.map * 10 / len(figures.classes))


def test_no_predictions_score_zero(root: Path) -> None:
    tables = open_tables(root, "v1.0-mini")
    truth = Truth(tables, [tables.sample[0]["token"]])

    assert truth.evaluate({}).filtered().nds == 0.0


def test_samples_that_the_tables_lack_are_named(root: Path) -> None:
    with pytest.raises(DataError, match="'gone' is not in the tables, but a scored sample needs it"):
        Truth(open_tables(root, "v1.0-mini"), ["gone"])


def test_true_boxes_with_several_attributes_are_named(tmp_path: Path) -> None:
    write_scenes(tmp_path, [("s", "boston-seaport", "Peds", "val")], frames=1)
    edit_table(
        tmp_path, "sample_annotation", lambda rows: [{**row, "attribute_tokens": ["one", "two"]} for row in rows]
    )
    tables = open_tables(tmp_path)

    with pytest.raises(DataError, match=r"true box \w+ of sample \w+ has several attributes; one at most is known"):
        Truth(tables, [sample["token"] for sample in tables.sample])


def test_true_boxes_as_predictions_are_nearly_perfect(root: Path) -> None:
    """From global tables to the LiDAR frame and back through the submission."""
    tables = open_tables(root, "v1.0-mini")
    tokens = [sample["token"] for sample in tables.sample]
    results = {token: to_submission(*true_boxes(tables, token)) for token in tokens}

    figures = Truth(tables, tokens).evaluate(results)

    score = figures.filtered()
    assert score.map > 0.98
    assert max(score.errors[name] for name in ("trans_err", "scale_err", "orient_err")) < 1e-3
    assert score.errors["vel_err"] < 0.05  # only the part along the LiDAR's plane goes the way
    assert score.errors["attr_err"] < 0.3  # guessed from the speed
    assert score.nds > 0.96


def true_boxes(tables: Any, token: str) -> tuple[Boxes3D, Place]:
    from nuscenes.eval.detection.utils import category_to_detection_name
    from pyquaternion import Quaternion

    data = tables.get("sample_data", tables.get("sample", token)["data"]["LIDAR_TOP"])
    record = tables.get("calibrated_sensor", data["calibrated_sensor_token"])
    pose = tables.get("ego_pose", data["ego_pose_token"])
    place = Place(token, matrix(record), matrix(pose))
    back = np.linalg.inv(place.ego_to_global @ place.lidar_to_ego)
    rows = []
    for ann in tables.get("sample", token)["anns"]:
        annotation = tables.get("sample_annotation", ann)
        name = category_to_detection_name(annotation["category_name"])
        if name is None or not annotation["num_lidar_pts"] + annotation["num_radar_pts"]:
            continue  # the devkit takes no such box for a true one
        ahead = back[:3, :3] @ Quaternion(annotation["rotation"]).rotation_matrix[:, 0]
        w, length, h = annotation["size"]
        move = back[:3, :3] @ np.nan_to_num(tables.box_velocity(ann))
        centre = back[:3, :3] @ np.array(annotation["translation"]) + back[:3, 3]
        label = DETECTION_CLASSES.index(name)
        rows.append((centre, (length, w, h), np.arctan2(ahead[1], ahead[0]), move[:2], label))
    centres, sizes, yaws, moves, labels = (np.array(column) for column in zip(*rows, strict=True))
    # Equal scores would make the devkit's curves of errors those of one box.
    scores = np.random.default_rng(len(rows)).uniform(0.1, 1.0, len(rows))
    return Boxes3D(centres, sizes, yaws, moves, labels, scores, np.zeros(len(rows), np.int64)), place


def matrix(record: Any) -> Any:
    from pyquaternion import Quaternion

    found = np.eye(4)
    found[:3, :3], found[:3, 3] = Quaternion(record["rotation"]).rotation_matrix, record["translation"]
    return found


def test_submission_by_hand() -> None:
    """The LiDAR is 1 m ahead of the base and turned left by 90 degrees; the base is at (100, 50), turned by 180."""
    lidar = np.array([[0, -1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 2], [0, 0, 0, 1]], np.float64)
    ego = np.array([[-1, 0, 0, 100], [0, -1, 0, 50], [0, 0, 1, 0], [0, 0, 0, 1]], np.float64)
    found = boxes((10.0, 0.0, 0.5), yaws=np.zeros(1), velocities=np.array([[3.0, 0.0]]), scores=np.array([0.75]))

    (box,) = to_submission(found, Place("t", lidar, ego))

    assert box["translation"] == pytest.approx([99.0, 40.0, 2.5])  # LiDAR x is the map's -y
    assert box["size"] == [2.0, 4.0, 1.5]
    assert box["velocity"] == pytest.approx([0.0, -3.0], abs=1e-12)
    w, _, _, z = box["rotation"]
    assert 2 * np.arctan2(z, w) % (2 * np.pi) == pytest.approx(1.5 * np.pi)
    assert (box["sample_token"], box["detection_name"], box["detection_score"]) == ("t", "car", 0.75)
    assert box["attribute_name"] == "vehicle.moving"


def test_far_boxes_and_all_but_the_best_are_dropped() -> None:
    far = boxes((49.9, 0.0, 0.0), (50.1, 0.0, 0.0))
    assert len(to_submission(far, Place("t"))) == 1
    cones = boxes((29.9, 0.0, 0.0), (30.1, 0.0, 0.0), label="traffic_cone")
    assert len(to_submission(cones, Place("t"))) == 1

    many = boxes(*[(1.0, 0.0, 0.0)] * 600, scores=np.linspace(0.0, 0.599, 600))
    kept = to_submission(many, Place("t"))
    assert len(kept) == 500
    assert kept[0]["detection_score"] == pytest.approx(0.599)
    assert [box["detection_score"] for box in to_submission(many, Place("t"), 2)] == pytest.approx([0.599, 0.598])
    assert to_submission(boxes(), Place("t")) == []


def test_unknown_velocity_counts_as_none_and_a_broken_box_is_named() -> None:
    (box,) = to_submission(boxes((1.0, 0.0, 0.0), velocities=np.full((1, 2), np.nan)), Place("t"))
    assert (box["velocity"], box["attribute_name"]) == ([0.0, 0.0], "vehicle.parked")

    with pytest.raises(DataError, match="a predicted box of frame t is not finite; did training diverge"):
        to_submission(boxes((1.0, np.nan, 0.0)), Place("t"))


@pytest.mark.parametrize(
    ("name", "slow", "fast"),
    [
        ("car", "vehicle.parked", "vehicle.moving"),
        ("trailer", "vehicle.parked", "vehicle.moving"),
        ("bus", "vehicle.stopped", "vehicle.moving"),
        ("pedestrian", "pedestrian.standing", "pedestrian.moving"),
        ("bicycle", "cycle.without_rider", "cycle.with_rider"),
        ("motorcycle", "cycle.without_rider", "cycle.with_rider"),
        ("barrier", "", ""),
        ("traffic_cone", "", ""),
    ],
)
def test_attributes_follow_class_and_speed(name: str, slow: str, fast: str) -> None:
    assert (attribute_of(name, 0.2), attribute_of(name, 0.21)) == (slow, fast)
