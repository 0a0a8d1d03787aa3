"""Which updates the aggregator reads and counts, and in what words it refuses the others."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fed_core.errors import Refusal, WireError
from fed_core.roles import events as ev
from fed_core.roles.messages import (
    UpdateReport,
)
from tests.core.roles.bench import Bench
from tests.core.roles.fake_fleet import blob, report_of

# ---- updates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"round": 2}, Refusal.WRONG_ROUND, "update of round 2, the current round is 1"),
        ({"config_digest": "0" * 64}, Refusal.WRONG_MODEL, "trained under another configuration"),
        ({"instance": "thief"}, Refusal.UNKNOWN_ROBOT, "not registered"),
        ({"blobs": {"weights": replace(blob("w"), size_bytes=10**6 + 1)}}, Refusal.TOO_LARGE, "1000001 bytes, at most"),
    ],
)
def test_refuses_reports_before_anything_is_read(changes: dict[str, Any], code: Refusal, words: str) -> None:
    bench = Bench(max_update_bytes=10**6)
    plan = bench.training()
    bench.feed(report_of(plan, "ana", **changes))
    assert "FetchBlob" not in bench.kinds()
    bench.assert_refused(code, words)


def test_weights_and_extras_are_too_large_together() -> None:
    bench = Bench(max_update_bytes=199)
    plan = bench.training()
    bench.feed(report_of(plan, "ana", blobs={"weights": blob(1), "extras": blob(2)}))
    bench.assert_refused(Refusal.TOO_LARGE, "update of 200 bytes, at most 199 are read")


def test_an_outsider_of_the_round_is_told_so() -> None:
    bench = Bench()
    plan = bench.training()
    bench.register("late")
    bench.feed(report_of(plan, "late"))
    bench.assert_refused(Refusal.NOT_A_PARTICIPANT, "not a participant of round 1", robot_id="late")


def test_a_report_of_a_stranger_or_another_run_is_dropped() -> None:
    bench = Bench()
    plan = bench.training()
    bench.feed(report_of(plan, "zoe"))
    assert "UNKNOWN_ROBOT" in bench.one(ev.Log).text
    assert bench.feed(report_of(plan, "ana", run_id="yesterday")) == []


def test_a_report_must_name_weights_and_samples() -> None:
    with pytest.raises(WireError, match=r"report of 'a' names blobs \['other'\]; expected weights, extras"):
        UpdateReport("a", "i", "run", 1, "", 1, 0.0, 0.0, {"other": blob(1)})
    with pytest.raises(WireError, match="report of 'a' counts 0 samples") as err:
        UpdateReport("a", "i", "run", 1, "", 0, 0.0, 0.0, {"weights": blob(1)})
    assert err.value.code is Refusal.NO_SAMPLES


def test_an_update_is_checked_once_all_its_blobs_are_there_and_counted_once() -> None:
    bench = Bench()
    plan = bench.training()
    report = report_of(plan, "ana", blobs={"weights": blob(1), "extras": blob(2)}, mask=np.array([True, False]))
    bench.feed(report)
    assert [effect.blob for effect in bench.effects] == [blob(1), blob(2)]
    assert bench.feed(report) == []  # on its way already
    assert bench.feed(ev.BlobReady(blob(1).digest)) == []
    assert bench.feed(ev.BlobReady(blob(1).digest)) == []
    bench.feed(ev.BlobReady(blob(2).digest))
    assert bench.one(ev.CheckUpdate).report is report
    bench.feed(ev.UpdateChecked(report, Refusal.ACCEPTED))
    assert bench.one(ev.SaveUpdate).report is report
    assert bench.feed(ev.UpdateChecked(report, Refusal.ACCEPTED)) == []
    assert bench.feed(report) == []  # latched: it comes again after every restart of a reader
    robot = bench.robot()
    assert (robot.reported, robot.updates, robot.refused) == (True, 1, 0)


@pytest.mark.parametrize("code", [Refusal.NOT_FINITE, Refusal.WRONG_TENSORS])
def test_a_bad_update_is_dropped_and_a_good_one_may_follow(code: Refusal) -> None:
    bench = Bench()
    plan = bench.training()
    bad, good = report_of(plan, "ana"), report_of(plan, "ana", blobs={"weights": blob("again")})
    bench.feed(bad)
    bench.feed(ev.BlobReady(bad.blobs["weights"].digest))
    bench.feed(ev.UpdateChecked(bad, code, "tensor 'w' holds nan at element 0"))
    assert "SaveUpdate" not in bench.kinds()
    bench.assert_refused(code, "tensor 'w' holds nan at element 0")
    bench.count(good)
    assert bench.one(ev.SaveUpdate).report is good


def test_a_newer_report_replaces_the_one_that_is_being_read() -> None:
    bench = Bench()
    plan = bench.training()
    first = report_of(plan, "ana", blobs={"weights": blob(1), "extras": blob(9)})
    second = report_of(plan, "ana", blobs={"weights": blob(2), "extras": blob(9)})
    bench.feed(first)
    bench.feed(second)
    assert bench.one(ev.CancelFetch).digest == blob(1).digest  # both need 9
    bench.feed(ev.BlobReady(blob(1).digest))
    bench.feed(ev.UpdateChecked(first, Refusal.ACCEPTED))
    assert bench.effects == []  # the check of the first one comes too late
    bench.feed(ev.BlobReady(blob(2).digest))
    bench.feed(ev.BlobReady(blob(9).digest))
    assert bench.one(ev.CheckUpdate).report is second


def test_a_failed_blob_drops_the_update_and_cancels_its_other_blob() -> None:
    bench = Bench()
    plan = bench.training()
    bench.feed(report_of(plan, "ana", blobs={"weights": blob(1), "extras": blob(2)}))
    bench.feed(ev.BlobFailed(blob(1).digest, Refusal.BROKEN_BLOB, "the bytes are wrong"))
    assert bench.one(ev.CancelFetch).digest == blob(2).digest
    bench.assert_refused(Refusal.BROKEN_BLOB, "the bytes are wrong")
    bench.feed(report_of(plan, "ana", blobs={"weights": blob(1), "extras": blob(2)}))
    assert "FetchBlob" in bench.kinds()  # the same report may come again


def test_a_blob_that_two_robots_share_is_not_cancelled_for_the_other() -> None:
    bench = Bench()
    plan = bench.training()
    bench.feed(report_of(plan, "ana", blobs={"weights": blob(1), "extras": blob(2)}))
    bench.feed(report_of(plan, "ben", blobs={"weights": blob(3), "extras": blob(2)}))
    bench.feed(ev.BlobFailed(blob(1).digest, Refusal.BROKEN_BLOB, "gone"))
    assert "CancelFetch" not in bench.kinds()
