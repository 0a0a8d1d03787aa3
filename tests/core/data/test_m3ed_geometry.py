"""Time pairing, poses, projection: hand-computed, or against OpenCV and the true plane."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fed_core.data.m3ed import geometry
from fed_core.data.m3ed.calibration import CameraCalibration
from fed_core.data.m3ed.pairing import TimePair, dt_histogram, pair_times
from fed_core.data.m3ed.poses import PoseTrack, inverse
from fed_core.errors import DataError
from tests.core.data import m3ed_fixture as made

NAN = np.nan
IMAGES_US = 40_000 * np.arange(12, dtype=np.int64)
EXAMPLE_US = np.array(made.EXAMPLE_US)


def camera(made_camera: made.Camera, name: str = "cam") -> CameraCalibration:
    return CameraCalibration(
        name,
        made_camera.intrinsics,  # type: ignore[arg-type]
        made_camera.distortion,  # type: ignore[arg-type]
        made_camera.width,
        made_camera.height,
        made_camera.to_event_left,
    )


def f32(rows: list[list[float]]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_strict_pairing_keeps_the_first_and_third_example() -> None:
    assert pair_times(EXAMPLE_US, IMAGES_US, 5_000) == [TimePair(0, 2, -1938), TimePair(2, 7, -1800)]


def test_pose_pairing_keeps_all_four_examples() -> None:
    pairs = pair_times(EXAMPLE_US, IMAGES_US, 20_000)
    assert [(p.depth, p.image, p.dt_us) for p in pairs] == [
        (0, 2, -1938),
        (1, 5, 18083),
        (2, 7, -1800),
        (3, 10, 18278),
    ]


def test_tolerance_is_inclusive_and_an_image_serves_once() -> None:
    assert pair_times(np.array([5_000]), np.array([0]), 5_000) == [TimePair(0, 0, -5_000)]
    assert pair_times(np.array([39_000, 41_500]), IMAGES_US, 5_000) == [TimePair(0, 1, 1_000)]


def test_histogram_counts_all_depth_maps() -> None:
    histogram = dt_histogram(EXAMPLE_US, IMAGES_US, (2.0, 5.0, 18.1))
    assert histogram.counts == (2, 0, 1, 1)
    assert str(histogram) == "<=2 ms 2, <=5 ms 0, <=18.1 ms 1, more 1"


def test_poses_between_and_beyond_the_measured_ones() -> None:
    times = np.array([100_000, 200_000, 300_000])
    # The camera turns about its own y axis while its centre moves along x.
    world = [made.rigid((0, angle, 0), (shift, 0, 0)) for angle, shift in ((0.0, 10.0), (10.0, 12.0), (20.0, 14.0))]
    track = PoseTrack(times, np.stack([np.linalg.inv(pose) for pose in world]), "poses")
    for time_us, angle, shift in (
        (150_000, 5.0, 11.0),
        (300_000, 20.0, 14.0),
        (90_000, -1.0, 9.8),
        (310_000, 21.0, 14.2),
    ):
        np.testing.assert_allclose(inverse(track.at(time_us)), made.rigid((0, angle, 0), (shift, 0, 0)), atol=1e-9)
    np.testing.assert_allclose(track.motion(150_000, 150_000), np.eye(4), atol=1e-12)
    motion = track.motion(100_000, 200_000)
    np.testing.assert_allclose(motion @ [10.0, 0, 0, 1], track.at(200_000) @ [20.0, 0, 0, 1], atol=1e-9)


@given(
    st.lists(st.floats(-0.5, 0.5), min_size=18, max_size=18),
    st.integers(-20_000, 220_000),
    st.integers(-20_000, 220_000),
)
def test_motion_there_and_back_is_none(numbers: list[float], start_us: int, end_us: int) -> None:
    def pose(turn: list[float], shift: list[float]) -> np.ndarray:
        return made.rigid(tuple(np.degrees(turn)), tuple(shift))  # type: ignore[arg-type]

    poses = np.stack([pose(numbers[i : i + 3], numbers[i + 3 : i + 6]) for i in (0, 6, 12)])
    track = PoseTrack(np.array([0, 100_000, 200_000]), poses, "poses")
    there, back = track.motion(start_us, end_us), track.motion(end_us, start_us)
    np.testing.assert_allclose(there @ back, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(there[:3, :3] @ there[:3, :3].T, np.eye(3), atol=1e-9)


def test_one_pose_stands_still() -> None:
    track = PoseTrack(np.array([5]), np.eye(4)[None], "poses")
    np.testing.assert_array_equal(track.motion(5, 20_000), np.eye(4))


def test_broken_poses_are_one_line() -> None:
    with pytest.raises(DataError, match=r"poses has shape \(1, 4, 4\); 2 times need \(2, 4, 4\)"):
        PoseTrack(np.array([0, 1]), np.eye(4)[None], "poses")
    with pytest.raises(DataError, match="poses holds numbers that are not finite; use pairing: strict"):
        PoseTrack(np.array([0]), np.full((1, 4, 4), NAN), "poses")


def test_projection_agrees_with_opencv_and_undoes_the_rays() -> None:
    for made_camera in (made.RGB, made.EVENT_LEFT):
        cam = camera(made_camera)
        points = np.concatenate([cam.rays().reshape(-1, 2), np.ones((cam.width * cam.height, 1))], axis=1) * 3.0
        expected, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), cam.matrix, np.array(cam.distortion))
        pixels = cam.project(points)
        np.testing.assert_allclose(pixels, expected[:, 0], atol=1e-3)
        rows, columns = np.mgrid[: cam.height, : cam.width]
        np.testing.assert_allclose(pixels, np.stack([columns.ravel(), rows.ravel()], axis=1), atol=1e-3)


def test_points_behind_the_camera_or_beyond_the_fold_are_not_seen() -> None:
    # 1 - 0.3 s = 0 at s = 10/3 with k1 = -0.1: outer rays would come back into the image.
    cam = CameraCalibration("cam", (10.0, 10.0, 5.0, 5.0), (-0.1, 0.0, 0.0, 0.0), 11, 11, np.eye(4))
    pixels = cam.project(np.array([[0.0, 0, -2], [1.8, 0, 1], [1.9, 0, 1], [0.0, 0, 2]]))
    assert np.isnan(pixels[0]).all() and np.isnan(pixels[2]).all()
    np.testing.assert_allclose(pixels[1], [5 + 10 * 1.8 * (1 - 0.1 * 3.24), 5.0], rtol=1e-6)
    np.testing.assert_allclose(pixels[3], [5.0, 5.0])


@pytest.mark.parametrize(("depth_us", "image_us"), [(181_917, 200_000), (281_800, 280_000)])
def test_plane_lands_within_half_a_pixel(depth_us: int, image_us: int) -> None:
    event, rgb = camera(made.EVENT_LEFT), camera(made.RGB)
    times = np.array(made.DEPTH_US)
    track = PoseTrack(times, np.stack([made.pose_at(float(t)) for t in times]), "poses")
    depth = made.plane_depth(made.EVENT_LEFT, depth_us).astype(np.float32)
    points = geometry.points_of(depth, event.rays())
    moved = geometry.moved(points, inverse(rgb.to_event_left) @ track.motion(depth_us, image_us))
    # The truth: the plane's points in the world, seen by the colour camera at the time of the image.
    seen = made.rays(made.EVENT_LEFT).reshape(-1, 3) * made.plane_depth(made.EVENT_LEFT, depth_us).reshape(-1, 1)
    world = np.linalg.inv(made.pose_at(depth_us)) @ np.c_[seen, np.ones(len(seen))].T
    truth = (np.linalg.inv(made.RGB.to_event_left) @ made.pose_at(image_us) @ world)[:3].T
    expected, _ = cv2.projectPoints(truth, np.zeros(3), np.zeros(3), rgb.matrix, np.array(rgb.distortion))
    assert np.abs(rgb.project(moved) - expected[:, 0]).max() < 0.05  # half a pixel is asked for
    # The map: away from a pixel's middle the plane differs by at most half a pixel of its slope.
    splatted = geometry.splat(moved, rgb)
    true_map = made.plane_depth(made.RGB, image_us)
    slope = np.abs(np.gradient(true_map, axis=0)) + np.abs(np.gradient(true_map, axis=1))
    known = np.isfinite(splatted)
    assert known.mean() > 0.6
    assert (np.abs(splatted - true_map)[known] <= 0.5 * slope[known] + 0.005).all()


def test_missing_depth_has_many_faces() -> None:
    raw = f32([[np.inf, -np.inf, NAN, 0.0], [0.1, 0.0999, 80.0, 80.1]])
    np.testing.assert_array_equal(geometry.usable_depth(raw, 0.1, 80.0), f32([[NAN] * 4, [0.1, NAN, 80.0, NAN]]))
    np.testing.assert_array_equal(geometry.usable_depth(f32([[0.0, -1.0, np.inf, 9]]), 0.0, np.inf), [[NAN] * 3 + [9]])


def test_nearest_point_wins_a_pixel() -> None:
    cam = CameraCalibration("cam", (1.0, 1.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0), 3, 1, np.eye(4))
    points = f32([[0, 0, 5], [0.4, 0, 2], [0, 0, 9], [-3, 0, 3], [9, 0, 1]])  # columns 1, 1 (1.2), 1, 0, outside
    np.testing.assert_array_equal(geometry.splat(points, cam), f32([[3, 2, NAN]]))


def test_gaps_take_the_nearest_neighbour_and_known_pixels_stay() -> None:
    depth = f32([[5, NAN, NAN, NAN], [NAN, 3, NAN, NAN]])
    np.testing.assert_array_equal(geometry.fill_gaps(depth), f32([[5, 3, 3, NAN], [3, 3, 3, NAN]]))


def test_halving_takes_the_mean_colour_and_the_nearest_depth() -> None:
    rgb = np.array([[0, 4, 9], [8, 8, 9], [9, 9, 9]], dtype=np.uint8)[..., None].repeat(3, axis=2)
    np.testing.assert_array_equal(geometry.halve_rgb(rgb, (1, 1)), [[[5, 5, 5]]])
    depth = f32([[5, NAN, NAN, NAN], [4, 7, NAN, NAN]])
    np.testing.assert_array_equal(geometry.halve_depth(depth, (2, 1)), f32([[4, NAN]]))


def test_output_size_of_the_published_and_of_small_cameras() -> None:
    def size(width: int, height: int) -> tuple[int, int]:
        cam = CameraCalibration("cam", (1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), width, height, np.eye(4))
        return geometry.output_size(cam, 640, 384)

    assert size(1280, 800) == (640, 384)
    assert size(1280, 720) == (640, 352)
    assert size(128, 80) == (64, 32)
    assert size(40, 30) == (20, 15)


def test_colour_turned_to_the_event_camera_is_right_far_away_only() -> None:
    # Equal cameras; the colour camera stands 1 m to the right: at infinity nothing moves.
    distortion = (0.0, 0.0, 0.0, 0.0)
    cam = CameraCalibration("cam", (4.0, 4.0, 1.5, 1.0), distortion, 4, 3, made.rigid((0, 0, 0), (1.0, 0, 0)))
    rgb = np.random.default_rng(0).integers(0, 255, (3, 4, 3), dtype=np.uint8)
    turned, inside = geometry.colour_to_event(rgb, cam, cam.rays())
    np.testing.assert_array_equal(turned, rgb)
    assert inside.all()
    # Turned by 90 degrees about the optical axis: the middle column stays, the outer ones look past the image.
    turned, inside = geometry.colour_to_event(
        rgb,
        CameraCalibration("cam", (4.0, 4.0, 1.5, 1.0), distortion, 4, 3, made.rigid((0, 0, 90), (0, 0, 0))),
        cam.rays(),
    )
    assert not inside.all() and inside[1, 1]
