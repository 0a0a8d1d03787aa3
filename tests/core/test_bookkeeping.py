"""The run on disk: what a snapshot gives back at every step, and which updates are fit to be counted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fed_core.aggregation import run_aggregation
from fed_core.bookkeeping import RunBook
from fed_core.errors import ConfigError, Refusal, StoreError
from fed_core.roles import events as ev
from fed_core.roles.membership import Snapshot
from fed_core.roles.messages import Registration, RunConfig, UpdateReport
from fed_core.types import BlobRef
from fed_core.wire.codec import write_tensors
from tests.core.strategies.harness import SIGNATURE, Weights, descriptor, initial, train

RUN = RunConfig("fedavg", {}, "depth", "toy", {}, {"lr": 0.1}, total_rounds=2, seed=0)


def registration(robot_id: str) -> Registration:
    return Registration(robot_id, "i", False, 1, "0", "depth", "toy", SIGNATURE.digest, 10, f"/{robot_id}/read_blob")


def put(book: RunBook, tensors: Weights) -> BlobRef:
    path = book.store.scratch()
    write_tensors(path, tensors)
    return book.store.put_file(path)


def begun(folder: Path, run: RunConfig = RUN) -> RunBook:
    book = RunBook(folder, "run", run)
    book.save_initial(ev.InitialModel(put(book, initial()), SIGNATURE))
    return book


def report(book: RunBook, robot_id: str = "ana", tensors: Weights | None = None, **changes: Any) -> UpdateReport:
    weights = train(robot_id, initial(), 1) if tensors is None else tensors
    blobs = {"weights": put(book, weights)}
    known = UpdateReport(robot_id, "i", "run", 1, RUN.digest, 10, 0.5, 1.0, blobs)
    return replace(known, **changes)


def close_round(book: RunBook, number: int, reports: tuple[UpdateReport, ...], robots: tuple[str, ...]) -> Any:
    asked = ev.StartAggregation(number, reports, (), robots)
    outcome = run_aggregation(book.plan_aggregation(asked), book.strategy, book.store)
    book.commit(ev.CommitRound(outcome))
    return outcome


def test_a_snapshot_after_every_step_is_what_the_running_aggregator_knows(tmp_path: Path) -> None:
    def seen() -> Snapshot:
        book = RunBook(tmp_path, "run", RUN)  # as after a kill: opened anew beside the running one
        try:
            return book.snapshot()
        finally:
            book.close()

    book = RunBook(tmp_path, "run", RUN)
    assert seen() == Snapshot()
    model = ev.InitialModel(put(book, initial()), SIGNATURE)
    book.save_initial(model)
    assert seen() == Snapshot(initial=model)
    members: tuple[Any, ...] = ()
    for robot_id in ("ana", "ben"):
        book.save_robot(ev.SaveRobot(registration(robot_id), None))
        members = (*members, (registration(robot_id), None))
        assert seen() == Snapshot(model, members)
    outcome = close_round(book, 0, (), ("ana", "ben"))
    assert seen() == Snapshot(model, members, outcome.plan)
    reports: tuple[UpdateReport, ...] = ()
    for robot_id in ("ana", "ben"):
        reports = (*reports, report(book, robot_id, scalars={"kld": 0.5}))
        book.save_update(ev.SaveUpdate(reports[-1]))
        assert seen() == Snapshot(model, members, outcome.plan, {}, reports, {r.robot_id: (1, 1) for r in reports})
    outcome = close_round(book, 1, reports, ("ana", "ben"))
    assert seen() == Snapshot(model, members, outcome.plan, {}, (), {"ana": (1, 1), "ben": (1, 1)})
    second = tuple(report(book, robot_id, round=2) for robot_id in ("ana", "ben"))
    for entry in second:
        book.save_update(ev.SaveUpdate(entry))
    outcome = close_round(book, 2, second, ("ana", "ben"))
    assert outcome.plan.finished
    assert seen() == Snapshot(model, members, outcome.plan, {}, (), {"ana": (2, 2), "ben": (2, 2)})


def test_the_same_aggregation_after_a_restart_gives_the_same_digests(tmp_path: Path) -> None:
    book = begun(tmp_path)
    for robot_id in ("ana", "ben"):
        book.save_robot(ev.SaveRobot(registration(robot_id), None))
    close_round(book, 0, (), ("ana", "ben"))
    reports = (report(book, "ana"), report(book, "ben"))
    for entry in reports:
        book.save_update(ev.SaveUpdate(entry))
    asked = ev.StartAggregation(1, reports, (), ("ana", "ben"))
    first = run_aggregation(book.plan_aggregation(asked), book.strategy, book.store)
    book.close()  # killed before the commit
    again = RunBook(tmp_path, "run", RUN)
    asked = replace(asked, reports=again.snapshot().reports)
    assert run_aggregation(again.plan_aggregation(asked), again.strategy, again.store) == first


def test_blobs_stay_as_long_as_somebody_may_read_them(tmp_path: Path) -> None:
    book, both = begun(tmp_path), ("ana", "ben")
    for robot_id in both:
        book.save_robot(ev.SaveRobot(registration(robot_id), None))
    close_round(book, 0, (), both)
    outcomes, sent = [], set()
    for number in (1, 2):
        reports = tuple(report(book, r, train(r, initial(), number), round=number) for r in both)
        sent |= {entry.blobs["weights"].digest for entry in reports}
        outcomes.append(close_round(book, number, reports, both))
    one, two = outcomes
    kept = {path.name for path in book.store.root.iterdir()}
    start = book.initial()
    assert start is not None
    models = {start.blob.digest, one.plan.blobs["global"].digest, two.plan.blobs["global"].digest}
    assert kept == models | {two.memory.digest, one.memory.digest}
    assert not kept & sent  # aggregated updates are of no more use


def test_a_robot_without_descriptor_is_not_planned_for(tmp_path: Path) -> None:
    run = replace(RUN, strategy="fedepth")
    book = begun(tmp_path, run)
    for place, robot_id in enumerate(("ana", "ben")):
        book.save_robot(ev.SaveRobot(registration(robot_id), descriptor(float(place))))
    close_round(book, 0, (), ("ana", "ben"))
    book.save_robot(ev.SaveRobot(registration("late"), None))  # registers, but its descriptor is not here yet
    outcome = close_round(book, 1, (report(book, "ana"), report(book, "ben")), ("ana", "ben"))
    assert set(outcome.plan.robots) == {"ana", "ben"}
    book.save_robot(ev.SaveRobot(registration("late"), descriptor(0.5)))
    asked = ev.StartAggregation(2, (report(book, "ana"),), ("late",), ("ana", "ben", "late"))
    plan = run_aggregation(book.plan_aggregation(asked), book.strategy, book.store).plan
    assert set(plan.robots) == {"ana", "ben", "late"}


# ---- checking updates ------------------------------------------------------------------------------------------------


def changed(name: str, value: Any) -> Weights:
    tensors = train("ana", initial(), 1)
    tensors[name] = np.asarray(value)
    return tensors


def without(name: str) -> Weights:
    return {key: array for key, array in train("ana", initial(), 1).items() if key != name}


def test_accepts_a_good_update(tmp_path: Path) -> None:
    book = begun(tmp_path)
    good = report(book)
    assert book.check(ev.CheckUpdate(good)) == ev.UpdateChecked(good, Refusal.ACCEPTED)


@pytest.mark.parametrize(
    ("tensors", "code", "words"),
    [
        (changed("bn.weight", np.array([1, np.nan, 1], np.float32)), Refusal.NOT_FINITE, "'bn.weight' holds nan"),
        (changed("conv.bias", np.array([1, 1, np.inf], np.float16)), Refusal.NOT_FINITE, "'conv.bias' holds inf"),
        (without("bn.weight"), Refusal.WRONG_TENSORS, "tensor 'bn.weight' is missing"),
        (changed("backdoor", np.ones(1)), Refusal.WRONG_TENSORS, "tensor 'backdoor' is not part of what was agreed"),
        (changed("bn.weight", np.ones(4, np.float32)), Refusal.WRONG_TENSORS, "[4] should be 'bn.weight' float32 [3]"),
        (changed("bn.weight", np.ones(3)), Refusal.WRONG_TENSORS, "float64 [3] should be 'bn.weight' float32"),
        (
            changed("attention.index", np.arange(4)[::-1].copy()),
            Refusal.WRONG_TENSORS,
            "tensor 'attention.index' is a constant of the network, but differs from the initial model's; use one ver",
        ),
    ],
)
def test_refuses_tensors_that_must_not_reach_an_aggregation(
    tmp_path: Path, tensors: Weights, code: Refusal, words: str
) -> None:
    book = begun(tmp_path)
    answer = book.check(ev.CheckUpdate(report(book, tensors=tensors)))
    assert answer.code is code
    assert words in answer.text


def test_counters_may_grow(tmp_path: Path) -> None:
    book = begun(tmp_path)
    grown = report(book, tensors=changed("bn.num_batches_tracked", np.array(99, np.int64)))
    assert book.check(ev.CheckUpdate(grown)).code is Refusal.ACCEPTED


def test_refuses_broken_bytes_masks_of_another_length_and_extras_that_are_not_finite(tmp_path: Path) -> None:
    book = begun(tmp_path)
    path = book.store.scratch()
    path.write_bytes(b"\x00" * 40)
    broken = replace(report(book), blobs={"weights": book.store.put_file(path)})
    assert book.check(ev.CheckUpdate(broken)).code is Refusal.BROKEN_BLOB
    digest = book.initial().signature.digest  # type: ignore[union-attr]
    answer = book.check(ev.CheckUpdate(report(book, mask=np.ones(3, bool), model_digest=digest)))
    assert (answer.code, "one bit per unit" in answer.text) == (Refusal.WRONG_TENSORS, True)
    good = report(book)
    extras = put(book, {"control": np.array([np.nan])})
    answer = book.check(ev.CheckUpdate(replace(good, blobs={**good.blobs, "extras": extras})))
    assert (answer.code, "'control' holds nan" in answer.text) == (Refusal.NOT_FINITE, True)


@pytest.mark.parametrize(("digest", "told"), [("f" * 64, "f" * 12), ("", r"(none)")])
def test_refuses_a_mask_of_another_model_even_where_it_is_as_long(tmp_path: Path, digest: str, told: str) -> None:
    book = begun(tmp_path)
    signature = book.initial().signature  # type: ignore[union-attr]
    mask = np.ones(len(book.strategy.units(signature)), bool)
    own = book.check(ev.CheckUpdate(report(book, mask=mask, model_digest=signature.digest)))
    other = book.check(ev.CheckUpdate(report(book, mask=mask, model_digest=digest)))
    assert own.code is Refusal.ACCEPTED
    assert other.code is Refusal.WRONG_MODEL
    expected = f"the mask belongs to model {told}, this run learns {signature.digest[:12]}; use one network and version"
    assert other.text.startswith(expected)


def test_figures_that_are_not_finite_do_not_stop_the_run(tmp_path: Path) -> None:
    book = begun(tmp_path)
    odd = report(book, loss=float("nan"), scalars={"kld": float("inf"), "norm": 2.0})
    book.save_update(ev.SaveUpdate(odd))
    assert {(name, value) for _, _, name, value in book._journal.metrics()} == {
        ("norm", 2.0), ("seconds", 1.0), ("num_samples", 10.0)
    }  # fmt: skip


# ---- mistakes --------------------------------------------------------------------------------------------------------


def test_tells_mistakes_in_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no strategy is called 'fedmagic'; known: .*fedavg"):
        RunBook(tmp_path / "a", "run", replace(RUN, strategy="fedmagic"))
    with pytest.raises(ConfigError, match="strategy fedavg: unknown key 'tau'"):
        RunBook(tmp_path / "b", "run", replace(RUN, strategy_options={"tau": 1}))
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the run folder .*file"):
        RunBook(tmp_path / "file", "run", RUN)
    begun(tmp_path / "c").close()
    with pytest.raises(StoreError, match="another configuration"):
        RunBook(tmp_path / "c", "run", replace(RUN, total_rounds=3))
