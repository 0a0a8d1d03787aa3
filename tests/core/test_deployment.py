"""From a fleet file to nodes and parameters."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fed_core.config import from_tree
from fed_core.data.open import SourceConfig
from fed_core.deployment import Deployment
from fed_core.errors import ConfigError
from fed_core.fleet import FleetConfig
from tests.core.data.nuscenes_trees import write_scenes
from tests.core.data.opv2v_trees import SCENARIO, write_frame

TREE: dict[str, Any] = {
    "run": "one",
    "rounds": 2,
    "network": {"name": "adabins_s", "options": {"bins": 16}},
    "robots": [{"id": "ana", "source": {"data": "a", "start": 5}, "frames": 12}, {"id": "ben"}, {"id": "cleo"}],
    "test": [{"name": "t1", "source": {"generated": {"platform": "car", "environment": "urban_day"}}}],
}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(from_tree(FleetConfig, TREE), Path("/recordings"), tmp_path)


def test_the_aggregator_waits_for_the_whole_fleet(deployment: Deployment, tmp_path: Path) -> None:
    spec = deployment.aggregator()
    assert (spec.executable, spec.namespace) == ("aggregator", "")
    assert spec.parameters["min_robots"] == 3
    assert (spec.parameters["run"], spec.parameters["rounds"], spec.parameters["strategy"]) == ("one", 2, "fedepth")
    assert yaml.safe_load(spec.parameters["network_options"]) == {"bins": 16}
    assert spec.parameters["strategy_options"] == ""
    assert spec.parameters["runs_dir"] == str(tmp_path / "aggregator")


def test_each_robot_has_its_namespace_its_folder_and_its_feed(deployment: Deployment, tmp_path: Path) -> None:
    ana, ben = (deployment.robot(entry) for entry in deployment.fleet.robots[:2])
    assert (ana.executable, ana.namespace, ana.name) == ("robot_client", "/ana", "ana")
    assert ana.parameters["state_dir"] == str(tmp_path / "robots" / "ana")
    assert (ana.parameters["record_frames"], "record_frames" in ben.parameters) == (12, False)
    assert (ana.parameters["reliable_sensors"], ben.parameters["reliable_sensors"]) == (True, False)
    feed = deployment.replay(deployment.fleet.robots[0], rate_hz=20)
    assert feed is not None
    assert (feed.namespace, feed.parameters["rate_hz"], feed.parameters["source_base"]) == ("/ana", 20.0, "/recordings")
    assert type(feed.parameters["rate_hz"]) is float  # a ROS parameter keeps its type
    assert json.loads(feed.parameters["source"]) == {"data": "a", "start": 5}
    assert deployment.replay(deployment.fleet.robots[1]) is None


def test_a_source_in_a_parameter_means_the_same_as_in_the_file(deployment: Deployment, tmp_path: Path) -> None:
    entry = deployment.fleet.test[0]
    spec = deployment.score(entry, tmp_path / "t1.json")
    assert from_tree(SourceConfig, yaml.safe_load(spec.parameters["source"])) == entry.source
    assert (spec.name, spec.namespace, spec.parameters["out"]) == ("score_t1", "/live", str(tmp_path / "t1.json"))
    assert spec.parameters["descriptor_frames"] == deployment.inference().parameters["descriptor_frames"]


def test_every_node_speaks_in_the_same_fleet(tmp_path: Path) -> None:
    deployment = Deployment(from_tree(FleetConfig, TREE), Path(), tmp_path, fleet_ns="/red", replayed=False)
    robot = deployment.robot(deployment.fleet.robots[0])
    specs = [deployment.aggregator(), robot, deployment.inference("/a/live"), deployment.monitor()]
    assert {spec.parameters["fleet_ns"] for spec in specs} == {"/red"}
    assert specs[2].parameters["reader_id"] == "a_live_inference"
    assert robot.parameters["reliable_sensors"] is False


def test_parameters_are_what_ros_can_hold(deployment: Deployment, tmp_path: Path) -> None:
    fleet = deployment.fleet
    specs = [deployment.aggregator(), deployment.inference(), deployment.monitor()]
    specs += [deployment.robot(entry) for entry in fleet.robots]
    specs += [deployment.score(entry, tmp_path) for entry in fleet.test]
    for spec in specs:
        for name, value in spec.parameters.items():
            assert type(value) in (bool, int, float, str), f"{spec.name}.{name}"
    assert len({spec.name for spec in specs}) == len(specs)


# ---- task bev ----------------------------------------------------------------------------------------------------


@pytest.fixture
def vehicles(tmp_path: Path) -> Deployment:
    write_frame(tmp_path / "drive" / SCENARIO / "641", "000000")
    source = {"data": "drive", "options": {"map_size": 16, "cameras": [0, 3], "amcm_mask": "fov"}}
    mount = {"position": [1, 0, 1], "rotation": [0, 0, 0, 1]}
    tree = {
        "run": "maps",
        "task": "bev",
        "robots": [{"id": "bus", "source": source}, {"id": "van", "rig": {"front": mount}}, {"id": "bare"}],
        "test": [{"name": "unseen", "robot": "bus", "source": source}, {"name": "other", "source": source}],
    }
    return Deployment(from_tree(FleetConfig, tree), tmp_path, tmp_path / "run")


def test_a_vehicle_is_told_where_its_cameras_sit(vehicles: Deployment) -> None:
    bus, van, bare = (vehicles.robot(entry).parameters for entry in vehicles.fleet.robots)
    rig = json.loads(bus["rig"])
    assert list(rig) == ["front", "back"] and rig["back"]["id"] == 3
    assert rig["front"]["position"] == pytest.approx([2.5, 0.0, 1.0])
    assert (bus["known_cells"], bus["record_frames"]) == ("fov", 1)
    assert list(json.loads(van["rig"])) == ["front"] and "rig" not in bare
    feed = vehicles.replay(vehicles.fleet.robots[0])
    assert feed is not None and feed.parameters["task"] == "bev"


def test_cells_that_several_sources_know_are_those_of_their_parts(vehicles: Deployment) -> None:
    bus = vehicles.fleet.robots[0]
    assert bus.source is not None
    several = replace(bus, source=SourceConfig(parts=(bus.source, bus.source)))
    assert vehicles.robot(several).parameters["known_cells"] == "fov"


def test_a_vehicles_sequence_is_watched_by_a_node_of_its_own(vehicles: Deployment, tmp_path: Path) -> None:
    unseen, other = (vehicles.watcher(entry) for entry in vehicles.fleet.test)
    assert (unseen.namespace, other.namespace) == ("/live/unseen", "/live/other")
    assert (unseen.parameters["robot_id"], "robot_id" in other.parameters) == ("bus", False)
    assert unseen.parameters["robot_dir"] == vehicles.robot(vehicles.fleet.robots[0]).parameters["state_dir"]
    assert list(json.loads(unseen.parameters["rig"])) == ["front", "back"]
    assert len({spec.parameters["state_dir"] for spec in (unseen, other)}) == 2
    score = vehicles.score(vehicles.fleet.test[0], tmp_path / "x.json", unseen.namespace)
    assert (score.namespace, score.parameters["task"]) == ("/live/unseen", "bev")


def test_a_vehicle_with_a_lidar_is_told_where_all_its_sensors_sit(tmp_path: Path) -> None:
    write_scenes(tmp_path / "drive", [("scene-1", "boston-seaport", "sunny", "train")])
    source = {"data": "drive", "options": {"cameras": ["CAM_FRONT"], "sweeps": 0}}
    mount = {"position": [0, 0, 2], "rotation": [0, 0, 0]}
    tree = {
        "run": "boxes",
        "task": "detection",
        "network": {"name": "cmt_tiny"},
        "robots": [{"id": "car", "source": source}, {"id": "van", "lidar": {"top": mount}}, {"id": "bare"}],
        "test": [{"name": "unseen", "robot": "car", "source": source}],
    }
    deployment = Deployment(from_tree(FleetConfig, tree), tmp_path, tmp_path / "run")
    car, van, bare = (deployment.robot(entry).parameters for entry in deployment.fleet.robots)
    assert list(json.loads(car["rig"])) == ["CAM_FRONT"] and list(json.loads(car["lidar"])) == ["LIDAR_TOP"]
    assert json.loads(car["lidar"])["LIDAR_TOP"]["position"] == pytest.approx([0.9, 0.0, 1.8])
    assert (car["record_frames"], "known_cells" in car) == (3, False)
    assert list(json.loads(van["lidar"])) == ["top"] and "rig" not in van and "lidar" not in bare
    watcher = deployment.watcher(deployment.fleet.test[0])
    assert (watcher.namespace, watcher.parameters["min_score"]) == ("/live/unseen", 0.0)
    assert [spec.namespace for spec in deployment.live()] == ["/car", "/van", "/bare"]
    assert "min_score" not in deployment.live()[0].parameters


def test_a_lidar_is_for_task_detection_only() -> None:
    with pytest.raises(ConfigError, match="robot a has a lidar, which is for task detection; this fleet learns depth"):
        from_tree(FleetConfig, {**TREE, "robots": [{"id": "a", "lidar": {"top": {}}}], "test": []})


def test_live_nodes_sit_on_vehicles_and_one_camera_needs_no_vehicle(
    vehicles: Deployment, deployment: Deployment
) -> None:
    assert [spec.namespace for spec in vehicles.live()] == ["/bus", "/van", "/bare"]
    (van,) = vehicles.live(["/van"])
    assert (van.parameters["robot_id"], list(json.loads(van.parameters["rig"]))) == ("van", ["front"])
    with pytest.raises(ConfigError, match="with task bev, inference sits on a robot: /live is none of /bus, /van"):
        vehicles.live(["/live"])
    assert [spec.namespace for spec in deployment.live()] == ["/live"]
    assert [spec.namespace for spec in deployment.live(["/a", "/b"])] == ["/a", "/b"]


def test_a_rig_is_for_task_bev_only() -> None:
    with pytest.raises(ConfigError, match="robot a has a rig, which is for tasks bev and detection; this fleet"):
        from_tree(FleetConfig, {**TREE, "robots": [{"id": "a", "rig": {"front": {}}}], "test": []})
