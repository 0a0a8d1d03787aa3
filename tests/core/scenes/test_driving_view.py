"""Generated traffic and the reader's geometry agree: pixels, ground, cells, left and right, what hides what."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from fed_core.data.opv2v.cameras import REFERENCE, cell_centres, on_ground, project, to_cells
from fed_core.data.opv2v.poses import world_from
from fed_core.errors import ConfigError
from fed_core.scenes.driving.carriers import CLIENTS, MOUNTS, SIZES_M, Mount, client_kind
from fed_core.scenes.driving.maps import MapDrawer
from fed_core.scenes.driving.palettes import PALETTES, atlas, drawn_sky
from fed_core.scenes.driving.scenario import corner_matrix, others_of
from fed_core.scenes.driving.streets import PLANS, drawn_street
from fed_core.scenes.driving.traffic import Traffic, drawn_traffic
from fed_core.scenes.driving.vehicles import Vehicle, vehicle_parts
from fed_core.scenes.driving.view import NOTHING, Stage, camera_of, camera_pose, visible
from fed_core.scenes.meshes import Mesh, box, merged, patch

Floats = npt.NDArray[np.float64]
CAMERA = camera_of(800, 600)
K = corner_matrix(CAMERA.matrix)
#: A vehicle somewhere, looking somewhere.
CARRIER = Vehicle(1, "saloon", (4.7, 1.85, 1.45), (20.0, -7.0), np.radians(35.0), (0.5, 0.5, 0.5))
RED = (0.55, 0.04, 0.04)


def stage(*more: tuple[Mesh, str]) -> Stage:
    lawn = patch((-200, -200, -0.05), (400, 0, 0), (0, 400, 0))
    return Stage([(lawn, "lawn"), *more], drawn_sky(np.random.default_rng(0), PALETTES["noon"]), 0.003)


def at(forward: float, right: float, size: tuple[float, float, float], number: int = 7) -> Vehicle:
    """Return a vehicle at metres forward and right of the carrier, parallel to it."""
    c, s = np.cos(CARRIER.yaw), np.sin(CARRIER.yaw)
    x, y = CARRIER.place
    place = x + c * forward + s * right, y + s * forward - c * right
    return Vehicle(number, "saloon", size, (float(place[0]), float(place[1])), CARRIER.yaw, RED)


def extrinsics(mount: Mount) -> Floats:
    """The reader's way from a mount, as the YAML files have it, to the pose of a camera."""
    return world_from([mount.x, mount.y, mount.z, 0.0, mount.yaw_deg, 0.0])


def owners(vehicles: list[Vehicle], mount: Mount, *more: tuple[Mesh, str]) -> npt.NDArray[np.int32]:
    return stage(*more).look(vehicles, CARRIER.place).owners(CAMERA, camera_pose(CARRIER, mount))


def seen_tile(forward: float, right: float, mount: Mount) -> npt.NDArray[np.bool_]:
    """Return the pixels (H, W) of a tile of 0.6 m on the ground, at metres from the carrier."""
    place = at(forward, right, (0.0, 0.0, 0.0)).place
    tile = patch((-0.3, -0.3, 0), (0.6, 0, 0), (0, 0.6, 0)).moved((*place, 0.0), CARRIER.yaw)
    world = stage((tile, "plain")).look([], CARRIER.place).world
    pose = camera_pose(CARRIER, mount)
    ways = (CAMERA.directions() @ pose[:3, :3].T).astype(np.float32)
    starts = np.broadcast_to(pose[:3, 3].astype(np.float32), ways.shape).copy()
    face = world.rays.closest(starts, ways).face.reshape(600, 800)
    return np.asarray((face >= 0) & (world.material[np.maximum(face, 0)] == atlas().numbers["plain"]))


def middle(pixels: npt.NDArray[np.bool_]) -> Floats:
    """Return the mean column and row of pixels, counted as CARLA does."""
    rows, columns = np.nonzero(pixels)
    return np.array([[columns.mean() + 0.5, rows.mean() + 0.5]])


def predicted_tile(forward: float, right: float, mount: Mount) -> npt.NDArray[np.bool_]:
    """Return the pixels (H, W) whose ray, by the reader's geometry, meets the ground inside the same tile."""
    rows, columns = np.mgrid[0:600, 0:800]
    pixels = np.stack([columns.ravel(), rows.ravel()], 1) + 0.5
    with np.errstate(invalid="ignore"):
        inside = np.abs(on_ground(pixels, K, extrinsics(mount)) - [forward, right]).max(1) < 0.3
    return np.asarray(inside.reshape(600, 800))


#: Camera, and metres forward and right of the vehicle that it sees.
SPOTS = [(0, 8.0, 2.0), (0, 7.5, -2.0), (1, 0.5, 5.0), (1, -2.0, 6.0), (2, 1.0, -5.5), (3, -8.0, 1.5), (3, -7.5, -3.0)]


@pytest.mark.parametrize(("camera", "forward", "right"), SPOTS)
@pytest.mark.parametrize("kind", ["car", "truck"])
def test_ground_points_are_seen_at_their_pixel_and_land_in_their_cell(
    kind: str, camera: int, forward: float, right: float
) -> None:
    mount = MOUNTS[kind][camera]

    seen, predicted = seen_tile(forward, right, mount), predicted_tile(forward, right, mount)

    assert seen.sum() > 100 and (seen != predicted).mean() <= 0.01 * seen.mean()
    pixel = middle(seen)
    center, _ = project(np.array([[forward, right, 0.0]]), K, extrinsics(mount))
    np.testing.assert_allclose(pixel, middle(predicted), atol=0.1)
    np.testing.assert_allclose(pixel, center, atol=2.0)  # near edges look larger, so the middle of a tile is off
    met = on_ground(pixel, K, extrinsics(mount))
    cell = to_cells(met, 256)
    np.testing.assert_allclose(cell, to_cells(np.array([[forward, right]]), 256), atol=1.0)
    drawn = MapDrawer(CARRIER, 256, 50.0).vehicles([at(forward, right, (0.5, 0.5, 0.004))])
    row, column = np.round(cell[0]).astype(int)
    assert drawn[row - 1 : row + 2, column - 1 : column + 2].any()


@pytest.mark.parametrize(("camera", "forward", "right"), SPOTS)
def test_reference_geometry_fails_the_same_test(camera: int, forward: float, right: float) -> None:
    mount = MOUNTS["car"][camera]
    pixel, _ = project(np.array([[forward, right, 0.0]]), K, extrinsics(mount))
    met = on_ground(pixel, K, extrinsics(mount), REFERENCE)
    off = np.abs(to_cells(met, 256) - to_cells(np.array([[forward, right]]), 256)).max()
    assert not off <= 1.0
    # Its cells are mirrored as well: what it believes to lie there is on the other side.
    row, column = np.round(to_cells(np.array([[forward, right]]), 256)[0]).astype(int)
    assert np.abs(cell_centres(256, geometry=REFERENCE)[row, column, 1] - right) > 1.0


def test_right_is_right() -> None:
    right, left = at(1.0, 8.0, (4.0, 1.8, 1.5), 11), at(1.0, -6.0, (4.0, 1.8, 1.5), 12)
    seen = {k: set(np.unique(owners([right, left], MOUNTS["car"][k]))) - {NOTHING} for k in range(4)}
    assert seen[1] == {11} and seen[2] == {12}
    columns = np.nonzero(MapDrawer(CARRIER, 256, 50.0).vehicles([right]))[1]
    assert columns.min() > 128 and 128 + 8 * 2.56 in columns + 0.48


def test_a_known_cuboid_lands_in_known_cells() -> None:
    # 10 m ahead, 4 m to the right, 4 m long, 2 m wide: rows 97.28 to 107.52, columns 135.68 to 140.8.
    drawn = MapDrawer(CARRIER, 256, 50.0).vehicles([at(10.0, 4.0, (4.0, 2.0, 1.5))])
    rows, columns = np.nonzero(drawn)
    # Borders are smoothed: one cell more on each side may be faintly marked.
    assert rows.min() in (96, 97) and rows.max() in (107, 108, 109)
    assert columns.min() in (134, 135) and columns.max() in (141, 142)
    assert (drawn[98:107, 137:140] == 255).all()


def test_vehicles_outside_the_map_are_not_drawn_on_its_border() -> None:
    drawer = MapDrawer(CARRIER, 256, 50.0)
    assert not drawer.vehicles([at(60.0, 0.0, (4.0, 2.0, 1.5)), at(0.0, -55.0, (4.0, 2.0, 1.5))]).any()
    assert drawer.vehicles([at(50.0, 0.0, (4.0, 2.0, 1.5))])[0].any()


def test_what_is_hidden_does_not_count() -> None:
    car = at(20.0, 0.0, (4.0, 1.8, 1.5), 11)
    near = at(10.0, 0.0, (5.0, 2.5, 3.4), 12)
    c, s = np.cos(CARRIER.yaw), np.sin(CARRIER.yaw)
    wall = box((0.5, 30, 6)).moved((CARRIER.place[0] + 8 * c, CARRIER.place[1] + 8 * s, 0), CARRIER.yaw)
    front = MOUNTS["car"][0]

    alone, behind = owners([car], front), owners([car, near], front)

    assert visible([alone], 30) == {11}
    assert visible([behind], 30) == {12}
    assert visible([owners([car], front, (wall, "plain"))], 1) == frozenset()
    count = int((alone == 11).sum())
    assert visible([alone], count) == {11} and visible([alone], count + 1) == frozenset()
    # Pixels of different cameras are not added up.
    assert visible([alone, alone], count + 1) == frozenset()


@pytest.mark.parametrize("kind", SIZES_M)
def test_shapes_fill_their_cuboid_and_stay_in_it(kind: str) -> None:
    vehicle = Vehicle(1, kind, SIZES_M[kind], (0.0, 0.0), 0.0, RED)
    places = merged([mesh for mesh, _ in vehicle_parts(vehicle)]).vertices
    length, width, height = SIZES_M[kind]
    np.testing.assert_allclose(places.max(0), [length / 2, width / 2, height], atol=0.01)
    np.testing.assert_allclose(places.min(0), [-length / 2, -width / 2, 0.0], atol=0.01)


def test_pictures_show_colours_where_vehicles_are() -> None:
    camera = camera_of(80, 60)
    view = stage().look([at(9.0, 0.0, (4.0, 2.0, 2.5))], CARRIER.place)
    pose = camera_pose(CARRIER, MOUNTS["car"][0])
    light, owned = view.picture(camera, pose), view.owners(camera, pose)

    red, rest = light[owned == 7].mean(0), light[owned == NOTHING].mean(0)

    assert light.shape == (60, 80, 3) and np.isfinite(light).all()
    assert red[0] / red[2] > 1.2 > 1.0 > rest[0] / rest[2]


def overlapping(vehicles: list[Vehicle]) -> list[tuple[int, int]]:
    """Pairs whose boxes along the axes overlap; all but parked ones stand along the axes."""
    boxes = [(v.number, v.corners().min(0), v.corners().max(0)) for v in vehicles]
    return [
        (a, b)
        for i, (a, low_a, high_a) in enumerate(boxes)
        for b, low_b, high_b in boxes[i + 1 :]
        if (low_a < high_b - 0.1).all() and (low_b < high_a - 0.1).all()
    ]


@pytest.mark.parametrize("name", CLIENTS)
def test_traffic_never_collides(name: str) -> None:
    kind = client_kind(name)
    for layout in kind.layouts:
        rng = np.random.default_rng(4)
        street = drawn_street(rng, layout, PALETTES[kind.palette], 200.0)
        traffic = drawn_traffic(rng, street, kind, 2)
        for time_s in (0.0, 3.0, 7.5):
            now = traffic.at(time_s)
            near = [v for v in (*now.carriers, *now.others) if abs(v.place[0]) < 120]
            assert overlapping(near) == [], (layout, time_s)
        assert len({v.number for v in (*traffic.carriers, *traffic.others)}) == 2 + len(traffic.others)


def test_vehicles_keep_to_the_road_unless_they_park() -> None:
    kind = client_kind("car_a")
    rng = np.random.default_rng(1)
    street = drawn_street(rng, "junction", PALETTES["noon"], 200.0)
    traffic = drawn_traffic(rng, street, kind, 1)

    def on_road(vehicle: Vehicle) -> bool:
        return any((r.min(0) <= vehicle.place).all() and (vehicle.place <= r.max(0)).all() for r in street.roads)

    assert all(on_road(v) == v.on_road for v in traffic.others if abs(v.place[0]) < 200)
    assert {v.on_road for v in traffic.others} == {True, False}
    assert all(v.place[1] < 0 and v.yaw == 0.0 for v in traffic.carriers)  # traffic keeps to the right


def test_a_carrier_is_not_among_what_it_sees() -> None:
    traffic = Traffic((replace(CARRIER, number=1), replace(CARRIER, number=2)), (replace(CARRIER, number=3),))
    assert [v.number for v in others_of(traffic.carriers[0], traffic)] == [2, 3]


def test_the_two_cars_differ_in_streets_and_look_only() -> None:
    a, b = client_kind("car_a"), client_kind("car_b")
    assert replace(a, layouts=b.layouts, palette=b.palette, share=b.share) == b
    assert not set(a.layouts) & set(b.layouts) and a.palette != b.palette


def test_kinds_name_things_that_exist() -> None:
    for kind in CLIENTS.values():
        assert kind.vehicle in MOUNTS and kind.body in SIZES_M and kind.palette in PALETTES
        assert set(kind.layouts) <= set(PLANS) and set(kind.mix) <= set(SIZES_M)
    assert {"asphalt", "lawn", "facade", "paint", "glass"} <= set(atlas().numbers)
    with pytest.raises(ConfigError, match="no driving client is called 'tram'; known: bus, truck, car_a, car_b"):
        client_kind("tram")
    with pytest.raises(ConfigError, match="no street layout is called 'beach'"):
        drawn_street(np.random.default_rng(0), "beach", PALETTES["noon"], 100.0)
