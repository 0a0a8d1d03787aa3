"""The probe against a naive one that keeps everything, and what it does with odd modules, outputs and failures."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fed_core.errors import ConfigError
from fed_core.similarity.cka import cka
from fed_core.training.outputs import rows, sparse_rows
from fed_core.training.probe import CkaProbe


class Net(nn.Module):
    """Convolutions with in-place ReLUs, a shared linear layer that is called twice, and one that never is."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True))
        self.drop = nn.Dropout(0.5)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.shared = nn.Linear(6, 6)
        self.unused = nn.Linear(6, 6)
        self.head = nn.Conv1d(6, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.drop(self.stem(x)).flatten(2).transpose(1, 2)
        tokens = self.shared(torch.relu_(self.shared(tokens)))
        tokens, _ = self.attention(tokens, tokens, tokens)
        return self.head(tokens.transpose(1, 2))


UNITS = ("stem.0", "stem.1", "attention", "shared", "unused", "head")


def net(seed: int, make: Callable[[], nn.Module] = Net) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def frames(count: int = 3, size: tuple[int, ...] = (1, 2, 5, 6)) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator) for _ in range(count)]


def kept(model: nn.Module, frame: Tensor) -> dict[str, np.ndarray]:
    """All outputs of a frame, copied; the last call of a module counts."""
    found: dict[str, np.ndarray] = {}

    def on(name: str) -> Any:
        def hook(module: nn.Module, _: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            found[name] = rows(first, module).flatten(0, -2).double().numpy().copy()

        return hook

    handles = [model.get_submodule(name).register_forward_hook(on(name)) for name in UNITS]
    model.eval()
    with torch.no_grad():
        model(frame)
    for handle in handles:
        handle.remove()
    return found


def test_scores_are_those_of_a_probe_that_keeps_everything() -> None:
    a, b, some = net(0), net(1), frames()
    found = CkaProbe(a, b, some, UNITS).scores()
    assert list(found) == list(UNITS)
    for name in set(UNITS) - {"unused"}:
        wanted = [cka(kept(a, frame)[name], kept(b, frame)[name]) for frame in some]
        assert found[name].per_frame == pytest.approx(wanted, abs=1e-12)
        assert found[name].mean == pytest.approx(sum(wanted) / 3, abs=1e-12)
        assert 0.0 < found[name].mean < 1.0
    assert (found["stem.0"].n, found["stem.0"].p, found["head"].n, found["head"].p) == (30, 6, 30, 3)


def test_a_module_that_is_not_called_has_no_score() -> None:
    found = CkaProbe(net(0), net(1), frames(), UNITS).scores()["unused"]
    assert math.isnan(found.mean) and found.per_frame == () and found.n == 0


def test_equal_models_score_one_everywhere() -> None:
    found = CkaProbe(net(0), net(0), frames(), UNITS, "debiased").scores()
    assert [found[name].mean for name in UNITS if name != "unused"] == pytest.approx([1.0] * 5, abs=1e-9)


def test_models_are_left_as_they_were() -> None:
    a, b = net(0).train(), net(1).train()
    a.get_submodule("drop").eval()
    before = {name: tensor.clone() for name, tensor in a.state_dict().items()}
    CkaProbe(a, b, frames(), UNITS).scores()
    assert [a.training, a.get_submodule("drop").training, b.get_submodule("stem").training] == [True, False, True]
    assert all(torch.equal(tensor, before[name]) for name, tensor in a.state_dict().items())
    assert not any(module._forward_hooks for model in (a, b) for module in model.modules())
    assert torch.is_grad_enabled() and all(parameter.grad is None for parameter in a.parameters())


class Moody(nn.Module):
    """Leaves out a layer in some frames, and calls another as often as the first pixel says."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if x.mean() > self.first.bias.mean() + 0.1:
            x = self.second(x)
        return self.third(x)


def test_outputs_of_the_frame_before_are_never_used() -> None:
    high, low = torch.randn(1, 9, 4) + 3.0, torch.randn(1, 9, 4) - 3.0
    a, b = net(0, Moody), net(0, Moody)
    with torch.no_grad():
        for model in (a, b):
            model.get_submodule("first").weight.copy_(torch.eye(4))  # type: ignore[operator, union-attr]
    found = CkaProbe(a, b, [high, low], ("first", "second", "third")).scores()
    assert [len(found[name].per_frame) for name in found] == [2, 1, 2]


def test_models_that_take_different_paths_are_compared_where_both_go() -> None:
    a, b = net(0, Moody), net(0, Moody)
    with torch.no_grad():
        a.get_submodule("first").weight.copy_(torch.eye(4))  # type: ignore[operator, union-attr]
        b.get_submodule("first").weight.copy_(-torch.eye(4))  # type: ignore[operator, union-attr]
    for left, right in ((a, b), (b, a)):
        found = CkaProbe(left, right, [torch.randn(1, 9, 4) + 3.0], ("first", "second", "third")).scores()
        assert [len(found[name].per_frame) for name in found] == [1, 0, 1]
        assert found["first"].mean == pytest.approx(1.0)


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.fails = nn.Linear(4, 4), False

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.fails:
            raise RuntimeError("no more memory")
        return x


@pytest.mark.parametrize("side", [0, 1])
def test_a_model_that_fails_fails_the_probe(side: int) -> None:
    models = [Broken(), Broken()]
    models[side].fails = True
    with pytest.raises(RuntimeError, match="no more memory"):
        CkaProbe(models[0], models[1], [torch.randn(1, 5, 4)], ("first",)).scores()
    assert not any(model.first._forward_hooks for model in models)


def test_one_model_cannot_be_compared_with_itself() -> None:
    model = net(0)
    with pytest.raises(ConfigError, match="both are the same object; give it a copy"):
        CkaProbe(model, model, frames(), UNITS)


def test_unknown_layouts_and_estimators_are_refused() -> None:
    with pytest.raises(ConfigError, match="no layout of features is called 'rows'; known: features, released"):
        CkaProbe(net(0), net(1), frames(), UNITS, layout="rows")
    with pytest.raises(ConfigError, match="no CKA estimator is called 'best'"):
        CkaProbe(net(0), net(1), frames(), UNITS, "best")


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((2, 3, 4, 5), (40, 3)), ((2, 7, 3), (14, 3)), ((6, 3), (6, 3)), ((6,), (6, 1)), ((2, 3, 4, 5, 6), (2, 360))],
)
def test_rows_by_the_number_of_axes(shape: tuple[int, ...], wanted: tuple[int, int]) -> None:
    assert rows(torch.zeros(shape)).flatten(0, -2).shape == wanted


@pytest.mark.parametrize(
    ("module", "shape", "wanted"),
    [
        (nn.Conv1d(1, 1, 1), (1, 8, 900), (900, 8)),
        (nn.BatchNorm1d(1), (1, 8, 900), (900, 8)),
        (nn.GroupNorm(1, 1), (2, 8, 90), (180, 8)),
        (nn.Conv3d(1, 1, 1), (1, 8, 2, 3, 4), (24, 8)),
        (nn.Linear(1, 1), (1, 2, 3, 4, 8), (24, 8)),
        (nn.LayerNorm(1), (1, 4, 5, 8), (20, 8)),
        (nn.ReLU(), (1, 8, 4, 5), (20, 8)),
    ],
)
def test_features_are_channels_or_the_last_axis(
    module: nn.Module, shape: tuple[int, ...], wanted: tuple[int, int]
) -> None:
    output = torch.randn(shape)
    found = rows(output, module).flatten(0, -2)
    assert found.shape == wanted
    last = isinstance(module, nn.Linear | nn.LayerNorm)
    first = output.reshape(-1, shape[-1])[0] if last else output[0].flatten(1)[:, 0]
    assert torch.equal(found[0], first)


def test_the_released_layout_takes_the_tokens_of_a_conv1d_for_features() -> None:
    fixed, released = (
        CkaProbe(net(0), net(1), frames(), ("head",), layout=layout).scores()["head"]
        for layout in ("features", "released")
    )
    assert (fixed.n, fixed.p) == (30, 3) and (released.n, released.p) == (3, 30)
    assert released.mean > fixed.mean  # three samples are alike whatever they are


class SparseNet(nn.Module):
    """A stand-in for a sparse convolution and the norm inside its block, in spconv's manner."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = Submanifold(), nn.BatchNorm1d(3)

    def forward(self, grid: Any) -> Any:
        grid = self.conv(grid)
        return SimpleNamespace(**{**vars(grid), "features": self.norm(grid.features)})


class Submanifold(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3))

    def forward(self, grid: Any) -> Any:
        return SimpleNamespace(**{**vars(grid), "features": grid.features @ self.weight})


def test_sparse_layers_are_grids_with_zeros_norms_inside_their_blocks_too() -> None:
    indices = torch.tensor([[0, 0, 1], [0, 2, 3], [0, 1, 0], [0, 2, 0], [0, 0, 0]])
    grid = SimpleNamespace(features=torch.randn(5, 2), indices=indices, spatial_shape=[3, 4], batch_size=1)
    a, b = net(0, SparseNet).eval(), net(1, SparseNet).eval()
    found = CkaProbe(a, b, [grid], ("conv", "norm")).scores()
    assert found["conv"].n == found["norm"].n == 12
    dense = []
    for model in (a, b):
        with torch.no_grad():
            full = torch.zeros(3, 4, 3)
            full[indices[:, 1], indices[:, 2]] = model(grid).features
        dense.append(full.reshape(-1, 3).numpy())
    assert found["norm"].mean == pytest.approx(cka(dense[0], dense[1]), abs=1e-6)


def test_cells_are_numbered_along_the_axes() -> None:
    grid = SimpleNamespace(
        features=torch.zeros(2, 1), indices=torch.tensor([[0, 0, 1], [1, 2, 3]]), spatial_shape=(3, 4), batch_size=2
    )
    assert sparse_rows(grid).cells.tolist() == [1, 12 + 11] and sparse_rows(grid).volume == 24


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Pair()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)["b"][1]


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"a": None, "b": [torch.arange(3), self.linear(x)]}


def test_the_first_floating_tensor_of_an_output_counts() -> None:
    found = CkaProbe(net(0, Several), net(1, Several), [torch.randn(1, 9, 4)], ("inner", "inner.linear")).scores()
    assert found["inner"] == found["inner.linear"] and found["inner"].n == 9


class Repeats(nn.Module):
    """Calls its layer as often as the frame says."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, frame: tuple[int, Tensor]) -> Tensor:
        times, x = frame
        for _ in range(times):
            x = self.layer(x)
        return self.last(x)


def test_the_last_call_counts_whether_a_frame_has_more_or_fewer_than_the_one_before() -> None:
    a, b = net(0, Repeats), net(1, Repeats)
    some = [(times, frames(1, (1, 9, 4))[0] + times) for times in (3, 3, 1, 2, 4)]
    together = CkaProbe(a, b, some, ("layer", "last")).scores()
    for name in ("layer", "last"):
        alone = [CkaProbe(a, b, [frame], ("layer", "last")).scores()[name].mean for frame in some]
        assert together[name].per_frame == tuple(alone)


def test_the_bytes_told_are_those_of_outputs_that_are_held_at_one_time() -> None:
    """Conv: 30 rows of 6 floats on both sides; nothing larger waits, and never all layers."""
    told: list[int] = []
    CkaProbe(net(0), net(1), frames(), UNITS, tell_bytes=told.append).scores()
    largest = 4 * 30 * 6
    assert len(told) == 1 and 2 * largest <= told[0] <= 4 * largest


class Careful(nn.Module):
    """Computes its middle part with autocast and gradients in modes of its own, hooked modules included."""

    def __init__(self, on: bool) -> None:
        super().__init__()
        self.first, self.second, self.third, self._on = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), on
        self.seen: list[tuple[bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        with torch.autocast("cpu", enabled=self._on), torch.set_grad_enabled(self._on):
            x = self.second(x)
            self._note()
        self._note()
        return self.third(x)  # type: ignore[no-any-return]

    def _note(self) -> None:
        self.seen.append((torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()))


def test_modes_of_one_model_do_not_reach_the_other() -> None:
    models = Careful(on=True), Careful(on=False)
    CkaProbe(*models, [torch.randn(1, 50, 4)] * 2, ("first", "second", "third")).scores()
    assert models[0].seen == [(True, True), (False, False)] * 2
    assert models[1].seen == [(False, False), (False, False)] * 2
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
