"""The folder that an export makes: it appears whole, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fed_cli.exporting.card import Measured, card
from fed_cli.exporting.choice import Chosen
from fed_cli.exporting.frames import batch_of
from fed_cli.exporting.networks import build_filled, sized
from fed_cli.exporting.runs import Found
from fed_core.errors import StoreError
from fed_core.extras import versions
from fed_core.types import DETECTION_CLASSES, IMAGE_MEAN, IMAGE_STD
from fed_core.wire.files import store_error, sync_folder, write_text

if TYPE_CHECKING:
    from fed_models.export import Exported

CONFIG, CARD = "config.yaml", "README.md"
SCHEMA_VERSION = 1
#: Key of the schema's version in ``config.yaml``; it tells an export from other folders.
_SCHEMA = "fed_perception_export"
_PACKAGES = ("fed_perception", "torch", "onnx", "onnxruntime")
_SEED = 0


@dataclass(frozen=True)
class Wanted:
    """What is to be exported.

    Attributes:
        formats: names of formats.
        size: (H, W) of the images [pixels]; None = the run's own.
        licence: of the weights; "" = not stated.
    """

    formats: tuple[str, ...]
    size: tuple[int, int] | None
    licence: str


def check_folder(folder: Path, *, force: bool) -> None:
    """Refuse a folder that is there, unless it may be replaced and holds an export or nothing.

    Raises:
        StoreError: with what to do.
    """
    if not folder.exists():
        return
    if not force:
        raise StoreError(f"{folder} exists; name another folder, or replace it with --force")
    ours = folder.is_dir() and (not any(folder.iterdir()) or _is_export(folder / CONFIG))
    if not ours:
        raise StoreError(f"{folder} is no export, so --force does not replace it; name another folder")


def _is_export(path: Path) -> bool:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(tree, dict) and _SCHEMA in tree


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Give a folder to write in, which becomes ``folder`` at the end; after an error nothing of it is left."""
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as err:
        raise store_error(err, folder) from err
    try:
        inner = scratch / "new"
        inner.mkdir()
        yield inner
        try:
            sync_folder(inner)
            _put(inner, folder, scratch / "old")
            sync_folder(folder.parent)
        except OSError as err:
            raise store_error(err, folder) from err
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _put(inner: Path, folder: Path, old: Path) -> None:
    """Rename a folder; what stands in its way goes to ``old``, and comes back where that fails."""
    if not folder.exists():
        os.rename(inner, folder)
        return
    os.rename(folder, old)
    try:
        os.rename(inner, folder)
    except BaseException:
        os.rename(old, folder)
        raise


def write_package(found: Found, chosen: Chosen, wanted: Wanted, folder: Path) -> Measured:
    """Write all files of an export into a folder.

    Args:
        found: what the run's path holds.
        chosen: the model.
        wanted: formats and size.
        folder: empty.

    Raises:
        FedError: something cannot be exported; one line that says what and why.
    """
    config = chosen.run.plan.config
    options = sized(config.network, config.network_options, wanted.size)
    network, fresh = build_filled(chosen, options, resized=wanted.size is not None)
    files, compared_on = _models(found, chosen, (network, fresh), wanted.formats, folder)
    from fed_models.export import TOLERANCE

    parameters = sum(parameter.numel() for parameter in network.parameters())
    measured = Measured(files, parameters, compared_on, TOLERANCE, wanted.licence, versions(*_PACKAGES))
    tree = _config(chosen, network, options, measured)
    write_text(folder / CONFIG, yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    write_text(folder / CARD, card(found, chosen, options, measured))
    return measured


def _models(
    found: Found, chosen: Chosen, networks: tuple[Any, Any], formats: Sequence[str], folder: Path
) -> tuple[tuple["Exported", ...], str]:
    """Write the files of all formats; returns them and what they were compared on."""
    import torch

    from fed_core.tasks.base import tasks
    from fed_models.export import SAFETENSORS, write_graph, write_weights
    from fed_models.ports import deployed

    network, fresh = networks
    task_name, compared_on, files = chosen.run.plan.config.task, "", []
    batch = inputs = graph = None
    for name in dict.fromkeys(formats):
        if name == SAFETENSORS:
            files.append(write_weights(network, fresh, folder))
            continue
        if inputs is None or graph is None:
            batch, compared_on = batch_of(found, chosen, tasks.get(task_name)(), network)
            graph = deployed(task_name, network, batch)
            noise = graph.noise(torch.Generator().manual_seed(_SEED))
            inputs = noise if batch is None else graph.of_batch(batch)
        files.append(write_graph(graph, name, inputs, folder))
    return tuple(files), compared_on or f"noise of seed {_SEED}, since no recording of the run lies here"


def _config(chosen: Chosen, network: Any, options: Any, measured: Measured) -> dict[str, Any]:
    """Return what a program needs to use the files."""
    run = chosen.run
    task: dict[str, Any] = {"name": run.plan.config.task}
    for key in ("input_size", "d_min", "d_max", "map_size", "extent_m", "image_size", "point_range", "max_points"):
        if (value := getattr(network, key, None)) is not None:
            task[key] = list(value) if isinstance(value, tuple) else value
    if task["name"] == "detection":
        task["classes"] = list(DETECTION_CLASSES)
    return {
        _SCHEMA: SCHEMA_VERSION,
        "network": {"name": run.plan.config.network, "options": options, "parameters": measured.parameters},
        "task": task,
        "normalisation": {"scale": 255.0, "mean": list(IMAGE_MEAN), "std": list(IMAGE_STD), "order": "RGB"},
        "model": {"run": run.run_id, "round": run.round, "key": chosen.key, "robot": chosen.robot, "why": chosen.why},
        "parity": {"compared_on": measured.compared_on, "tolerance": measured.tolerance},
        "files": [_file(one) for one in measured.files],
        "versions": dict(measured.versions),
    }


def _file(one: "Exported") -> dict[str, Any]:
    tree = asdict(one)
    for side in ("inputs", "outputs"):
        tree[side] = [{**port, "shape": list(port["shape"])} for port in tree[side]]
    return tree
