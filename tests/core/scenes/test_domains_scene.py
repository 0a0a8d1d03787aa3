"""Scenes of the five domains: shapes, pixels, LiDAR, lamps, wet ground and rain."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from fed_core.errors import ConfigError
from fed_core.scenes.domains.actors import KINDS, actor_parts, attribute_of, label_of
from fed_core.scenes.domains.kinds import CLEAR, DAY_CLEAR, DAY_RAIN, NIGHT_CLEAR, Weather, domain_kind
from fed_core.scenes.domains.lidar import HEIGHT_M, NOISE_M, RANGE_M, Lidar, lidar_to_ego, points_inside
from fed_core.scenes.domains.night import Beam, lamp_gain
from fed_core.scenes.domains.pictures import picture, with_rain
from fed_core.scenes.domains.scenario import KEYFRAME_S, DomainScene, Recording
from fed_core.scenes.domains.surfaces import surfaces
from fed_core.scenes.driving.carriers import Mount
from fed_core.scenes.driving.palettes import drawn_sky
from fed_core.scenes.driving.vehicles import Vehicle
from fed_core.scenes.driving.view import Stage, View, camera_pose
from fed_core.scenes.meshes import Mesh, box, patch
from fed_core.scenes.renderer import Pinhole
from fed_core.types import DETECTION_CLASSES, DetectionFrame

Floats = npt.NDArray[np.float64]

SENSORS = Recording(320, 128, 110.0, ("CAM_FRONT", "CAM_BACK", "CAM_FRONT_LEFT"), Lidar(24, 300), 4, 50.0)
WORDS = (7, 0, 0, 0)
CAMERA = Pinhole(64, 48, 32.0)
PAINT = (0.5, 0.1, 0.1)


def actor(kind: str, place: tuple[float, float] = (0.0, 0.0), yaw: float = 0.0, speed_mps: float = 0.0) -> Vehicle:
    return Vehicle(0, kind, KINDS[kind].size_m, place, yaw, PAINT, speed_mps, on_road=speed_mps > 0)


def look(weather: Weather, *parts: tuple[Mesh, str], others: tuple[Vehicle, ...] = ()) -> View:
    """Return plain ground with things on it, seen from the origin."""
    ground = patch((-120, -120, 0), (240, 0, 0), (0, 240, 0))
    sky = drawn_sky(np.random.default_rng(0), weather.palette)
    stage = Stage([(ground, "asphalt"), *parts], sky, 0.0, surfaces(weather.night), actor_parts)
    return stage.look(others, (0.0, 0.0))


def pose() -> Floats:
    """Return a camera at the origin, 1.5 m high, that looks along x."""
    return camera_pose(actor("compact"), Mount(0.0, 0.0, 1.5, 0.0))


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_fill_their_size_and_stay_inside(kind: str) -> None:
    for speed in (0.0, 3.0):
        length, width, height = KINDS[kind].size_m
        corners = np.concatenate([mesh.vertices for mesh, _ in actor_parts(actor(kind, speed_mps=speed))])
        half = np.array([length / 2, width / 2])
        assert (np.abs(corners[:, :2]) <= half + 1e-9).all()
        assert corners[:, 2].min() > -1e-9 and corners[:, 2].max() <= height + 1e-9
        assert corners[:, 2].max() > 0.95 * height and (np.abs(corners[:, :2]).max(0) > 0.4 * half).all()


def test_kinds_cover_all_ten_classes() -> None:
    assert {kind.label for kind in KINDS.values()} == set(DETECTION_CLASSES)


def test_attributes_follow_kind_and_speed() -> None:
    told = {
        attribute_of(actor(kind, speed_mps=speed))
        for kind, speed in (("saloon", 3.0), ("pedestrian", 1.0), ("motorcycle", 5.0))
    }
    assert told == {"vehicle.moving", "pedestrian.moving", "cycle.with_rider"}
    assert attribute_of(actor("saloon")) == "vehicle.parked" and attribute_of(actor("bus")) == "vehicle.stopped"
    assert attribute_of(replace(actor("saloon"), on_road=True)) == "vehicle.stopped"
    assert attribute_of(actor("pedestrian")) == "pedestrian.standing"
    assert attribute_of(actor("bicycle_parked")) == "cycle.without_rider"
    assert attribute_of(actor("barrier")) == attribute_of(actor("traffic_cone")) == ""


def test_lidar_points_lie_on_the_surface_of_a_box() -> None:
    size, place = np.array([4.0, 2.0, 2.5]), (12.0, 3.0)
    view = look(DAY_CLEAR, (box(size).moved((*place, 0.0)), "plain"))
    points = Lidar(32, 720).scan(view, lidar_to_ego(), DAY_CLEAR, np.random.default_rng(1)).astype(float)

    # Ego axes from LiDAR axes by hand: right is -y, ahead is x.
    ego = np.column_stack([points[:, 1] + 0.6, -points[:, 0], points[:, 2] + HEIGHT_M])
    on_box = ego[(np.abs(ego[:, :2] - place) < size[:2] / 2 + 0.1).all(1) & (ego[:, 2] > 0.1)]
    outside = np.abs(on_box - [*place, size[2] / 2]) - size / 2
    assert len(on_box) > 60
    assert np.abs(outside.max(1)).max() < 2 * NOISE_M + 1e-3  # on a face, as far as the noise lets it
    seen_faces = np.minimum(np.abs(on_box[:, 0] - 10.0), np.abs(on_box[:, 1] - 2.0))
    assert seen_faces.max() < 2 * NOISE_M + 1e-3  # the front and the right one, which look at the sensor
    ground = ego[(ego[:, 2] < 0.1) & (np.abs(ego[:, :2] - place) > size[:2] / 2 + 0.1).any(1)]
    assert np.abs(ground[:, 2]).max() < 2 * NOISE_M
    assert np.linalg.norm(points[:, :3], axis=1).max() < RANGE_M + 2 * NOISE_M
    assert set(np.unique(points[:, 4])) <= set(range(32)) and 0 <= points[:, 3].min() < points[:, 3].max() <= 255
    on_grown = points_inside(points.astype(np.float32), np.array([-3.0, 11.4, 1.25 - HEIGHT_M]), size + 0.1, np.pi / 2)
    assert on_grown >= len(on_box)


def test_points_inside_by_hand() -> None:
    points = np.array([[1.0, 2.0, 0.0], [1.0, 2.9, 0.4], [1.9, 2.0, 0.0], [1.0, 2.0, 0.6]], np.float32)
    assert points_inside(points, np.array([1.0, 2.0, 0.0]), np.array([2.0, 1.0, 1.0]), np.pi / 2) == 2
    assert points_inside(points, np.array([1.0, 2.0, 0.0]), np.array([2.0, 1.0, 1.0]), 0.0) == 2
    assert points_inside(points, np.array([1.0, 2.0, 0.0]), np.array([2.0, 2.0, 2.0]), 0.0) == 4


def test_rain_takes_points_and_intensity() -> None:
    view = look(DAY_CLEAR, (box((2.0, 60.0, 4.0)).moved((30.0, 0.0, 0.0)), "plain"))
    clear, wet = (
        Lidar(24, 300).scan(view, lidar_to_ego(), weather, np.random.default_rng(2))
        for weather in (DAY_CLEAR, DAY_RAIN)
    )
    assert len(wet) < 0.8 * len(clear)
    far_clear, far_wet = (points[points[:, 1] > 25] for points in (clear, wet))
    assert far_wet[:, 3].mean() < 0.7 * far_clear[:, 3].mean()
    in_the_air = (np.linalg.norm(wet[:, :2], axis=1) < 4) & (wet[:, 2] > -0.5)
    assert in_the_air.any()  # drops near the sensor
    assert not ((np.linalg.norm(clear[:, :2], axis=1) < 4) & (clear[:, 2] > -0.5)).any()


def test_what_a_wall_hides_has_no_points() -> None:
    scene = DomainScene(domain_kind("A"), SENSORS, WORDS, full=True)
    frame = scene.keyframe(0, 0, "").frame
    assert (frame.boxes.num_points == 0).any() and (frame.boxes.num_points > 5).any()
    hidden = look(
        DAY_CLEAR, (box((1.0, 30.0, 8.0)).moved((10.0, 0.0, 0.0)), "plain"), others=(actor("saloon", (20, 0)),)
    )
    points = Lidar(24, 300).scan(hidden, lidar_to_ego(), DAY_CLEAR, np.random.default_rng(0))
    assert points_inside(points, np.array([0.0, 19.4, 0.75 - HEIGHT_M]), np.array([2.0, 5.0, 1.6]), 0.0) == 0


def to_street(scene: DomainScene, frame: DetectionFrame, camera: int, time_s: float) -> Floats:
    """Return the pose of a camera in the street's axes, by way of the reader's ``lidar_to_camera``."""
    ego = scene.cast.at(time_s).ego
    base = np.eye(4)
    base[:2, :2] = [[np.cos(ego.yaw), -np.sin(ego.yaw)], [np.sin(ego.yaw), np.cos(ego.yaw)]]
    base[:2, 3] = ego.place
    result: Floats = base @ frame.lidar_to_ego @ np.linalg.inv(frame.lidar_to_camera[camera])
    return result


@pytest.mark.parametrize("letter", ["A", "E"])
def test_centres_of_boxes_project_to_the_pixels_that_show_them(letter: str) -> None:
    scene = DomainScene(domain_kind(letter), SENSORS, WORDS, full=True)
    shown = hits = 0
    for index in (0, 3):
        keyframe = scene.keyframe(index, 0, "")
        frame, view = keyframe.frame, scene.view(index * KEYFRAME_S)
        for camera in range(len(frame.cameras)):
            owners = view.owners(SENSORS.camera, to_street(scene, frame, camera, index * KEYFRAME_S))
            way = frame.lidar_to_camera[camera]
            for row in np.flatnonzero(frame.boxes.num_points > 8):
                x, y, z = way[:3, :3] @ frame.boxes.centres[row] + way[:3, 3]
                column, line, _ = frame.intrinsics[camera] @ np.array([x, y, z]) / z
                if z > 2 and 0 <= column < 319 and 0 <= line < 127:
                    shown += 1
                    hits += owners[round(line), round(column)] == int(keyframe.instances[row])
    assert shown > 10
    assert hits > 0.8 * shown  # something else may stand before a centre


def test_velocities_are_those_over_ground() -> None:
    scene = DomainScene(domain_kind("C"), SENSORS, WORDS)
    one, two = (scene.keyframe(index, 0, "") for index in (0, 1))
    moved = 0
    for row, name in enumerate(one.instances):
        if name in two.instances:
            later = two.frame.boxes.centres[two.instances.index(name)]
            places = [
                (frame.ego_to_global @ frame.lidar_to_ego @ np.array([*centre, 1.0]))[:2]
                for frame, centre in ((one.frame, one.frame.boxes.centres[row]), (two.frame, later))
            ]
            turn = (one.frame.ego_to_global @ one.frame.lidar_to_ego)[:2, :2]
            np.testing.assert_allclose(
                turn @ one.frame.boxes.velocities[row], (places[1] - places[0]) / KEYFRAME_S, atol=1e-9
            )
            moved += bool(np.linalg.norm(places[1] - places[0]) > 0.5)
    assert moved > 3


def test_boxes_stand_on_the_ground_and_are_true_to_size() -> None:
    scene = DomainScene(domain_kind("A"), SENSORS, WORDS, full=True)
    keyframe = scene.keyframe(0, 0, "")
    boxes = keyframe.frame.boxes
    for row, name in enumerate(keyframe.instances):
        made = scene.cast.others[int(name)]
        assert DETECTION_CLASSES[boxes.labels[row]] == label_of(made)
        assert np.abs(boxes.sizes[row] - made.size_m).max() < 0.1
    low = boxes.centres[:, 2] - boxes.sizes[:, 2] / 2 + HEIGHT_M
    assert (np.abs(low) < 0.05).all()
    assert np.hypot(*boxes.centres[:, :2].T).max() < 51


def test_night_is_darker_than_day_in_the_same_street() -> None:
    day = domain_kind("C")
    night = replace(day, weather=NIGHT_CLEAR)
    light = [
        np.mean([image.mean() for image in DomainScene(kind, SENSORS, WORDS).keyframe(0, 0, "").frame.images])
        for kind in (day, night)
    ]
    assert light[1] < 0.6 * light[0]


def test_a_lamp_lights_what_is_below_it() -> None:
    sky = drawn_sky(np.random.default_rng(0), NIGHT_CLEAR.palette)
    points = np.array([[0.0, 0.0, 0.0], [15.0, 0.0, 0.0], [60.0, 0.0, 0.0]])
    up = np.tile([0.0, 0.0, 1.0], (3, 1))
    lamp = Beam((0.0, 0.0, 5.0), (10.0, 5.0, 2.5), (0.0, 0.0, -1.0), 1)
    gain = lamp_gain(sky, points, up, [lamp])
    assert gain[0, 0] > gain[1, 0] > gain[2, 0] == 1
    ambient = 1.15 * 0.5 * (sky.zenith + sky.horizon)
    fade = 1 - 25 / 32**2
    np.testing.assert_allclose(gain[0], 1 + np.array([10.0, 5.0, 2.5]) / 25 * fade / ambient, rtol=1e-5)
    assert (lamp_gain(sky, points, -up, [lamp]) == 1).all()  # nothing shines through the ground


def test_wet_ground_mirrors_what_stands_on_it() -> None:
    red = (box((1.0, 40.0, 12.0)).moved((14.0, 0.0, 0.0)).tinted((0.9, 0.02, 0.02)), "plain")
    weather = replace(DAY_CLEAR, palette=replace(CLEAR, sun_rgb=(0.0, 0.0, 0.0)))
    dry, wet = (picture(look(w, red), CAMERA, pose(), w, []) for w in (weather, replace(weather, wet=0.9)))
    middle = slice(24, 40)
    for row in (29, 31):  # ground 9 m and 7 m ahead
        redness = [float((p[row, middle, 0] / p[row, middle].sum(-1)).mean()) for p in (dry, wet)]
        assert redness[0] < 0.345 < 0.37 < redness[1]
    np.testing.assert_array_equal(dry[:20], wet[:20])  # walls stay as they are


def test_rain_draws_streaks_and_takes_contrast() -> None:
    light = np.zeros((64, 160, 3), np.float32)
    light[:, ::2] = 1.0
    assert with_rain(light, DAY_CLEAR, np.random.default_rng(0)) is light
    rainy = with_rain(light, DAY_RAIN, np.random.default_rng(0))
    assert 0.02 < np.mean(np.abs(rainy - light) > 0.02) < 0.6
    assert rainy.std() < light.std()


def test_an_unknown_domain_is_refused() -> None:
    with pytest.raises(ConfigError, match="no generated domain is called 'Z'; known: A, B, C, D, E"):
        domain_kind("Z")
