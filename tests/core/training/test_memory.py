"""Out of memory in a step: the same samples in parts make the same step; what does not help is said."""

import logging
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fed_core.strategies.base import LocalRule, LocalState, make_strategy
from fed_core.tasks.depth.task import DepthTask
from fed_core.training.divergence import Measure, shared_divergence
from fed_core.training.local import TrainOutcome, train
from fed_core.training.memory import SMALLEST_PART, in_parts, is_out_of_memory
from fed_core.training.options import TrainConfig
from tests.core.training.test_local import PLAIN, prepared, state_of
from tests.core.training.tiny import TinyDepth, signature, state_arrays, tiny

CPU_TEXT = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000 bytes."


class SmallMemory(DepthTask):
    """Has memory for so many samples at once."""

    def __init__(self, most: int, error: Exception | None = None, *, in_backward: bool = False) -> None:
        self._most, self._error, self._in_backward = most, error or RuntimeError(CPU_TEXT), in_backward
        self.tried: list[int] = []

    def forward(self, network: Any, batch: Any) -> Any:
        size = len(batch.depth)
        self.tried.append(size)
        outputs = super().forward(network, batch)
        if size > self._most:
            if not self._in_backward:
                raise self._error
            outputs.depth.register_hook(self._fail)
        return outputs

    def _fail(self, gradient: torch.Tensor) -> None:
        raise self._error


def run(
    task: DepthTask, network: TinyDepth, config: TrainConfig = PLAIN, *, count: int = 8, rule: LocalRule | None = None
) -> TrainOutcome:
    return train(task, prepared(count, network), config, rule or LocalRule(), state_of(network, config.lr), seed=1)


def steady(seed: int = 0) -> TinyDepth:
    """A network in which samples do not depend on each other, nor on chance."""
    network = tiny(seed)
    network.encoder[1] = torch.nn.Identity()  # type: ignore[assignment]
    network.drop = torch.nn.Identity()  # type: ignore[assignment]
    return network


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [(8, 9, [8]), (8, 4, [4, 4]), (9, 4, [3, 3, 3]), (5, 2, [2, 3]), (3, 2, [3]), (1, 9, [1]), (2, 2, [2])],
)
def test_parts_by_hand(count: int, most: int, sizes: list[int]) -> None:
    assert [len(part) for part in in_parts(range(count), most)] == sizes


@given(st.integers(1, 200), st.integers(SMALLEST_PART, 200))
def test_parts_hold_every_sample_once_in_order(count: int, most: int) -> None:
    parts = in_parts(list(range(count)), most)

    assert [index for part in parts for index in part] == list(range(count))
    sizes = [len(part) for part in parts]
    assert max(sizes) <= max(most + count % 2, min(count, 3)) and max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(count, SMALLEST_PART)


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError(CPU_TEXT), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("expected scalar type Float but found Half"), False),
    ],
)
def test_errors_of_memory_are_known(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_batch_in_parts_makes_the_step_of_the_whole_one(in_backward: bool) -> None:
    """The loss of depth is a mean over samples, so that of the parts, by their share, is that of the batch."""
    whole, cut = steady(), steady()
    start = state_arrays(whole)
    config = replace(PLAIN, optimizer="sgd", max_steps=1)
    task = SmallMemory(2, in_backward=in_backward)

    expected, found = run(DepthTask(), whole, config), run(task, cut, config)

    assert task.tried == [4, 2, 2] and found.steps == expected.steps == 1
    assert found.loss == pytest.approx(expected.loss, rel=1e-6)
    for name, array in state_arrays(whole).items():
        assert not np.array_equal(array, start[name])
        np.testing.assert_allclose(state_arrays(cut)[name], array, rtol=1e-5, atol=1e-7)


def test_it_is_said_once_a_round_and_later_batches_are_cut_from_the_start(caplog: pytest.LogCaptureFixture) -> None:
    task = SmallMemory(2, MemoryError())
    config = replace(PLAIN, batch_size=8, local_epochs=2)
    with caplog.at_level(logging.WARNING):
        outcome = run(task, tiny(), config, count=8)

    assert task.tried == [8, 4, *[2] * 8] and outcome.steps == 2
    assert [record.getMessage() for record in caplog.records] == [
        "out of memory with 8 samples at once; this round goes on with 4 at once, in the same steps",
        "out of memory with 4 samples at once; this round goes on with 2 at once, in the same steps",
    ]
    run(task, tiny(), config)
    assert task.tried[10:12] == [8, 4]  # the next round tries again, there may be more room


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory."), RuntimeError(CPU_TEXT)]
)
def test_the_smallest_batch_fails_as_it_always_did(error: Exception) -> None:
    task = SmallMemory(1, error)
    with pytest.raises(type(error)) as caught:
        run(task, tiny())
    assert caught.value is error and task.tried == [4, 2]


def test_other_errors_are_not_tried_again() -> None:
    task = SmallMemory(1, RuntimeError("expected scalar type Float but found Half"))
    with pytest.raises(RuntimeError, match="scalar type"):
        run(task, tiny())
    assert task.tried == [4]


def test_hooks_of_the_step_are_called_once_and_losses_know_their_share() -> None:
    calls: list[Any] = []

    class Watching(LocalRule):
        def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
            calls.append(state.share)
            return task_loss

        def correct_gradient(self, state: LocalState) -> None:
            calls.append("gradient")

        def after_step(self, state: LocalState) -> None:
            calls.append("after")

    run(SmallMemory(3), tiny(), replace(PLAIN, batch_size=5, max_steps=1), rule=Watching())

    assert calls == [0.4, 0.6, "gradient", "after"]


def test_each_part_of_a_step_has_a_divergence_of_its_own() -> None:
    network, values = tiny(), []

    class Measuring(LocalRule):
        def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
            measured = shared_divergence(state, Measure())
            values.append([float(measured.of_step(state, batch, outputs)) for _ in range(2)])
            return task_loss

    state = state_of(network)
    state.forward = DepthTask().forward
    config = replace(PLAIN, max_steps=1)
    train(SmallMemory(2), prepared(8, network), config, Measuring(), state, seed=1)

    (first, again), (second, again_second) = values
    assert first == again and second == again_second and first != second


@pytest.mark.parametrize(
    ("method", "options", "figure"),
    [("daloss", {"C": 0.1}, "step_divergence"), ("feddwa", {"kld_source": "running"}, "divergence")],
)
@pytest.mark.parametrize("in_backward", [False, True])
def test_figures_of_a_method_do_not_depend_on_the_parts(
    method: str, options: dict[str, Any], figure: str, in_backward: bool
) -> None:
    def figures(task: DepthTask) -> Mapping[str, float]:
        network = steady()
        state = state_of(network, 0.5)
        state.signature, state.forward, state.values = signature(network, "tiny"), task.forward, {"round": 1}
        config = replace(PLAIN, optimizer="sgd", lr=0.5, local_epochs=3)
        rule = make_strategy(method, options).local_rule()
        return train(task, prepared(8, network), config, rule, state, seed=1).result.scalars

    whole, cut = figures(DepthTask()), figures(Patient(2, in_backward=in_backward))

    assert set(whole) == set(cut) and whole[figure] > 0
    assert cut[figure] == pytest.approx(whole[figure], rel=0.05)


class Patient(SmallMemory):
    """Takes whole batches of those who only look, and in the first half of the steps, when little has changed."""

    def forward(self, network: Any, batch: Any) -> Any:
        if not torch.is_grad_enabled():
            return DepthTask.forward(self, network, batch)
        if len(self.tried) < 3:
            self.tried.append(len(batch.depth))
            return DepthTask.forward(self, network, batch)
        return super().forward(network, batch)


def test_a_step_that_begins_again_is_summed_once() -> None:
    found: list[float] = []

    class Summing(LocalRule):
        def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
            state.add_share("samples", torch.tensor(float(len(batch.depth))))
            return task_loss

        def after_step(self, state: LocalState) -> None:
            found.append(float(state.sums["samples"]))

    run(SmallMemory(3, in_backward=True), tiny(), replace(PLAIN, batch_size=5, max_steps=2), rule=Summing(), count=10)

    # The first batch in parts of 2 and 3, after a whole one that failed: 0.4 * 2 + 0.6 * 3.
    assert found == [pytest.approx(2.6)] * 2


def test_what_failed_is_let_go_before_the_next_try() -> None:
    """An error holds what was computed before it; so do the frames of its traceback."""
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    class Holding(DepthTask):
        def forward(self, network: Any, batch: Any) -> Any:
            alive.append(sum(ref() is not None for ref in made))
            held = torch.zeros(4)
            made.append(weakref.ref(held))
            if len(batch.depth) > 2:
                raise MemoryError
            return super().forward(network, batch)

    run(Holding(), tiny(), replace(PLAIN, max_steps=1))

    assert alive == [0, 0, 0]


@pytest.mark.parametrize("in_backward", [False, True])
def test_the_divergence_of_a_failed_try_is_let_go_too(in_backward: bool) -> None:
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    class Measuring(LocalRule):
        def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
            value = shared_divergence(state, Measure(with_grad=True)).of_step(state, batch, outputs)
            made.append(weakref.ref(value))
            if len(batch.depth) > 2 and not in_backward:
                raise MemoryError
            return task_loss + value

    class Watched(SmallMemory):
        def forward(self, network: Any, batch: Any) -> Any:
            if torch.is_grad_enabled():
                alive.append(sum(ref() is not None for ref in made))
            return super().forward(network, batch) if in_backward else DepthTask.forward(self, network, batch)

    network = tiny()
    state = state_of(network)
    task = Watched(2, in_backward=in_backward)
    state.forward = DepthTask().forward
    train(task, prepared(4, network), replace(PLAIN, batch_size=4, max_steps=2), Measuring(), state, seed=1)

    assert (len(made), alive) == (3, [0, 0, 0])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on private memory is Linux's own")
def test_a_real_limit_of_memory_halves_the_batch() -> None:
    """A process that may take 250 MB more than it has; its batch of 32 pictures needs about 700 MB."""
    program = """
import logging, resource, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from tests.core.training.test_local import PLAIN, prepared, state_of
from tests.core.training.tiny import tiny
from dataclasses import replace
from pathlib import Path
from fed_core.strategies.base import LocalRule
from fed_core.tasks.depth.task import DepthTask
from fed_core.training.local import train
def run(network, batch_size, steps):
    config = replace(PLAIN, batch_size=batch_size, max_steps=steps)
    return train(DepthTask(), prepared(32, network), config, LocalRule(), state_of(network), seed=1)
run(tiny(height=256, width=256), 2, 1)  # whatever is loaded at the first step is there now
data = next(line for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (int(data.split()[1]) * 1024 + 250_000_000, -1))
print("steps", run(tiny(height=256, width=256), 32, 1).steps)
"""
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{root / 'models'}"}

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True, timeout=110.0
    )

    *warnings, steps = done.stdout.splitlines()
    assert steps == "steps 1", done.stderr
    assert warnings and all(line.startswith("out of memory with ") for line in warnings), done.stdout
