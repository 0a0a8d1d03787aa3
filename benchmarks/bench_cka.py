"""The CKA probe against bare forward passes and local training, and what it holds (fedcka spec 3).

- ``probe_vs_forward``: time of the probe of ten frames over ten bare forward passes of each of both models, by turns;
- ``extra_over_allowed``: peak of the memory that the probe takes beside the robot's own model and a bare forward pass
  of it, over twice the largest activation and one model (at most 1). It is the sum of three peaks: tensors of PyTorch's
  allocator (``extra_tensors_mb``, most of it what the waiting model's own forward pass holds), arrays of NumPy and
  Python while it runs (``extra_arrays_mb``), and the pages of the second model's file that lie in this process
  (``extra_weights_mb``, against ``model_mb`` for the whole model);
- ``share_of_training``: probe of ten frames over an epoch of the paper (fedcka spec 7: 700 scenes of 40 keyframes among
  five robots, every second one), the time of an epoch taken from that of a step here;
- ``largest_difference``: from a naive reference, which keeps every float32 activation and works on float64 matrices.
"""

import json
import os

# Before NumPy and PyTorch load: one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse  # noqa: E402
import copy  # noqa: E402
import gc  # noqa: E402
import re  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import tracemalloc  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from machine import machine  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from fed_core.masks import divide  # noqa: E402
from fed_core.tasks.detection.network import DetectionBatch  # noqa: E402
from fed_core.training.mapped import mapped_copy  # noqa: E402
from fed_core.training.outputs import rows  # noqa: E402
from fed_core.training.probe import CkaProbe  # noqa: E402
from fed_core.types import Boxes3D  # noqa: E402
from fed_core.wire.codec import open_tensors, write_tensors  # noqa: E402
from fed_models import build  # noqa: E402
from fed_models.base import signature  # noqa: E402

FRAMES, TURNS, POINTS, BATCH_SIZE = 10, 7, 4000, 4
#: Frames of an epoch of the paper's robots, on average: (265 + 125 + 226 + 71 + 13) scenes x 40 / 2 / 5.
EPOCH_FRAMES = 2800


def scans(network: Any, count: int, batch_size: int) -> list[DetectionBatch]:
    """Return batches of noise in the network's size, with a few boxes."""
    generator, rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
    height, width = network.image_size
    cameras = network.num_cameras
    lens = torch.tensor([[0.8 * width, 0, width / 2, 0], [0, 0.8 * width, height / 2, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    ahead = torch.tensor([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    back = torch.tensor([[-1.0, 0, 0, 0], [0, 0, -1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    views = torch.stack([lens @ (ahead, back)[n % 2] for n in range(cameras)])

    def cloud() -> Tensor:
        spread = torch.tensor([20.0, 20.0, 1.0, 0.3, 0.1])
        return torch.randn(POINTS, 5, generator=generator) * spread

    def boxes() -> Boxes3D:
        centres = rng.uniform(-30, 30, (8, 3)) * (1, 1, 0.03)
        zeros = np.zeros((8, 2))
        labels = rng.integers(0, 10, 8)
        return Boxes3D(centres, np.full((8, 3), 2.0), np.zeros(8), zeros, labels, np.ones(8), np.full(8, 20))

    return [
        DetectionBatch(
            torch.randn(batch_size, cameras, 3, height, width, generator=generator),
            views.expand(batch_size, -1, -1, -1),
            tuple(cloud() for _ in range(batch_size)),
            tuple(boxes() for _ in range(batch_size)),
        )
        for _ in range(count)
    ]


def call(network: nn.Module, batch: Any) -> Any:
    """Return the network's outputs."""
    return network(batch)


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the time by the clock on the wall and by the processor."""
    wall_s, own_s = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall_s, time.process_time() - own_s


def training_step(network: Any, batch: DetectionBatch) -> Callable[[], None]:
    """Return one step of local training."""
    network = copy.deepcopy(network).train()
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)

    def step() -> None:
        loss = network.loss(batch, network(batch))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def tensors_of(work: Callable[[], Any]) -> int:
    """Return the peak of the bytes that PyTorch's allocator gives out beside what it gave before."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        work()
    held = peak = 0
    events = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    for event in sorted((each for each in events if each.name() == "[memory]"), key=lambda each: each.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def arrays_of(work: Callable[[], Any]) -> int:
    """Return the peak of the bytes that NumPy and Python hold beside what they held before."""
    work()
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def naive(models: tuple[nn.Module, nn.Module], frames: list[Any], units: list[str]) -> dict[str, float]:
    """Return the mean CKA of every unit from activations that are all kept."""
    values: dict[str, list[float]] = {unit: [] for unit in units}
    for frame in frames:
        left, right = (kept(model, frame, units) for model in models)
        for unit in left:
            values[unit].append(reference(left[unit], right[unit]))
    return {unit: float(np.nanmean(found)) if np.isfinite(found).any() else np.nan for unit, found in values.items()}


def kept(model: nn.Module, frame: Any, units: list[str]) -> dict[str, Any]:
    """Return the activations of a frame."""
    found: dict[str, Any] = {}

    def on(unit: str) -> Any:
        def hook(module: nn.Module, _: Any, output: Any) -> None:
            first = output if isinstance(output, Tensor) else output[0]
            found[unit] = rows(first, module).flatten(0, -2).numpy().astype(np.float64)

        return hook

    handles = [model.get_submodule(unit).register_forward_hook(on(unit)) for unit in units]
    with torch.no_grad():
        model(frame)
    for handle in handles:
        handle.remove()
    return found


def reference(x: Any, y: Any) -> float:
    """Return the definition, in float64."""
    n = min(len(x), len(y))
    x, y = x[:n] - x[:n].mean(0), y[:n] - y[:n].mean(0)
    below = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(x.T @ y) ** 2 / below) if below > 1e-20 else np.nan


def drifted(network: nn.Module) -> nn.Module:
    """Return a copy with noise on its weights."""
    other = copy.deepcopy(network)
    with torch.no_grad():
        for parameter in other.parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            parameter += 0.05 * noise * parameter.std(correction=0)
    return other


def mapped_of(path: Path, model: nn.Module, work: Callable[[], Any]) -> int:
    """Return the peak of the bytes of a file's pages that lie in this process, looked at after every module."""
    found: list[int] = []

    def look(*_: Any) -> None:
        text = Path("/proc/self/smaps").read_text(encoding="ascii")
        parts = re.findall(rf"^[^\n]* {re.escape(str(path))}\n(?:[A-Z][^\n]*\n)*?Rss: +(\d+) kB", text, re.MULTILINE)
        found.append(1024 * sum(map(int, parts)))

    # Before the module's own hook, which may give pages back.
    handles = [module.register_forward_hook(look, prepend=True) for module in model.modules()]
    work()
    for handle in handles:
        handle.remove()
    return max(found)


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Return the figures."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first: Any = build(name, {}).eval()
    step = training_step(first, scans(first, 1, BATCH_SIZE)[0])
    path = folder / "global.safetensors"
    write_tensors(path, {key: tensor.numpy() for key, tensor in drifted(first).state_dict().items()})
    file = open_tensors(path)
    second = mapped_copy(first, file)
    frames = scans(first, FRAMES, 1)
    units = [layer.name for layer in divide(signature(first, name)).layers]

    def forward(*models: nn.Module) -> None:
        with torch.no_grad():
            for frame in frames:
                for model in models:
                    model(frame)

    def probe() -> Any:
        return CkaProbe(first, second, frames, units).scores()

    table = []
    forward(first)
    for _ in range(TURNS):
        table.append([*timed(lambda: forward(first, second)), *timed(probe), *timed(step)])
        print("  ".join(f"{value:.3f} s" for value in table[-1]), flush=True)
    times = np.median(np.array(table), axis=0)
    found, wanted = probe(), naive((first, second), frames, units)
    scores = np.array([found[unit].mean for unit in units])
    expected = np.array([wanted[unit] if found[unit].per_frame else np.nan for unit in units])
    epoch_s = times[4] * EPOCH_FRAMES / BATCH_SIZE
    return {
        "probe_vs_forward": round(float(np.median([row[2] / row[0] for row in table])), 3),
        "probe_vs_forward_cpu_time": round(float(np.median([row[3] / row[1] for row in table])), 3),
        "probe_s": round(times[2], 3),
        "step_s": round(times[4], 3),
        "share_of_training": round(times[2] / epoch_s, 5),
        **memory((first, second), frames, units, found, path),
        "largest_difference": float(np.nanmax(np.abs(scores - expected))),
        "masks_equal": bool(all(((scores < tau) == (expected < tau)).all() for tau in (0.05, 0.25, 0.5, 0.75))),
        "layers": len(units),
        "scored": int(np.isfinite(scores).sum()),
    }


def memory(
    models: tuple[nn.Module, nn.Module], frames: list[Any], units: list[str], found: Any, path: Path
) -> dict[str, Any]:
    """Return what the probe holds beside a bare forward pass, and that over what it may."""
    first, second = models
    sizes = [4 * score.n * score.p for score in found.values()]
    handles = [
        module.register_forward_hook(lambda _, __, out: sizes.append(out.nbytes if isinstance(out, Tensor) else 0))
        for module in first.modules()
    ]
    with torch.no_grad():
        first(frames[0])
    for handle in handles:
        handle.remove()
    largest, size = max(sizes), sum(tensor.nbytes for tensor in first.state_dict().values())

    def forward() -> None:
        with torch.no_grad():
            first(frames[0])

    def probe() -> None:
        CkaProbe(first, mapped_copy(first, open_tensors(path)), frames, units).scores()

    forward()
    bare = tensors_of(forward)
    tensors, arrays = tensors_of(probe) - bare, arrays_of(CkaProbe(first, second, frames, units).scores)
    gc.collect()  # else the file would be mapped twice
    weights = mapped_of(path, second, CkaProbe(first, second, frames[:1], units).scores)
    extra = tensors + arrays + weights
    return {
        "extra_over_allowed": round(extra / (2 * largest + size), 3),
        "extra_tensors_mb": round(tensors / 1e6, 3),
        "extra_arrays_mb": round(arrays / 1e6, 3),
        "extra_weights_mb": round(weights / 1e6, 3),
        "bare_mb": round(bare / 1e6, 3),
        "largest_activation_mb": round(largest / 1e6, 3),
        "model_mb": round(size / 1e6, 3),
    }


def main() -> None:
    """Measure on one core and print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="cmt_lite")
    name = parser.parse_args().network
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(name, Path(folder))
    print(json.dumps({"bench": "cka", "figures": {"network": name, **figures}, "machine": machine()}))


if __name__ == "__main__":
    main()
