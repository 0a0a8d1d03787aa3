"""Where one sequence ends and the next begins."""

import numpy as np
from std_msgs.msg import Header

from fed_core.roles import events as ev
from fed_nodes.convert.images import to_stamp
from fed_nodes.live.sequences import SequenceCutter

YEAR_NS = 31_556_952 * 1_000_000_000


def add(cutter: SequenceCutter, time_ns: int, level: int = 0) -> list[ev.Event]:
    return cutter.add(Header(stamp=to_stamp(time_ns), frame_id=f"at_{time_ns}"), [np.full((2, 2, 3), level, np.uint8)])


def test_first_images_are_kept_and_announced_once() -> None:
    cutter = SequenceCutter(gap_s=5.0, num_frames=2)
    assert add(cutter, 0) == [ev.SequenceStarted("sequence_1")]
    assert add(cutter, 1) == [ev.FramesReady("sequence_1")]
    assert add(cutter, 2) == []
    assert len(cutter.images) == 2 and cutter.first.frame_id == "at_0"


def test_a_jump_of_time_either_way_cuts_and_a_gap_does_not() -> None:
    cutter = SequenceCutter(gap_s=5.0, num_frames=8)
    times = [20 * YEAR_NS, 20 * YEAR_NS + 5 * 10**9, 20 * YEAR_NS + 10 * 10**9 + 1, 10 * YEAR_NS]
    names = [[e.name for e in add(cutter, t) if isinstance(e, ev.SequenceStarted)] for t in times]
    assert names == [["sequence_1"], [], ["sequence_2"], ["sequence_3"]]
    assert cutter.first.frame_id == f"at_{10 * YEAR_NS}"


def test_the_gap_may_change_while_a_sequence_runs() -> None:
    cutter = SequenceCutter(gap_s=5.0, num_frames=8)
    add(cutter, 10 * YEAR_NS)
    assert add(cutter, 10 * YEAR_NS + 3 * 10**9) == []
    cutter.gap_s = 2.0
    assert add(cutter, 10 * YEAR_NS + 6 * 10**9) == [ev.SequenceStarted("sequence_2")]


def test_a_short_sequence_does_with_what_it_has() -> None:
    cutter = SequenceCutter(gap_s=5.0, num_frames=8)
    assert cutter.silent() == []
    add(cutter, 0)
    assert cutter.silent() == []  # one image cannot be described
    add(cutter, 1)
    assert cutter.silent() == [ev.FramesReady("sequence_1")]
    assert cutter.silent() == [] and add(cutter, 2) == [] and len(cutter.images) == 2  # told once, then left alone
    cutter.cut()
    assert add(cutter, 3) == [ev.SequenceStarted("sequence_2")] and len(cutter.images) == 1


def test_pictures_are_taken_once_and_then_let_go() -> None:
    cutter = SequenceCutter(gap_s=5.0, num_frames=2)
    add(cutter, 0, 3)
    assert not cutter.is_announced
    add(cutter, 1, 4)
    assert [int(image.max()) for image in cutter.take()] == [3, 4]
    assert cutter.is_announced and cutter.images == [] and cutter.silent() == []
    assert add(cutter, 2) == [] and cutter.images == []
    cutter.cut()
    add(cutter, 3, 5)
    assert not cutter.is_announced and [int(image.max()) for image in cutter.take()] == [5]


def test_a_person_cuts() -> None:
    cutter = SequenceCutter(gap_s=5.0, num_frames=1)
    assert add(cutter, 0) == [ev.SequenceStarted("sequence_1"), ev.FramesReady("sequence_1")]
    cutter.cut()
    assert add(cutter, 1, 7) == [ev.SequenceStarted("sequence_2"), ev.FramesReady("sequence_2")]
    assert cutter.images[0].max() == 7 and add(cutter, 2) == []


def test_a_sample_of_several_cameras_counts_once_and_shows_all_pictures() -> None:
    cutter = SequenceCutter(gap_s=5.0, num_frames=2)
    pictures = [np.full((2, 2, 3), camera, np.uint8) for camera in range(4)]

    assert cutter.add(Header(stamp=to_stamp(0)), pictures) == [ev.SequenceStarted("sequence_1")]
    assert cutter.add(Header(stamp=to_stamp(1)), pictures) == [ev.FramesReady("sequence_1")]
    assert [int(image[0, 0, 0]) for image in cutter.images] == [0, 1, 2, 3, 0, 1, 2, 3]
