"""The picture grid of a demo: image, depth served by each method, true depth."""

from pathlib import Path
from typing import Any

import numpy as np

from fed_core.types import Array


def draw_grid(folder: Path, summary: dict[str, Any], methods: list[str]) -> Path:
    """Draw one row per kept frame of each unseen sequence into ``predictions.png``; returns its path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for sequence in summary["sequences"] for row in _rows(folder, sequence["name"], methods)]
    columns = ["image", *methods, "truth"]
    figure, axes = pyplot.subplots(
        len(rows), len(columns), figsize=(2.6 * len(columns), 2.05 * len(rows)), squeeze=False, layout="constrained"
    )
    for axis, title in zip(axes[0], columns, strict=True):
        axis.set_title(title)
    for line, (name, rgb, depths) in zip(axes, rows, strict=True):
        for axis in line:
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].imshow(rgb)
        line[0].set_ylabel(name, fontsize=8)
        near, far = _range(depths[-1])
        for axis, depth in zip(line[1:], depths, strict=True):
            image = axis.imshow(depth, cmap="turbo_r", norm=matplotlib.colors.LogNorm(near, far))
        bar = figure.colorbar(image, ax=line[-1], fraction=0.05)
        bar.set_label("m", fontsize=7)
        bar.ax.tick_params(labelsize=6)
    path = folder / "predictions.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def _rows(folder: Path, name: str, methods: list[str]) -> list[tuple[str, Array, list[Array]]]:
    files = [np.load(folder / "scores" / method / f"{name}.npz") for method in methods]
    count = len([key for key in files[0].files if key.startswith("rgb_")])
    rows = []
    for number in range(count):
        depths = [file[f"predicted_{number}"] for file in files]
        rows.append((name, files[0][f"rgb_{number}"], [*depths, files[0][f"truth_{number}"]]))
    return rows


def _range(truth: Array) -> tuple[float, float]:
    valid = truth[np.isfinite(truth) & (truth > 0)]
    if valid.size == 0:
        return 0.1, 10.0
    near, far = np.percentile(valid, [1, 99])
    return float(near), float(max(far, near * 1.01))
