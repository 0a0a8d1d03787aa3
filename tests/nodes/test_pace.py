"""When the next frame of a replay is due."""

import math

import pytest

from fed_nodes.playing.pace import Pace

S = 1_000_000_000


def test_fixed_rate_has_no_drift() -> None:
    pace = Pace(rate_hz=4.0, speed=0.0)
    assert pace.wait_s(7 * S, 100.0) == 0.0
    pace.played(7 * S, 100.0)
    assert pace.wait_s(99 * S, 100.0) == pytest.approx(0.25)  # whatever was recorded
    pace.played(99 * S, 100.3)  # 50 ms late
    assert pace.wait_s(0, 100.3) == pytest.approx(0.2)


def test_recorded_spacing_times_speed() -> None:
    pace = Pace(rate_hz=10.0, speed=2.0)
    pace.played(5 * S, 10.0)
    assert pace.wait_s(8 * S, 10.0) == pytest.approx(1.5)
    pace.played(8 * S, 11.5)
    pace.change(10.0, 0.5)
    assert pace.wait_s(9 * S, 12.0) == pytest.approx(1.5)


def test_breaks_between_recordings_are_not_waited_for() -> None:
    pace = Pace(rate_hz=10.0, speed=1.0)
    pace.played(500 * S, 10.0)
    assert pace.wait_s(20 * S, 10.0) == 0.0  # back
    assert pace.wait_s(561 * S, 10.0) == 0.0
    assert pace.wait_s(559 * S, 10.0) == pytest.approx(59.0)
    endless = Pace(rate_hz=10.0, speed=1.0, longest_pause_s=math.inf)
    endless.played(500 * S, 10.0)
    assert endless.wait_s(561 * S, 10.0) == pytest.approx(61.0)


def test_who_is_far_behind_goes_on_from_now() -> None:
    pace = Pace(rate_hz=10.0, speed=1.0)
    pace.played(0, 10.0)
    pace.played(1 * S, 15.0)  # four seconds late
    assert pace.wait_s(2 * S, 15.0) == pytest.approx(1.0)


def test_after_a_stop_the_next_frame_is_due_at_once() -> None:
    pace = Pace(rate_hz=0.5, speed=0.0)
    pace.played(0, 10.0)
    assert pace.wait_s(1, 10.0) == pytest.approx(2.0)
    pace.restart()
    assert pace.wait_s(1, 10.0) == 0.0


def test_a_loop_has_a_short_pause_before_it_begins_anew() -> None:
    pace = Pace(rate_hz=4.0, speed=1.0)
    pace.played(5 * S, 10.0)
    pace.loop(10.0)
    assert pace.wait_s(5 * S, 10.0) == pytest.approx(0.1)
    assert pace.wait_s(5 * S, 10.2) == 0.0
    fixed = Pace(rate_hz=4.0, speed=0.0)
    fixed.played(5 * S, 10.0)
    fixed.loop(10.0)
    assert fixed.wait_s(5 * S, 10.0) == pytest.approx(0.25)
