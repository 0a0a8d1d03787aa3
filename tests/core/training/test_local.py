"""The one training loop: it learns, repeats itself, calls the strategy's hooks, and stops when it diverges."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fed_core.config import from_tree
from fed_core.errors import ConfigError, TrainingError
from fed_core.strategies.base import LocalResult, LocalRule, LocalState
from fed_core.tasks.depth.task import DepthDataset, DepthTask
from fed_core.training.local import TrainOutcome, train
from fed_core.training.optimizer import make_optimizer
from fed_core.training.options import TrainConfig
from fed_core.types import Memory
from tests.core.training.tiny import TinyDepth, frames, signature, state_arrays, tiny

PLAIN = TrainConfig(lr=5e-3, batch_size=4, augment=False, device="cpu")


def prepared(count: int, network: TinyDepth) -> DepthDataset:
    return DepthTask().prepare(frames(count), network)


def state_of(network: nn.Module, lr: float = 5e-3) -> LocalState:
    start = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    return LocalState(model=network, start=start, memory=Memory(), extras={}, values={}, num_samples=8, lr=lr)


def run(
    network: TinyDepth, config: TrainConfig = PLAIN, *, rule: LocalRule | None = None, count: int = 8, seed: int = 1
) -> TrainOutcome:
    dataset = prepared(count, network)
    return train(DepthTask(), dataset, config, rule or LocalRule(), state_of(network, config.lr), seed=seed)


def test_it_learns() -> None:
    network = tiny()

    first = run(network)
    last = run(network, replace(PLAIN, local_epochs=40))

    assert last.loss < 0.4 * first.loss
    assert first.steps == 2 and last.steps == 80
    assert not network.training


@pytest.mark.parametrize("augment", [False, True])
def test_equal_seeds_give_equal_bits_and_others_do_not(augment: bool) -> None:
    networks = [tiny() for _ in range(3)]

    losses = [run(n, replace(PLAIN, augment=augment), seed=s).loss for n, s in zip(networks, (5, 5, 6), strict=True)]

    one, two, three = (state_arrays(network) for network in networks)
    assert losses[0] == losses[1] != losses[2]
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not np.array_equal(one["head.weight"], three["head.weight"])


def test_the_global_random_state_stays() -> None:
    network = tiny()
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002 - the legacy state is what is looked at
    expected = torch.random.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002

    run(network)

    assert torch.equal(torch.random.get_rng_state(), expected[0])
    assert np.array_equal(np.random.get_state()[1], expected[1])  # noqa: NPY002


def test_samples_are_used_once_per_epoch() -> None:
    seen: list[list[int]] = []

    class Watching(DepthTask):
        def batch(self, dataset: Any, indexes: Any, rng: Any = None) -> Any:
            seen.append(list(indexes))
            return super().batch(dataset, indexes, rng)

    network = tiny()
    config = replace(PLAIN, local_epochs=2)
    train(Watching(), prepared(9, network), config, LocalRule(), state_of(network), seed=0)

    # 9 = 4 + 5: batch normalisation cannot take a last batch of one.
    assert [len(indexes) for indexes in seen] == [4, 5, 4, 5]
    assert sorted(seen[0] + seen[1]) == sorted(seen[2] + seen[3]) == list(range(9))
    assert seen[:2] != seen[2:]


def test_max_steps_ends_a_round_early() -> None:
    network = tiny()

    assert run(network, replace(PLAIN, local_epochs=5, max_steps=3)).steps == 3
    assert run(network, replace(PLAIN, local_epochs=1, max_steps=30)).steps == 2
    assert run(network, count=1).steps == 1


class Recording(LocalRule):
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self, state: LocalState) -> None:
        self.calls.append("begin")

    def begin_epoch(self, state: LocalState) -> None:
        assert state.model.training
        self.calls.append(f"epoch {state.epoch} of {state.num_epochs}")

    def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
        assert outputs.depth.shape == batch.depth.shape
        self.calls.append(f"loss {state.step}")
        return task_loss

    def correct_gradient(self, state: LocalState) -> None:
        assert all(p.grad is not None for p in state.model.parameters())
        self.calls.append("gradient")

    def after_step(self, state: LocalState) -> None:
        self.calls.append("after")

    def finish(self, state: LocalState) -> LocalResult:
        self.calls.append("finish")
        return LocalResult(scalars={"steps": float(state.step)})


def test_the_hooks_are_called_in_order() -> None:
    rule = Recording()

    outcome = run(tiny(), replace(PLAIN, local_epochs=2, max_steps=3), rule=rule)

    steps = [[f"loss {i}", "gradient", "after"] for i in range(3)]
    expected = ["begin", "epoch 0 of 2", *steps[0], *steps[1], "epoch 1 of 2", *steps[2], "finish"]
    assert rule.calls == expected
    assert outcome.result.scalars == {"steps": 3.0}


def test_a_rule_changes_the_loss_but_not_the_reported_one() -> None:
    class Heavy(LocalRule):
        def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
            return task_loss + 1000.0

    assert run(tiny(), rule=Heavy()).loss == run(tiny()).loss


@dataclass
class Proximal(LocalRule):
    """Pulls towards the start, as FedProx does."""

    mu: float

    def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
        drift = sum(((p - state.start[name]) ** 2).sum() for name, p in state.model.named_parameters())
        return task_loss + 0.5 * self.mu * drift


def test_a_proximal_term_keeps_the_weights_near_the_start() -> None:
    plain, none, strong = tiny(), tiny(), tiny()
    config = replace(PLAIN, local_epochs=10)
    for network, rule in ((plain, LocalRule()), (none, Proximal(0.0)), (strong, Proximal(1000.0))):
        run(network, config, rule=rule)

    start = state_arrays(tiny())["encoder.0.weight"]
    moved = [np.linalg.norm(state_arrays(network)["encoder.0.weight"] - start) for network in (plain, strong)]
    assert all(np.array_equal(a, b) for a, b in zip(*map(list, values_of(plain, none)), strict=True))
    assert moved[1] < 0.5 * moved[0]


def test_a_corrected_gradient_moves_the_weights() -> None:
    class Still(LocalRule):
        def correct_gradient(self, state: LocalState) -> None:
            for parameter in state.model.parameters():
                parameter.grad = None

    network = tiny()
    before = state_arrays(network)
    run(network, rule=Still())

    after = state_arrays(network)
    trained = [name for name, _ in network.named_parameters()]
    assert all(np.array_equal(before[name], after[name]) for name in trained)


def test_frozen_parts_stay() -> None:
    class HeadOnly(LocalRule):
        def begin(self, state: LocalState) -> None:
            state.model.encoder.requires_grad_(False)

    network = tiny()
    before = state_arrays(network)
    run(network, replace(PLAIN, weight_decay=0.5), rule=HeadOnly())

    after = state_arrays(network)
    assert np.array_equal(before["encoder.0.weight"], after["encoder.0.weight"])
    assert not np.array_equal(before["head.weight"], after["head.weight"])


def test_the_gradient_is_clipped_before_the_step() -> None:
    network = tiny()
    before = state_arrays(network)
    run(network, replace(PLAIN, optimizer="sgd", lr=1.0, weight_decay=0.0, grad_clip=1e-4, max_steps=1))

    after = state_arrays(network)
    moved = np.concatenate([(after[n] - before[n]).ravel() for n, _ in network.named_parameters()])
    assert np.linalg.norm(moved) == pytest.approx(1e-4, rel=1e-2)


def test_the_encoder_has_its_own_rate() -> None:
    network = tiny()
    config = replace(PLAIN, encoder_lr_scale=0.1)
    rest, encoder = make_optimizer(network, config, 1e-3, signature(network, "tiny")).param_groups

    assert rest["lr"] == 1e-3 and encoder["lr"] == pytest.approx(1e-4)
    assert {id(p) for p in encoder["params"]} == {id(p) for p in network.encoder.parameters()}
    assert len(rest["params"]) + len(encoder["params"]) == len(list(network.parameters()))


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_every_optimiser_starts_fresh_each_round(optimizer: str) -> None:
    config = replace(PLAIN, optimizer=optimizer, lr=1e-3)
    through, stopped = tiny(), tiny()
    run(through, config)
    second = copy.deepcopy(through)
    run(through, config, seed=2)

    stopped.load_state_dict(second.state_dict())
    run(stopped, config, seed=2)

    assert all(np.array_equal(a, b) for a, b in zip(*map(list, values_of(through, stopped)), strict=True))


def values_of(*networks: nn.Module) -> Iterable[Iterable[np.ndarray]]:
    return (state_arrays(network).values() for network in networks)


def test_a_loss_that_is_not_finite_ends_the_round() -> None:
    class Broken(LocalRule):
        def loss(self, state: LocalState, batch: Any, outputs: Any, task_loss: torch.Tensor) -> torch.Tensor:
            return task_loss * float("nan") if state.step == 1 else task_loss

    with pytest.raises(TrainingError, match=r"^the loss became nan at step 1; lower the learning rate$"):
        run(tiny(), rule=Broken())


def test_weights_that_the_last_step_broke_are_not_returned() -> None:
    class Exploding(LocalRule):
        def correct_gradient(self, state: LocalState) -> None:
            state.model.head.bias.grad.fill_(float("inf"))

    with pytest.raises(TrainingError, match=r"^tensor '[a-z.0-9]+' is no longer finite after training; lower the lea"):
        run(tiny(), replace(PLAIN, max_steps=1), rule=Exploding())


def test_frames_without_known_depth_leave_the_gradient_zero() -> None:
    network = tiny()
    dataset = prepared(4, network)
    dataset.depth_m[:] = np.nan
    rule = Recording()

    outcome = train(DepthTask(), dataset, replace(PLAIN, weight_decay=0.0), rule, state_of(network), seed=0)

    assert outcome.loss == 0.0 and "gradient" in rule.calls
    assert np.array_equal(state_arrays(network)["head.weight"], state_arrays(tiny())["head.weight"])


def test_progress_ends_at_one() -> None:
    network, told = tiny(), []
    train(
        DepthTask(), prepared(8, network), PLAIN, LocalRule(), state_of(network), seed=0,
        on_progress=lambda share, loss, speed: told.append((share, loss, speed)),
    )  # fmt: skip

    assert [share for share, _, _ in told] == [0.5, 1.0]
    assert all(loss > 0 and speed > 0 for _, loss, speed in told)


def test_the_rate_follows_the_rounds() -> None:
    # Four rounds read their schedule at 0, 1/4, 1/2 and 3/4 (fedepth spec 12: t / T).
    def rates(schedule: str) -> list[float]:
        config = TrainConfig(lr=1.0, lr_final_factor=0.2, schedule=schedule)
        return [config.lr_of(number, 4) for number in range(1, 5)]

    assert rates("constant") == [1.0] * 4
    assert rates("linear") == pytest.approx([1.0, 0.8, 0.6, 0.4])
    assert rates("cosine") == pytest.approx([1.0, 0.2 + 0.8 * 0.853553, 0.6, 0.2 + 0.8 * 0.146447], rel=1e-5)
    assert rates("poly") == pytest.approx([0.2 + 0.8 * left**0.9 for left in (1.0, 0.75, 0.5, 0.25)])
    # Up from 0.2 until half way, down to 0.2 after it; both by half a cosine.
    cycle = TrainConfig(lr=1.0, lr_start_factor=0.2, lr_final_factor=0.2, warmup=0.5, schedule="one_cycle")
    assert [cycle.lr_of(number, 4) for number in range(1, 5)] == pytest.approx([0.2, 0.6, 1.0, 0.6])
    assert TrainConfig(lr=1.0).lr_of(1, 1) == TrainConfig(lr=1.0).lr_of(1, 0) == 1.0


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"learning_rate": 1e-3}, "train: unknown key 'learning_rate'; known: lr, "),
        ({"batch_size": 0}, "TrainConfig.batch_size is 0; it must lie between 1 and 4096"),
        ({"optimizer": "lion"}, "TrainConfig.optimizer is 'lion'; choose one of adamw, adam, sgd"),
        ({"lr": "fast"}, "train.lr: expected float, got 'fast'"),
    ],
)
def test_wrong_options_are_named(tree: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_tree(TrainConfig, tree, "train")

    assert str(caught.value).startswith(text)


def test_a_missing_gpu_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(TrainingError, match="device is cuda, but PyTorch sees no GPU; set device to auto or cpu"):
        TrainConfig(device="cuda").torch_device()
    assert TrainConfig(device="auto").torch_device() == torch.device("cpu")


@pytest.mark.gpu
def test_gpu_and_cpu_agree() -> None:
    nets = [tiny(), tiny().to("cuda")]
    for network in nets:
        network.drop.p = 0.0
        run(network, replace(PLAIN, optimizer="sgd", lr=1e-2, max_steps=2))

    one, two = map(state_arrays, nets)
    for name in one:
        np.testing.assert_allclose(one[name], two[name], rtol=2e-3, atol=2e-4, err_msg=name)
